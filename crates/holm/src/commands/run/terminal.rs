//! The caller's terminal: raw while the command has it, and restored whatever happens.

use std::sync::{Mutex, Once, PoisonError};

use holm_wire::process::PtySize;
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The modes to go back to, while they are changed. Process-wide because the terminal is: the
/// panic hook must find it too.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);

/// True when the command should get a terminal of its own: both ends are terminals, and this
/// process may read from it (in the background a read or a mode change would stop it).
pub(super) fn wanted() -> bool {
    rustix::termios::isatty(stdin())
        && rustix::termios::isatty(stdout())
        && rustix::termios::tcgetpgrp(stdin())
            .is_ok_and(|group| group == rustix::process::getpgrp())
}

/// True when standard input is our session's terminal and another group of processes has it: to
/// read from it would stop this process, signals and timeout included.
pub(super) fn is_anothers() -> bool {
    rustix::termios::tcgetpgrp(stdin()).is_ok_and(|group| group != rustix::process::getpgrp())
}

/// The terminal's size, or the usual one where it does not know (0 × 0 confuses programs).
pub(super) fn size() -> PtySize {
    match tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            PtySize { cols: size.ws_col, rows: size.ws_row }
        }
        _ => PtySize { cols: 80, rows: 24 },
    }
}

/// Raw mode; dropping it restores the terminal.
#[derive(Debug)]
pub(super) struct Raw(());

impl Raw {
    /// Changes the modes: every key goes to the command, which has line editing and signals of
    /// its own terminal.
    pub(super) fn enter() -> rustix::io::Result<Self> {
        static HOOK: Once = Once::new();
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        HOOK.call_once(|| {
            let report = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                report(panic);
            }));
        });
        *SAVED.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let guard = Self(());
        tcsetattr(stdin(), OptionalActions::Drain, &raw)?;
        Ok(guard)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    if let Some(before) = SAVED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // Nothing more can be done when the terminal is gone.
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &before);
    }
}
