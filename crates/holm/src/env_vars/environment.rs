//! What is set in the environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::EnvVar;

/// The variables that were set at the start. Read once, so that what is decided from them cannot
/// change while it is decided, and so that tests need no process-wide state.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Those of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// Any.
    pub fn of<K: Into<OsString>, V: Into<OsString>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// The value of any variable, also of one that holm does not declare.
    #[must_use]
    pub fn raw(&self, name: &OsStr) -> Option<&OsStr> {
        self.0.get(name).map(OsString::as_os_str)
    }

    /// The name that was set, and its value: the first non-empty of `variable`'s names.
    #[must_use]
    pub fn get(&self, variable: EnvVar) -> Option<(&'static str, &OsStr)> {
        std::iter::once(variable.name).chain(variable.aliases.iter().copied()).find_map(|name| {
            let value = self.raw(OsStr::new(name))?;
            (!value.is_empty()).then_some((name, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::API_KEY;
    use super::*;

    #[test]
    fn the_first_name_that_is_set_and_not_empty_counts() {
        let check = |pairs: &[(&str, &str)], expected: Option<(&str, &str)>| {
            let environment = Environment::of(pairs.iter().copied());
            let found = environment.get(API_KEY).map(|(n, v)| (n, v.to_str().unwrap()));
            assert_eq!(found, expected, "{pairs:?}");
        };
        check(&[], None);
        check(&[("AAS_API_KEY", "a")], Some(("AAS_API_KEY", "a")));
        check(
            &[("AAS_API_KEY", "a"), ("ABX_SANDBOX_API_KEY", "b")],
            Some(("ABX_SANDBOX_API_KEY", "b")),
        );
        check(&[("AAS_API_KEY", "a"), ("HOLM_API_KEY", "")], Some(("AAS_API_KEY", "a")));
        check(&[("AAS_API_KEY", "a"), ("HOLM_API_KEY", "c")], Some(("HOLM_API_KEY", "c")));
    }
}
