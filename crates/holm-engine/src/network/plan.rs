//! Which policy a create gets.

use holm_gate::{EgressPolicy, Mode};
use holm_store::Account;

use super::unavailable;
use crate::{EngineSettings, Error};

/// A sandbox's policy, and its account's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub own: EgressPolicy,
    /// Whether the create asked for it.
    pub asked: bool,
    pub ceiling: Option<EgressPolicy>,
}

impl Wanted {
    /// Whether nothing can be reached, whatever is tried.
    pub fn is_none(&self) -> bool {
        let none = |policy: &EgressPolicy| policy.mode == Mode::None;
        none(&self.own) || self.ceiling.as_ref().is_some_and(none)
    }
}

/// What was asked for, else the default. Where there is no gate the default is no network, and to
/// ask for one is refused.
pub(crate) fn choose(
    settings: &EngineSettings,
    no_gate: Option<&str>,
    account: &Account,
    asked: Option<EgressPolicy>,
) -> Result<Wanted, Error> {
    let was_asked = asked.is_some();
    let own = match (asked, no_gate) {
        (Some(policy), Some(mend)) if policy.mode != Mode::None => return Err(unavailable(mend)),
        (Some(policy), _) => policy,
        (None, Some(_)) => EgressPolicy::none(),
        (None, None) => settings.network.clone(),
    };
    own.check().map_err(|error| Error::invalid(error.to_string()))?;
    Ok(Wanted { own, asked: was_asked, ceiling: ceiling(Some(account)) })
}

/// An account's ceiling. One that cannot be read lets nothing out, and neither does an account that
/// is not there: nobody knows what it had permitted.
pub(crate) fn ceiling(account: Option<&Account>) -> Option<EgressPolicy> {
    match account {
        Some(account) => account.limits.network.as_ref().map(super::recorded),
        None => Some(EgressPolicy::none()),
    }
}

#[cfg(test)]
mod tests {
    use holm_store::AccountId;
    use serde_json::json;

    use super::*;
    use crate::ErrorKind;

    fn check(
        default: &str,
        no_gate: Option<&str>,
        ceiling: Option<serde_json::Value>,
        asked: Option<&str>,
        want: Result<(&str, bool), ErrorKind>,
    ) {
        let read = |text: &str| text.parse::<EgressPolicy>().expect("a policy");
        let settings = EngineSettings { network: read(default), ..EngineSettings::default() };
        let mut account = Account::new(AccountId::ZERO, "a");
        account.limits.network = ceiling;
        let got = choose(&settings, no_gate, &account, asked.map(read));
        let got = got.map(|wanted| (wanted.own.to_string(), wanted.is_none()));
        let got = got.map_err(|error| error.kind);
        assert_eq!(got, want.map(|(own, none)| (own.to_owned(), none)));
    }

    #[test]
    fn what_is_asked_for_counts_and_only_where_there_is_a_gate() {
        check("open", None, None, None, Ok(("open", false)));
        check("open", None, None, Some("none"), Ok(("none", true)));
        check("none", None, None, Some("allow:a.example"), Ok(("allow:a.example", false)));
        check("allow:b.example", None, None, None, Ok(("allow:b.example", false)));
        check("open", Some("Mend it."), None, None, Ok(("none", true)));
        check("open", Some("Mend it."), None, Some("none"), Ok(("none", true)));
        let missing = Err(ErrorKind::IsolationUnavailable);
        check("open", Some("Mend it."), None, Some("open"), missing);
        check("none", Some("Mend it."), None, Some("allow:a.example"), missing);
    }

    #[test]
    fn a_ceiling_is_the_accounts_and_an_unreadable_one_lets_nothing_out() {
        check("open", None, Some(json!("none")), None, Ok(("open", true)));
        check("open", None, Some(json!({"mode": "later"})), Some("open"), Ok(("open", true)));
        let some = json!({"mode": "allow", "allow": ["a.example"]});
        check("open", None, Some(some), Some("open"), Ok(("open", false)));
    }

    /// What is adopted may be of an account that a restored database no longer has.
    #[test]
    fn an_account_that_is_not_there_permits_nothing() {
        assert_eq!(ceiling(None), Some(EgressPolicy::none()));
        assert_eq!(ceiling(Some(&Account::new(AccountId::ZERO, "a"))), None);
    }
}
