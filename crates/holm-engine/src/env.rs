//! Rules for environment variables.

use std::collections::BTreeMap;

use crate::Error;

/// Most bytes of one `name=value`: the kernel takes 128 KiB with the closing NUL.
pub const MAX_ENTRY: usize = (128 << 10) - 1;
/// Most bytes of all of them.
pub const MAX_TOTAL: usize = 4 << 20;
/// Most variables.
const MAX_COUNT: usize = 10_000;

/// Refuses variables that could not reach a command unchanged.
pub(crate) fn check(env: &BTreeMap<String, String>) -> Result<(), Error> {
    let mut total = 0;
    for (name, value) in env {
        let shown = crate::text::shorten(name, 60);
        if name.is_empty() {
            return Err(Error::invalid("env holds a variable with an empty name"));
        }
        if name.contains(['=', '\0']) {
            return Err(Error::invalid(format!(
                "env: the name {shown:?} holds `=` or NUL, which no variable's name may"
            )));
        }
        if value.contains('\0') {
            return Err(Error::invalid(format!("env: the value of {shown} holds NUL")));
        }
        let size = name.len() + 1 + value.len();
        if size > MAX_ENTRY {
            return Err(Error::new(
                crate::ErrorKind::TooLarge,
                format!("env: {shown} has {size} bytes; a variable may have {MAX_ENTRY}"),
            )
            .suggest("Write large values to a file with write_file."));
        }
        total += size + 1;
    }
    if total > MAX_TOTAL || env.len() > MAX_COUNT {
        return Err(Error::new(
            crate::ErrorKind::TooLarge,
            format!(
                "env has {} variables with {total} bytes; {MAX_COUNT} and {MAX_TOTAL} are allowed",
                env.len()
            ),
        )
        .suggest("Write large values to a file with write_file."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(name: &str, value: &str, want: Option<&str>) {
        let got = check(&BTreeMap::from([(name.to_owned(), value.to_owned())]));
        match (got, want) {
            (Ok(()), None) => {}
            (Err(error), Some(part)) => assert!(error.public.contains(part), "{error}"),
            (got, want) => panic!("{name:?}: {got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn case_108_wrong_or_too_large_variables_are_refused_clearly() {
        check_one("naïve", "€ and é→", None);
        check_one("A", "", None);
        check_one("A", &"x".repeat(MAX_ENTRY - 2), None);
        check_one("A", &"x".repeat(MAX_ENTRY - 1), Some("a variable may have"));
        check_one("", "x", Some("empty name"));
        check_one("A=B", "x", Some("`=`"));
        check_one("A\0", "x", Some("NUL"));
        check_one("A", "x\0y", Some("NUL"));
    }

    #[test]
    fn case_108_two_hundred_variables_of_10_kb_fit_and_4_mib_is_the_end() {
        let many = |count: usize| -> BTreeMap<_, _> {
            (0..count).map(|n| (format!("V{n}"), "x".repeat(10 << 10))).collect()
        };
        assert!(check(&many(200)).is_ok());
        assert!(check(&many(410)).is_err());
    }
}
