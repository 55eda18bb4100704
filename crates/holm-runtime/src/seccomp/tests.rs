//! The compiled program, run by a small interpreter over rows of calls.

use super::filter::{ALLOW, ARCH, KILL};
use super::table::{parse, rows};
use super::*;

/// A call as the kernel shows it to a filter.
struct Call {
    arch: u32,
    number: u32,
    args: [u64; 6],
}

fn word(call: &Call, offset: u32) -> u32 {
    match offset {
        0 => call.number,
        4 => call.arch,
        _ => {
            let arg = call.args[(offset as usize - 16) / 8];
            let half = if offset.is_multiple_of(8) { arg } else { arg >> 32 };
            u32::try_from(half & 0xFFFF_FFFF).unwrap()
        }
    }
}

/// What the program answers, and how many instructions that took.
fn run(program: &Program, call: &Call) -> (u32, usize) {
    let code = program.instructions();
    let (mut at, mut acc, mut steps) = (0_usize, 0_u32, 0);
    loop {
        let i = code[at];
        at += 1;
        steps += 1;
        let jump = |taken: bool| usize::from(if taken { i.jt } else { i.jf });
        match u32::from(i.code) {
            0x20 => acc = word(call, i.k),
            0x06 => return (i.k, steps),
            0x05 => at += i.k as usize,
            0x15 => at += jump(acc == i.k),
            0x35 => at += jump(acc >= i.k),
            0x45 => at += jump(acc & i.k != 0),
            other => panic!("instruction {other:#x}"),
        }
    }
}

fn answer(number: libc::c_long, args: &[u64]) -> u32 {
    let program = Program::compile().unwrap();
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    let call = Call { arch: ARCH, number: u32::try_from(number).unwrap(), args: all };
    run(&program, &call).0
}

const fn errno(value: libc::c_int) -> u32 {
    libc::SECCOMP_RET_ERRNO | value.cast_unsigned()
}

#[test]
fn decides_as_the_table_says() {
    let eperm = errno(libc::EPERM);
    let enosys = errno(libc::ENOSYS);
    let family = errno(libc::EAFNOSUPPORT);
    let protocol = errno(libc::EPROTONOSUPPORT);
    let rows: &[(&str, libc::c_long, &[u64], u32)] = &[
        ("read", libc::SYS_read, &[], ALLOW),
        ("execve", libc::SYS_execve, &[], ALLOW),
        ("openat2", libc::SYS_openat2, &[], ALLOW),
        ("landlock", libc::SYS_landlock_restrict_self, &[], ALLOW),
        ("mount", libc::SYS_mount, &[], eperm),
        ("fsopen", libc::SYS_fsopen, &[], eperm),
        ("setns", libc::SYS_setns, &[], eperm),
        ("bpf", libc::SYS_bpf, &[], eperm),
        ("clone3", libc::SYS_clone3, &[], enosys),
        ("io_uring_setup", libc::SYS_io_uring_setup, &[], enosys),
        ("keyctl", libc::SYS_keyctl, &[], enosys),
        ("a gap in the numbers", 400, &[], enosys),
        ("a call of the future", 9999, &[], enosys),
        ("x32 getpid", 0x4000_0000 + 39, &[], enosys),
        ("fork", libc::SYS_clone, &[0x0120_0011], ALLOW),
        ("thread", libc::SYS_clone, &[0x003D_0F00], ALLOW),
        ("new user namespace", libc::SYS_clone, &[0x1000_0011], eperm),
        ("new net namespace", libc::SYS_clone, &[0x4000_0011], eperm),
        ("new cgroup namespace", libc::SYS_clone, &[0x0200_0011], eperm),
        ("new mount namespace", libc::SYS_clone, &[0x0002_0011], eperm),
        ("unshare files", libc::SYS_unshare, &[0x400], ALLOW),
        ("unshare user", libc::SYS_unshare, &[0x1000_0000], eperm),
        ("unshare time", libc::SYS_unshare, &[0x80], eperm),
        ("unix socket", libc::SYS_socket, &[1, 1, 0], ALLOW),
        ("tcp", libc::SYS_socket, &[2, 1, 0], ALLOW),
        ("tcp 6", libc::SYS_socket, &[10, 1, 0], ALLOW),
        ("udp", libc::SYS_socket, &[2, 0x80802, 17], ALLOW),
        ("multipath tcp 6", libc::SYS_socket, &[10, 0x80801, 262], ALLOW),
        ("raw, which needs a capability", libc::SYS_socket, &[2, 3, 1], ALLOW),
        ("sctp", libc::SYS_socket, &[2, 1, 132], protocol),
        ("sctp 6 of one to many", libc::SYS_socket, &[10, 5, 132], protocol),
        ("sctp by its kind", libc::SYS_socket, &[2, 0x80005, 0], protocol),
        ("dccp", libc::SYS_socket, &[2, 6, 33], protocol),
        ("smc", libc::SYS_socket, &[2, 1, 256], protocol),
        ("route netlink", libc::SYS_socket, &[16, 3, 0], ALLOW),
        ("netfilter netlink", libc::SYS_socket, &[16, 3, 12], family),
        ("packet", libc::SYS_socket, &[17, 3, 0], family),
        ("vsock", libc::SYS_socket, &[40, 1, 0], family),
        ("crypto", libc::SYS_socket, &[38, 5, 0], family),
        ("TCGETS", libc::SYS_ioctl, &[0, 0x5401], ALLOW),
        ("TIOCSTI", libc::SYS_ioctl, &[0, 0x5412], eperm),
        ("TIOCSTI, high half set", libc::SYS_ioctl, &[0, 0xFFFF_FFFF_0000_5412], eperm),
        ("TIOCLINUX", libc::SYS_ioctl, &[0, 0x541C], eperm),
        ("personality query", libc::SYS_personality, &[0xFFFF_FFFF], ALLOW),
        ("no randomisation", libc::SYS_personality, &[0x0004_0000], ALLOW),
        ("own limit", libc::SYS_prlimit64, &[0, 7, 0x7FFF_0000_1000, 0], ALLOW),
        ("limit of another", libc::SYS_prlimit64, &[1, 7, 0x7FFF_0000_1000, 0], eperm),
        ("limit of another, low half 0", libc::SYS_prlimit64, &[1, 7, 1 << 32, 0], eperm),
        ("read a limit of another", libc::SYS_prlimit64, &[1, 7, 0, 0x1000], ALLOW),
        ("read implies exec", libc::SYS_personality, &[0x0040_0000], eperm),
    ];
    for (name, number, args, want) in rows {
        assert_eq!(answer(*number, args), *want, "{name}");
    }
}

