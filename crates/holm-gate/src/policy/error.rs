//! Why a policy is no policy. The texts are for whoever wrote it.

/// A policy, or a rule of one, that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Neither a text nor an object.
    #[error("a network policy is `none`, `open`, or an object with `mode`, `allow` and `deny`")]
    Form,
    /// An unknown mode.
    #[error("unknown network mode `{mode}`; use `none`, `open` or `allow`")]
    Mode {
        /// What was given.
        mode: String,
    },
    /// A field that does not exist.
    #[error("a network policy has no field `{field}`; it has `mode`, `allow` and `deny`")]
    Field {
        /// What was given.
        field: String,
    },
    /// A list that is none.
    #[error("`{field}` of a network policy must be a list of texts such as \"example.com:443\"")]
    List {
        /// Which one.
        field: &'static str,
    },
    /// A list that the mode has no use for.
    #[error("network mode `{mode}` has no `{field}` list; {hint}")]
    Unused {
        /// The mode.
        mode: &'static str,
        /// The list.
        field: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// Too many rules.
    #[error("{count} network rules; the limit is {limit}")]
    TooMany {
        /// How many.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A rule that cannot be read.
    #[error("network rule `{rule}`: {reason}")]
    Rule {
        /// The rule, cut and without control characters.
        rule: String,
        /// What is wrong, and what to write.
        reason: String,
    },
}

impl PolicyError {
    /// For a rule as it was given.
    pub(crate) fn rule(text: &str, reason: impl Into<String>) -> Self {
        Self::Rule { rule: crate::text::shown(text, 80), reason: reason.into() }
    }
}
