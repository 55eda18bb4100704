//! Who calls. It is in the engine's handle, so that no call can be made for nobody in particular.

use std::collections::BTreeSet;

use holm_store::{AccountId, KeyId, KeyScope, Owner};

use crate::{Error, ErrorKind};

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Whose sandboxes are seen, made and paid.
    pub account: AccountId,
    /// The key that was presented.
    pub key: Option<KeyId>,
    /// What may be done. [`KeyScope::Sandboxes`] includes [`KeyScope::Read`], as who may end a
    /// sandbox may look at it; [`KeyScope::Admin`] includes neither.
    pub scopes: BTreeSet<KeyScope>,
    /// The session that the call belongs to, kept with the sandboxes that it makes.
    pub session: Option<String>,
}

impl Caller {
    /// The built-in account of an engine, for where there are no keys: an embedded engine, a
    /// service with one token for all.
    #[must_use]
    pub fn local() -> Self {
        Self {
            account: AccountId::ZERO,
            key: None,
            scopes: [KeyScope::Read, KeyScope::Sandboxes].into(),
            session: None,
        }
    }

    /// Who runs the engine: the built-in account with every scope.
    #[must_use]
    pub fn operator() -> Self {
        Self { scopes: KeyScope::ALL.into(), ..Self::local() }
    }

    /// The same in a session.
    #[must_use]
    pub fn in_session(self, session: impl Into<String>) -> Self {
        Self { session: Some(session.into()), ..self }
    }

    /// Whether it may do what needs `scope`.
    #[must_use]
    pub fn may(&self, scope: KeyScope) -> bool {
        let implied = scope == KeyScope::Read && self.scopes.contains(&KeyScope::Sandboxes);
        implied || self.scopes.contains(&scope)
    }

    /// Fails unless it may do what needs `scope`.
    pub(crate) fn needs(&self, scope: KeyScope) -> Result<(), Error> {
        if self.may(scope) {
            return Ok(());
        }
        let text = format!("this API key may not do that: it lacks the scope `{scope}`");
        Err(Error::new(ErrorKind::Forbidden, text))
    }

    pub(crate) fn owner(&self) -> Owner {
        Owner::Account(self.account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(has: &[KeyScope], may: &[KeyScope]) {
        let caller = Caller { scopes: has.iter().copied().collect(), ..Caller::local() };
        for scope in KeyScope::ALL {
            assert_eq!(caller.may(scope), may.contains(&scope), "{has:?} {scope}");
            match caller.needs(scope) {
                Ok(()) => assert!(may.contains(&scope)),
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::Forbidden);
                    assert!(error.public.contains(scope.as_str()), "{error}");
                }
            }
        }
    }

    #[test]
    fn scopes_allow_what_they_say() {
        use KeyScope::{Admin, Read, Sandboxes};
        check(&[], &[]);
        check(&[Read], &[Read]);
        check(&[Sandboxes], &[Read, Sandboxes]);
        check(&[Admin], &[Admin]);
        check(&[Admin, Read], &[Admin, Read]);
        check(&KeyScope::ALL, &KeyScope::ALL);
    }
}
