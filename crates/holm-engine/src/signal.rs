//! Names of signals.

/// `SIGSEGV` for 11. Numbers without a name stay numbers.
pub(crate) fn name(number: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let index = number.checked_sub(1).and_then(|index| usize::try_from(index).ok());
    match index.and_then(|index| NAMES.get(index)) {
        Some(name) => format!("SIG{name}"),
        None => format!("signal {number}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn case_19_signals_are_named() {
        for (number, want) in [
            (1, "SIGHUP"),
            (9, "SIGKILL"),
            (11, "SIGSEGV"),
            (15, "SIGTERM"),
            (31, "SIGSYS"),
            (0, "signal 0"),
            (40, "signal 40"),
            (i32::MIN, "signal -2147483648"),
        ] {
            assert_eq!(super::name(number), want);
        }
    }
}
