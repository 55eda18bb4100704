//! Failures to inject into a create, for the tests that fail each of its steps.

use std::fmt;
use std::sync::Arc;

use crate::Error;

/// When an injected fault strikes.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Instead of the step.
    Before,
    /// After the step has worked.
    After,
}

type FaultFn = dyn Fn(&str, Moment) -> bool + Send + Sync;

/// Decides which steps fail, for tests.
#[doc(hidden)]
#[derive(Clone, Default)]
pub struct Faults(Option<Arc<FaultFn>>);

impl Faults {
    /// Fails a step where `wanted(name, moment)`.
    pub fn when(wanted: impl Fn(&str, Moment) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(wanted)))
    }

    pub(crate) fn check(&self, step: &'static str, moment: Moment) -> Result<(), Error> {
        match &self.0 {
            Some(wanted) if wanted(step, moment) => {
                Err(Error::internal(step, &format!("injected {moment:?}")))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.0.is_some() { "Faults(some)" } else { "Faults(none)" })
    }
}
