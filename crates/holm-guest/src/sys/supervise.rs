//! The supervisor: one small process for each command, between the guest and the command.
//!
//! It is a child subreaper, so whatever the command starts stays below it, also what leaves its
//! session or forks twice. It tells the guest when the command ends, goes on for as long as
//! anything that the command started lives, and kills all of it when told to. It is a copy of
//! the guest by `fork` without `exec` (a tenth of a millisecond) and allocates nothing.
//!
//! Who kills a supervisor gains nothing: its children fall to the guest, which knows all its
//! supervisors, so every other child it has is such an orphan and is killed.

use std::io;
use std::os::fd::RawFd;

use super::child::{self, Plan, Pointers, Stage};
use super::raw::{self, Reaped};
use super::tree;

/// Records from supervisor to guest: kind and two numbers.
pub const RECORD: usize = 12;
/// The command runs: its process id.
pub const STARTED: i32 = 1;
/// It could not be started: stage, error number.
pub const FAILED: i32 = 2;
/// It ended: its wait status.
pub const EXITED: i32 = 3;

/// Guest to supervisor: kill everything, then end.
pub const KILL: u8 = b'K';
/// Guest to supervisor: nobody reads the output any more; read and drop it, so that what still
/// runs neither blocks nor dies of a broken pipe; and nobody reads reports any more.
pub const DETACH: u8 = b'D';

/// How long one kill may take before the supervisor ends and leaves the rest to the guest.
const KILL_BOUND_MS: i64 = 3000;

/// Forks a supervisor that starts the command of `plan`. `control` is its end of a sequenced
/// packet socket; `drains` are the reading ends of the command's output. Gives its process id.
pub fn fork(plan: &Plan, control: RawFd, drains: [RawFd; 2]) -> io::Result<i32> {
    let mut pointers = Pointers::new(plan);
    // SAFETY: the copy has this thread only and makes system calls on memory prepared before; it
    // never returns from here and never touches what another thread may have locked.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => run(plan, &mut pointers, control, drains),
        pid => Ok(pid),
    }
}

fn send(control: RawFd, kind: i32, first: i32, second: i32) {
    let record = [kind, first, second];
    // SAFETY: the record outlives the call. A guest that is gone needs no report.
    unsafe {
        libc::send(control, record.as_ptr().cast(), RECORD, libc::MSG_NOSIGNAL);
    }
}

fn leave() -> ! {
    // SAFETY: _exit runs no destructors of the guest's copy and does not return.
    unsafe { libc::_exit(0) }
}

/// Closes every descriptor from 3 on but those in `keep`.
fn close_others(keep: &mut [RawFd]) {
    keep.sort_unstable();
    let mut next = 3;
    for fd in keep.iter().copied().filter(|fd| *fd >= 3) {
        if fd > next {
            close_range(next, fd - 1);
        }
        next = next.max(fd + 1);
    }
    close_range(next, RawFd::MAX);
}

fn close_range(first: RawFd, last: RawFd) {
    // SAFETY: only numbers of the guest's copy that are not used here are closed.
    unsafe {
        libc::syscall(libc::SYS_close_range, first, last, 0u32);
    }
}

fn run(plan: &Plan, pointers: &mut Pointers, control: RawFd, drains: [RawFd; 2]) -> ! {
    let landlock = plan.landlock.unwrap_or(-1);
    let own = plan.own.unwrap_or(-1);
    let [stdin, stdout, stderr] = plan.stdio;
    close_others(&mut [control, drains[0], drains[1], landlock, own, stdin, stdout, stderr]);
    raw::become_subreaper();
    let Ok(signals) = raw::child_signals(Some(libc::SIGTERM)) else {
        send(control, FAILED, Stage::Fork as i32, libc::EMFILE);
        leave()
    };
    let signals = std::os::fd::IntoRawFd::into_raw_fd(signals);
    let mut status = [-1; 2];
    // SAFETY: pipe2 fills the array of two; prctl copies the name.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"holm-command".as_ptr());
        // In a sandbox nothing outlives PID 1; a guest started by hand must not leave anything.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        if libc::pipe2(status.as_mut_ptr(), libc::O_CLOEXEC) < 0 {
            send(control, FAILED, Stage::Fork as i32, *libc::__errno_location());
            leave()
        }
    }
    // SAFETY: single-threaded here; the child goes straight to exec or _exit.
    let command = match unsafe { libc::fork() } {
        -1 => {
            let error = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN);
            send(control, FAILED, Stage::Fork as i32, error);
            leave()
        }
        0 => child::become_command(plan, pointers, status[1]),
        pid => pid,
    };
    close_others(&mut [control, drains[0], drains[1], signals, status[0]]);
    let mut report = [0i32; 2];
    // SAFETY: reads at most the array's size; ends when exec closed the other end.
    let got = unsafe { libc::read(status[0], report.as_mut_ptr().cast(), size_of_val(&report)) };
    close_range(status[0], status[0]);
    if usize::try_from(got) == Ok(size_of_val(&report)) {
        send(control, FAILED, report[0], report[1]);
        leave()
    }
    send(control, STARTED, command, 0);
    watch(command, control, signals, drains)
}