#[test]
fn agrees_with_every_row_of_the_table_and_is_short() {
    let program = Program::compile().unwrap();
    let mut longest = 0;
    for row in rows().unwrap() {
        let call = Call { arch: ARCH, number: row.number, args: [0; 6] };
        let (got, steps) = run(&program, &call);
        longest = longest.max(steps);
        match row.rule {
            table::Rule::Errno(value) => assert_eq!(got, errno(value.into()), "{}", row.name),
            table::Rule::Socket => assert_eq!(got, errno(libc::EAFNOSUPPORT), "{}", row.name),
            _ => assert_eq!(got, ALLOW, "{}", row.name),
        }
    }
    assert!(longest < 32, "{longest} instructions for one call");
}

#[test]
fn numbers_are_those_of_the_c_library() {
    let rows = rows().unwrap();
    for (name, number) in [
        ("read", libc::SYS_read),
        ("clone", libc::SYS_clone),
        ("mount", libc::SYS_mount),
        ("setns", libc::SYS_setns),
        ("seccomp", libc::SYS_seccomp),
        ("execveat", libc::SYS_execveat),
        ("clone3", libc::SYS_clone3),
        ("mount_setattr", libc::SYS_mount_setattr),
        ("mseal", libc::SYS_mseal),
    ] {
        let row = rows.iter().find(|row| row.name == name).expect(name);
        assert_eq!(i64::from(row.number), number, "{name}");
    }
}

#[test]
fn another_architecture_is_killed() {
    let program = Program::compile().unwrap();
    // AUDIT_ARCH_I386
    let call = Call { arch: 0x4000_0003, number: 4, args: [0; 6] };
    assert_eq!(run(&program, &call).0, KILL);
}

#[test]
fn a_broken_table_is_refused() {
    for text in ["1 read", "1 read maybe", "2 a allow\n1 b allow", "x read allow"] {
        assert!(parse(text).is_err(), "{text:?}");
    }
}
