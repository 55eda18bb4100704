//! From `fork` to `exec`: what a command's process does before it becomes the command.
//!
//! Everything it needs is made ready in [`Plan`] beforehand; here are system calls only.

use std::ffi::CString;
use std::os::fd::RawFd;

/// What the process does when a step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Stage {
    /// Session, terminal and descriptors.
    Stdio = 1,
    /// Limits.
    Limits = 2,
    /// User and groups.
    User = 3,
    /// Landlock.
    Landlock = 4,
    /// Working directory.
    Directory = 5,
    /// The program.
    Exec = 6,
    /// The second fork, in the supervisor.
    Fork = 7,
}

impl Stage {
    /// The stage that a number from the other process means.
    pub fn of(number: i32) -> Self {
        match number {
            2 => Self::Limits,
            3 => Self::User,
            4 => Self::Landlock,
            5 => Self::Directory,
            6 => Self::Exec,
            7 => Self::Fork,
            _ => Self::Stdio,
        }
    }
}

/// User and groups to become.
#[derive(Debug, Clone)]
pub struct Ids {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// Everything a command's process needs.
#[derive(Debug)]
pub struct Plan {
    /// Where the program may be, in order.
    pub candidates: Vec<CString>,
    /// Arguments, the program's name first.
    pub argv: Vec<CString>,
    /// `NAME=value`.
    pub envp: Vec<CString>,
    /// Working directories, tried in order.
    pub directories: Vec<CString>,
    /// Who to become; `None` stays who the guest is.
    pub ids: Option<Ids>,
    /// `RLIMIT_NPROC`; 0 leaves it.
    pub max_processes: u64,
    /// `RLIMIT_NOFILE`, soft and hard.
    pub open_files: (u64, u64),
    /// Rule set to enter.
    pub landlock: Option<RawFd>,
    /// Said on standard error when there is no such program.
    pub not_found: Vec<u8>,
    /// Said when it may not be executed.
    pub not_executable: Vec<u8>,
    /// Descriptors 0, 1 and 2.
    pub stdio: [RawFd; 3],
    /// They are a terminal, which becomes the controlling one.
    pub terminal: bool,
    /// Write what the kernel says of this process to standard output instead of becoming the
    /// program.
    pub report: bool,
    /// A program that has no name here, to become instead of one of the candidates.
    pub own: Option<RawFd>,
}

/// The pointer arrays that `execve` wants, made before the fork.
#[derive(Debug)]
pub struct Pointers {
    argv: Vec<*const libc::c_char>,
    shell_argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
}

impl Pointers {
    /// Pointers into `plan`, which must outlive them.
    pub fn new(plan: &Plan) -> Self {
        let list = |texts: &[CString]| {
            texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
        };
        let argv = list(&plan.argv);
        // `/bin/sh FILE args…` for a script without an interpreter line, as execvp does.
        let mut shell_argv = vec![c"sh".as_ptr(), std::ptr::null()];
        shell_argv.extend_from_slice(argv.get(1..).unwrap_or(&[std::ptr::null()]));
        Self { argv, shell_argv, envp: list(&plan.envp) }
    }
}

fn errno() -> i32 {
    // SAFETY: the C library gives a valid pointer to this thread's error number.
    unsafe { *libc::__errno_location() }
}

/// Writes a report on the status pipe and ends.
fn fail(status: RawFd, stage: Stage, error: i32) -> ! {
    let record = [stage as i32, error];
    // SAFETY: the record outlives the call; _exit does not return.
    unsafe {
        libc::write(status, record.as_ptr().cast(), size_of_val(&record));
        libc::_exit(127)
    }
}

fn check(result: libc::c_int, status: RawFd, stage: Stage) {
    if result < 0 {
        fail(status, stage, errno());
    }
}

/// Forks a process that goes through the steps of `plan`, which ends in a report. It is nobody's
/// command. Gives its process id.
pub fn fork_report(plan: &Plan) -> std::io::Result<i32> {
    let mut pointers = Pointers::new(plan);
    // SAFETY: the copy has this thread only and makes system calls on memory prepared before; it
    // never returns from here. A failed step shows in an empty report.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => become_command(plan, &mut pointers, -1),
        pid => Ok(pid),
    }
}

/// Becomes the command. `status` is a pipe that closes on exec; a failed step is reported there.
pub fn become_command(plan: &Plan, pointers: &mut Pointers, status: RawFd) -> ! {
    // SAFETY: this process has one thread. Every pointer below is into `plan`, `pointers` or this
    // stack, all of which live until exec or _exit.
    unsafe {
        check(libc::setsid(), status, Stage::Stdio);
        for (target, fd) in plan.stdio.iter().enumerate() {
            // The guest never holds 0, 1 or 2 itself, so no source is overwritten here.
            let target = i32::try_from(target).unwrap_or(0);
            check(libc::dup2(*fd, target), status, Stage::Stdio);
        }
        if plan.terminal {
            check(libc::ioctl(0, libc::TIOCSCTTY, 0), status, Stage::Stdio);
        }
        restore_signals();
        libc::umask(0o022);
        limits(plan, status);
        if let Some(ids) = &plan.ids {
            check(libc::setgroups(ids.groups.len(), ids.groups.as_ptr()), status, Stage::User);
            check(libc::setresgid(ids.gid, ids.gid, ids.gid), status, Stage::User);
            check(libc::setresuid(ids.uid, ids.uid, ids.uid), status, Stage::User);
        }
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), status, Stage::Landlock);
        if let Some(ruleset) = plan.landlock {
            let done = libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0u32);
            check(if done < 0 { -1 } else { 0 }, status, Stage::Landlock);
        }
        enter_directory(plan, status);
        libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        if plan.report {
            report()
        }
        exec(plan, pointers, status)
    }
}