fn watch(command: i32, control: RawFd, signals: RawFd, drains: [RawFd; 2]) -> ! {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // Negative numbers are left out by poll; the drains join at `DETACH`.
    let mut polled = [entry(control), entry(signals), entry(-1), entry(-1)];
    loop {
        // SAFETY: the array and its length agree.
        unsafe {
            libc::poll(polled.as_mut_ptr(), 4, -1);
        }
        if polled[1].revents != 0 {
            if told_to_end(signals) {
                kill_all(command, control);
            }
            reap(command, control);
        }
        if polled[0].revents != 0 {
            let mut order = 0u8;
            // SAFETY: one byte into a byte.
            let got =
                unsafe { libc::recv(control, (&raw mut order).cast(), 1, libc::MSG_DONTWAIT) };
            match (got, order) {
                (1, DETACH) => {
                    polled[0].fd = -1;
                    polled[2].fd = drains[0];
                    polled[3].fd = drains[1];
                    close_range(control, control);
                }
                // The guest says so, or is gone.
                (1, KILL) | (0, _) => kill_all(command, control),
                _ => {}
            }
        }
        for drain in &mut polled[2..] {
            if drain.revents != 0 && !discard(drain.fd) {
                drain.fd = -1;
            }
        }
    }
}

/// Takes every child that has ended, and reports the command's end. Ends itself when none is left.
fn reap(command: i32, control: RawFd) {
    loop {
        match raw::reap() {
            Reaped::Child(pid, status) if pid == command => send(control, EXITED, status, 0),
            Reaped::Child(..) => {}
            Reaped::NoneYet => return,
            Reaped::NoChildren => leave(),
        }
    }
}

/// Reads the signals that came. True when `SIGTERM` was among them.
fn told_to_end(signals: RawFd) -> bool {
    let mut told = false;
    loop {
        // SAFETY: the struct is plain data, and the read fills it whole or not at all.
        let (got, number) = unsafe {
            let mut info = std::mem::zeroed::<libc::signalfd_siginfo>();
            let got = libc::read(signals, (&raw mut info).cast(), size_of_val(&info));
            (got, info.ssi_signo)
        };
        if got <= 0 {
            return told;
        }
        told |= number == libc::SIGTERM.unsigned_abs();
    }
}

/// Reads once and drops it. False at the end.
fn discard(fd: RawFd) -> bool {
    let mut buffer = [std::mem::MaybeUninit::<u8>::uninit(); 32 << 10];
    // SAFETY: the buffer is valid for its length; nothing reads it.
    let got = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    let again = io::Error::last_os_error().raw_os_error();
    got > 0 || (got < 0 && matches!(again, Some(libc::EAGAIN | libc::EINTR)))
}

fn now_ms() -> i64 {
    // SAFETY: the struct lives on this stack.
    unsafe {
        let mut now = std::mem::zeroed::<libc::timespec>();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now);
        now.tv_sec * 1000 + now.tv_nsec / 1_000_000
    }
}

/// Kills until no child is left, then ends. What it cannot end in time falls to the guest.
fn kill_all(command: i32, control: RawFd) -> ! {
    let end = now_ms() + KILL_BOUND_MS;
    loop {
        tree::kill_descendants(&|_| false);
        reap(command, control);
        if now_ms() > end {
            // SAFETY: _exit does not return. The code tells the guest to sweep.
            unsafe { libc::_exit(1) }
        }
        // SAFETY: no pointers. Lets the killed processes end before the next pass.
        unsafe {
            libc::usleep(200);
        }
    }
}
