//! A failed step, on its way from whichever process met it to the caller of the driver.

use serde::{Deserialize, Serialize};

use crate::driver::{DriverError, DriverErrorKind};
use crate::step::Step;

/// What went wrong, in which step. `public` may be shown to users; `internal` may hold host paths.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failure {
    /// The step, where one was under way.
    pub step: Option<Step>,
    /// Its class.
    pub kind: DriverErrorKind,
    /// For users.
    pub public: String,
    /// For the log.
    pub internal: String,
}

impl Failure {
    /// A failure that is nobody's fault but ours or the host's.
    pub fn internal(internal: impl Into<String>) -> Self {
        Self {
            step: None,
            kind: DriverErrorKind::Internal,
            public: "The sandbox could not be made; the log has the reason.".into(),
            internal: internal.into(),
        }
    }

    /// A failure of a class of its own, with a text for users.
    pub fn of(kind: DriverErrorKind, public: impl Into<String>) -> Self {
        let public = public.into();
        Self { step: None, kind, internal: public.clone(), public }
    }

    /// Adds what only the log may show.
    #[must_use]
    pub fn because(mut self, internal: impl std::fmt::Display) -> Self {
        self.internal = format!("{} ({internal})", self.internal);
        self
    }

    /// Names the step.
    #[must_use]
    pub fn in_step(mut self, step: Step) -> Self {
        self.step.get_or_insert(step);
        self
    }
}

impl From<Failure> for DriverError {
    fn from(failure: Failure) -> Self {
        let internal = match failure.step {
            Some(step) => format!("step {step:?}: {}", failure.internal),
            None => failure.internal,
        };
        Self { kind: failure.kind, message: failure.public, internal }
    }
}

/// Says what was tried when a system call failed.
pub trait Attempt<T> {
    /// Turns an error into a [`Failure`] that begins with `what`.
    fn tried(self, what: &str) -> Result<T, Failure>;
}

impl<T, E: std::fmt::Display> Attempt<T> for Result<T, E> {
    fn tried(self, what: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure::internal(format!("{what}: {error}")))
    }
}
