//! Which secrets a new sandbox may use, and the texts that stand for them in it.

use std::collections::BTreeMap;

use holm_store::{Secret, random_bytes};

use crate::text::shorten;
use crate::{Engine, Error, ErrorKind, env};

/// How every text that stands for a secret begins.
const PREFIX: &str = "holm_ph_";

/// A text that nobody guesses, and that no other sandbox has.
pub(super) fn placeholder() -> Result<String, Error> {
    let digits = random_bytes::<24>()?
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    Ok(format!("{PREFIX}{digits}"))
}

/// Secrets of a new sandbox.
#[derive(Debug, Default)]
pub(crate) struct Picked {
    /// The name of each, and what stands for it.
    pub placeholders: BTreeMap<String, String>,
}

/// Those of `all` that are asked for.
fn pick(asked: &[String], all: &[Secret]) -> Result<Picked, Error> {
    let mut placeholders = BTreeMap::new();
    for name in asked {
        if !all.iter().any(|secret| secret.name == *name) {
            let known: Vec<&str> = all.iter().map(|secret| &*secret.name).collect();
            let known = match known.len() {
                0 => "this account has none".to_owned(),
                _ => format!("there are: {}", shorten(&known.join(", "), 300)),
            };
            // What cannot be a name may be a value.
            return Err(Error::invalid(match super::is_secret_name(name) {
                true => format!("there is no secret {name:?}; {known}"),
                false => format!("what is asked for as a secret is no name of one; {known}"),
            }));
        }
        placeholders.insert(name.clone(), placeholder()?);
    }
    if placeholders.len() > holm_gate::inject::MAX_INJECTIONS {
        let most = holm_gate::inject::MAX_INJECTIONS;
        return Err(Error::invalid(format!("a sandbox may use {most} secrets at most")));
    }
    Ok(Picked { placeholders })
}

impl Engine {
    /// Those of the caller's account that are asked for.
    pub(crate) async fn pick_secrets(&self, asked: &[String]) -> Result<Picked, Error> {
        if asked.is_empty() {
            return Ok(Picked::default());
        }
        self.sealer()?;
        if let Some(mend) = self.inner.no_gate() {
            let text = "sandboxes have no secrets here: this host gives no egress gate";
            return Err(Error::new(ErrorKind::IsolationUnavailable, text).suggest(mend));
        }
        let all = self.inner.store.secret_list(self.caller.account).await?;
        pick(asked, &all)
    }
}

impl Picked {
    pub fn is_empty(&self) -> bool {
        self.placeholders.is_empty()
    }

    /// Adds what stands for them to a sandbox's variables, and what makes its programs trust the
    /// gate, whose certificate is in `bundle`, where it speaks for a host.
    pub fn add_to(
        &self,
        variables: &mut BTreeMap<String, String>,
        bundle: &str,
    ) -> Result<(), Error> {
        if self.placeholders.is_empty() {
            return Ok(());
        }
        for (name, placeholder) in &self.placeholders {
            if variables.contains_key(name) {
                return Err(Error::invalid(format!(
                    "{name} is a secret and in env as well; leave it out of one of them"
                )));
            }
            variables.insert(name.clone(), placeholder.clone());
        }
        env::trust(variables, bundle);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use holm_store::AccountId;
    use jiff::Timestamp;

    use super::*;

    fn secret(name: &str) -> Secret {
        Secret {
            account_id: AccountId::ZERO,
            name: name.to_owned(),
            sealed: Vec::new(),
            hosts: Vec::new(),
            headers: Vec::new(),
            allow_plaintext: false,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn each_gets_a_text_of_its_own_and_an_unknown_one_is_named() {
        let all = [secret("A"), secret("B")];
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let picked = pick(&names(&["B", "A", "B"]), &all).expect("both");
        let mut variables = BTreeMap::from([("C".to_owned(), "c".to_owned())]);
        picked.add_to(&mut variables, "/b").expect("no conflict");
        assert!(variables["A"].starts_with(PREFIX) && variables["A"].len() == 56);
        assert_ne!(variables["A"], variables["B"]);
        assert!(variables["SSL_CERT_FILE"] == "/b" && variables["C"] == "c");
        let error = pick(&names(&["C"]), &all).expect_err("unknown");
        assert!(error.public.contains("\"C\"") && error.public.contains("A, B"), "{error}");
        let error = pick(&names(&["s3cr3t-value"]), &all).expect_err("no name");
        assert!(!error.public.contains("s3cr3t") && error.public.contains("A, B"), "{error}");
        let error = picked.add_to(&mut variables, "/b").expect_err("twice");
        assert!(error.public.contains("in env"), "{error}");
        let mut none = BTreeMap::new();
        pick(&[], &all).expect("none").add_to(&mut none, "/b").expect("nothing");
        assert!(none.is_empty());
    }
}