/// Default dispositions and an empty mask: ignored signals would outlive the exec. The bare call,
/// because the C library leaves out the two signals that it uses itself.
fn restore_signals() {
    // SAFETY: the kernel's sigaction is at most 32 bytes on 64-bit machines, and all zeros mean
    // SIG_DFL without flags and mask; the set is initialised before use.
    unsafe {
        let default = [0u64; 4];
        for signal in 1..=64 {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                size_of::<u64>(),
            );
        }
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

fn limits(plan: &Plan, status: RawFd) {
    let set = |resource, soft, hard| {
        let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
        // SAFETY: the struct outlives the call.
        unsafe { libc::setrlimit(resource, &raw const limit) }
    };
    // Hard 1 instead of 0: the kernel then also skips a core handler of the host.
    check(set(libc::RLIMIT_CORE, 0, 1), status, Stage::Limits);
    check(set(libc::RLIMIT_NOFILE, plan.open_files.0, plan.open_files.1), status, Stage::Limits);
    if plan.max_processes > 0 {
        let asked = plan.max_processes;
        check(set(libc::RLIMIT_NPROC, asked, asked), status, Stage::Limits);
    }
    // Commands go before the guest when memory is short. Best effort: where it fails, the
    // kernel still takes the largest process, which is not the guest.
    // SAFETY: constant strings; the descriptor is closed again.
    unsafe {
        if libc::geteuid() != 0 {
            // A process that may not be traced does not own its own /proc files. Only the
            // rootless form comes here, where a tracer is refused by seccomp as well.
            libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        }
        let fd = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if fd >= 0 {
            libc::write(fd, c"500".as_ptr().cast(), 3);
            libc::close(fd);
        }
    }
}

fn enter_directory(plan: &Plan, status: RawFd) {
    let mut first = 0;
    for directory in &plan.directories {
        // SAFETY: a NUL-terminated string of the plan.
        if unsafe { libc::chdir(directory.as_ptr()) } == 0 {
            return;
        }
        if first == 0 {
            first = errno();
        }
    }
    fail(status, Stage::Directory, first);
}

/// Writes what the kernel says of this process, and whether it may write to its own /proc, to
/// standard output and ends.
fn report() -> ! {
    let mut buffer = [0u8; 4096];
    // SAFETY: constant strings, and a buffer that is valid for its whole length. Dumpable, as an
    // exec would make it: otherwise its own /proc is not its own, which would look like Landlock.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        for path in [c"/proc/self/status", c"/proc/self/limits"] {
            let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
            while let Ok(got @ 1..) =
                usize::try_from(libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()))
            {
                libc::write(1, buffer.as_ptr().cast(), got);
            }
            libc::close(fd);
        }
        let fd = libc::open(c"/proc/self/comm".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        let said = if fd < 0 { c"Landlock: denied\n" } else { c"Landlock: none\n" };
        libc::write(1, said.as_ptr().cast(), said.count_bytes());
        libc::_exit(0)
    }
}

fn exec(plan: &Plan, pointers: &mut Pointers, status: RawFd) -> ! {
    if let Some(own) = plan.own {
        // SAFETY: the arrays end with a null pointer and point into the plan.
        unsafe {
            libc::syscall(
                libc::SYS_execveat,
                own,
                c"".as_ptr(),
                pointers.argv.as_ptr(),
                pointers.envp.as_ptr(),
                libc::AT_EMPTY_PATH,
            );
        }
        fail(status, Stage::Exec, errno());
    }
    let mut denied = false;
    for candidate in &plan.candidates {
        // SAFETY: the arrays end with a null pointer and point into the plan, and so does the path.
        unsafe {
            // An exec that fails costs the kernel as much as one that succeeds, and most places of
            // PATH do not have the program. Every other failure is the exec's to find.
            if libc::access(candidate.as_ptr(), libc::F_OK) < 0 && errno() == libc::ENOENT {
                continue;
            }
            libc::execve(candidate.as_ptr(), pointers.argv.as_ptr(), pointers.envp.as_ptr());
        }
        match errno() {
            libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::ENAMETOOLONG => {}
            libc::EACCES | libc::EISDIR | libc::EPERM => denied = true,
            libc::ENOEXEC => {
                pointers.shell_argv[1] = candidate.as_ptr();
                // SAFETY: as above.
                unsafe {
                    libc::execve(
                        c"/bin/sh".as_ptr(),
                        pointers.shell_argv.as_ptr(),
                        pointers.envp.as_ptr(),
                    );
                }
                denied = true;
            }
            error => fail(status, Stage::Exec, error),
        }
    }
    // EACCES may also mean that a directory of PATH cannot be searched: a shell says
    // "permission denied" then, too.
    let (text, code) = if denied { (&plan.not_executable, 126) } else { (&plan.not_found, 127) };
    // SAFETY: the text outlives the call; _exit does not return.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(code)
    }
}

/// A C string of `bytes`, or `None` when a NUL is in it.
pub fn c_string(bytes: &[u8]) -> Option<CString> {
    CString::new(bytes).ok()
}
