//! Signals that reach holm and are meant for the command.

use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Something that holm was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// Pass this on.
    Forward(Forwarded),
    /// The window has another size.
    Resized,
}

/// A signal that is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forwarded {
    Interrupt,
    Terminate,
    Hangup,
    Quit,
}

impl Forwarded {
    /// Its number.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Hangup => 1,
            Self::Interrupt => 2,
            Self::Quit => 3,
            Self::Terminate => 15,
        }
    }

    /// Its name in the guest's protocol.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGNAL_SIGINT",
            Self::Terminate => "SIGNAL_SIGTERM",
            Self::Hangup => "SIGNAL_SIGHUP",
            Self::Quit => "SIGNAL_SIGQUIT",
        }
    }

    /// True for those after which nobody waits: who sends them wants holm to end.
    pub(super) fn is_final(self) -> bool {
        matches!(self, Self::Terminate | Self::Hangup)
    }
}

/// All of them, caught from [`Signals::catch`] on.
pub(super) struct Signals {
    forwarded: Vec<(Forwarded, Signal)>,
    resized: Signal,
}

impl Signals {
    /// Takes the signals over from their default, which would end holm before it cleaned up.
    pub(super) fn catch() -> io::Result<Self> {
        let forwarded = [
            (Forwarded::Interrupt, SignalKind::interrupt()),
            (Forwarded::Terminate, SignalKind::terminate()),
            (Forwarded::Hangup, SignalKind::hangup()),
            (Forwarded::Quit, SignalKind::quit()),
        ];
        let forwarded = forwarded.into_iter();
        Ok(Self {
            forwarded: forwarded
                .map(|(told, kind)| Ok((told, signal(kind)?)))
                .collect::<io::Result<_>>()?,
            resized: signal(SignalKind::window_change())?,
        })
    }

    /// The next one. Cancel-safe.
    pub(super) async fn next(&mut self) -> Told {
        std::future::poll_fn(|context| {
            for (told, signal) in &mut self.forwarded {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(Told::Forward(*told));
                }
            }
            self.resized.poll_recv(context).map(|_| Told::Resized)
        })
        .await
    }

    /// The next one that is passed on.
    pub(super) async fn forwarded(&mut self) -> Forwarded {
        loop {
            if let Told::Forward(told) = self.next().await {
                return told;
            }
        }
    }
}
