//! What a sandbox may reach. One policy is a mode and two lists of rules; `deny` is stronger than
//! everything else. What no rule can open is in [`crate::address`].
//!
//! Two forms: JSON for the faces (`"open"`, or an object with `mode`, `allow`, `deny`), and a short
//! text for the command line: `none`, `open`, `open;deny:*.example.com`,
//! `allow:example.com,*.example.org:443;deny:bad.example.org`.

mod cidr;
mod compiled;
mod error;
mod forms;
mod name;
mod rule;

pub use cidr::{Cidr, NotANetwork};
pub use compiled::{Compiled, Policies, Question, Refusal, Verdict};
pub use error::PolicyError;
pub use name::{HostName, NotAName};
pub use rule::{MAX_RULE, Rule, Target};

/// Most rules of a policy, both lists together.
pub const MAX_RULES: usize = 256;

/// What a sandbox may reach.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressPolicy {
    /// What holds where no rule does.
    pub mode: Mode,
    /// What may be reached; for [`Mode::Allow`] only.
    pub allow: Vec<Rule>,
    /// What may not be reached, whatever else says so.
    pub deny: Vec<Rule>,
}

/// What holds where no rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Nothing may be reached, and no name is resolved.
    None,
    /// Every public address.
    #[default]
    Open,
    /// What the list names.
    Allow,
}

impl Mode {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Open => "open",
            Self::Allow => "allow",
        }
    }
}

impl EgressPolicy {
    /// Nothing may be reached.
    #[must_use]
    pub fn none() -> Self {
        Self { mode: Mode::None, allow: Vec::new(), deny: Vec::new() }
    }

    /// Every public address may be reached.
    #[must_use]
    pub fn open() -> Self {
        Self::default()
    }

    /// What the types alone do not say.
    ///
    /// # Errors
    /// Too many rules, or a list that the mode has no use for.
    pub fn check(&self) -> Result<(), PolicyError> {
        let count = self.allow.len() + self.deny.len();
        if count > MAX_RULES {
            return Err(PolicyError::TooMany { count, limit: MAX_RULES });
        }
        let unused = |field, hint| PolicyError::Unused { mode: self.mode.as_str(), field, hint };
        if self.mode != Mode::Allow && !self.allow.is_empty() {
            return Err(unused("allow", "use mode `allow` for one"));
        }
        if self.mode == Mode::None && !self.deny.is_empty() {
            return Err(unused("deny", "it refuses everything already"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
