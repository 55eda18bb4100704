//! What lets a visitor look at a private preview: a signed text for one port, for a while.
//!
//! A *link* token is in an address, works once and for minutes. An *access* token is in a cookie or
//! a header, works for hours. Both are for the port as it was exposed at that time: exposed anew
//! after it was not, it has none.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use holm_engine::{AccountId, Error, Port, random_bytes};
use jiff::Timestamp;
use sha2::Sha256;

use super::used::{Mark, Used};

/// Bytes of a token before its signature: kind, end, and what tells it from others.
const HEAD: usize = 1 + 8 + NONCE;
/// Bytes that tell a token from others.
pub(super) const NONCE: usize = 9;
/// Bytes of a signature.
const MAC: usize = 24;

/// Characters of a token.
const LENGTH: usize = (HEAD + MAC) / 3 * 4;
/// How tokens begin: their kind, and the upper bits of an end in this century.
const BEGINS: [&str; 2] = ["AQAAAA", "AgAAAA"];

/// Whether a text holds what is a token by its form and has not ended, for whichever port it may be.
#[must_use]
pub fn holds_token(text: &str) -> bool {
    let is_token = |text: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
        let end = bytes.get(1..9).and_then(|end| end.try_into().ok()).map(i64::from_be_bytes);
        bytes.len() == HEAD + MAC && end.is_some_and(|end| Timestamp::now().as_second() < end)
    };
    let mut starts = BEGINS.iter().flat_map(|begin| text.match_indices(begin));
    starts.any(|(at, _)| text.get(at..at + LENGTH).is_some_and(is_token))
}

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In an address, once.
    Link = 1,
    /// In a cookie or a header.
    Access = 2,
}

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Its text.
    pub text: String,
    /// From when on it is refused.
    pub expires_at: Timestamp,
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Token(until {})", self.expires_at)
    }
}

/// Makes tokens and knows them.
pub struct Signer {
    keyed: Option<Hmac<Sha256>>,
    used: Used,
}

impl Signer {
    /// Under a secret of 32 random bytes. Without one there are no tokens.
    #[must_use]
    pub fn new(secret: Option<[u8; 32]>) -> Self {
        let keyed = secret.map(|secret| {
            // HMAC takes keys of every length; a block is 64 bytes, padded with zeros as HMAC says.
            let mut block = [0; 64];
            block[..32].copy_from_slice(&secret);
            Hmac::new(&block.into())
        });
        Self { keyed, used: Used::default() }
    }

    /// A new token for this port.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn sign(&self, port: &Port, kind: Kind, life: Duration) -> Result<Token, Error> {
        let now = Timestamp::now();
        let life = i64::try_from(life.as_secs()).unwrap_or(i64::MAX);
        let end = now.as_second().saturating_add(life);
        let expires_at = Timestamp::from_second(end).unwrap_or(Timestamp::MAX);
        let mut head = [0; HEAD];
        head[0] = kind as u8;
        head[1..9].copy_from_slice(&expires_at.as_second().to_be_bytes());
        head[9..].copy_from_slice(&random_bytes::<NONCE>()?);
        let mut bytes = head.to_vec();
        let mac = self.mac(port, &head).ok_or_else(|| Error::internal("sign", &"no secret"))?;
        bytes.extend_from_slice(&mac.finalize().into_bytes()[..MAC]);
        Ok(Token { text: URL_SAFE_NO_PAD.encode(bytes), expires_at })
    }

    /// Until when this access token lets its holder look at that port; nothing where it does not.
    #[must_use]
    pub fn admits(&self, port: &Port, text: &str) -> Option<Timestamp> {
        let (end, _) = self.read(port, Kind::Access, text)?;
        Timestamp::from_second(end).ok()
    }

    /// Whether this is a link token for that port of that account which was not used before; from
    /// now on it is.
    #[must_use]
    pub fn opens(&self, port: &Port, account: AccountId, text: &str) -> bool {
        let now = Timestamp::now().as_second();
        let mark = self.read(port, Kind::Link, text);
        mark.is_some_and(|mark| self.used.mark(account, mark, now))
    }

    /// Seconds until a link of this account can be opened; nothing where one can now.
    #[must_use]
    pub fn links_wait(&self, account: AccountId) -> Option<NonZeroU32> {
        self.used.wait(account, Timestamp::now().as_second())
    }

    fn read(&self, port: &Port, kind: Kind, text: &str) -> Option<Mark> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (head, mac) = bytes.split_at_checked(HEAD)?;
        if mac.len() != MAC {
            return None;
        }
        self.mac(port, head)?.verify_truncated_left(mac).ok()?;
        let end = i64::from_be_bytes(head[1..9].try_into().ok()?);
        let is_good = head[0] == kind as u8 && Timestamp::now().as_second() < end;
        let nonce = head[9..].try_into().ok()?;
        is_good.then_some((end, nonce))
    }

    fn mac(&self, port: &Port, head: &[u8]) -> Option<Hmac<Sha256>> {
        let mut keyed = self.keyed.clone()?;
        keyed.update(port.sandbox_id.digits().as_bytes());
        keyed.update(&port.port.to_be_bytes());
        keyed.update(&port.created_at.as_microsecond().to_be_bytes());
        keyed.update(head);
        Some(keyed)
    }
}

#[cfg(test)]
mod tests {
    use holm_engine::SandboxId;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn port() -> Port {
        let sandbox_id = SandboxId::random().expect("random bytes");
        let created_at = Timestamp::from_second(1_800_000_000).expect("a time");
        Port { sandbox_id, port: 80, public: false, extend_lease: false, created_at }
    }

    fn account() -> AccountId {
        AccountId::random().expect("random bytes")
    }

    #[test]
    fn a_token_is_for_one_port_of_one_sandbox_as_it_was_exposed_then() {
        let signer = Signer::new(Some([1; 32]));
        let port = port();
        let token = signer.sign(&port, Kind::Access, HOUR).expect("a token").text;
        let until = signer.sign(&port, Kind::Access, HOUR).expect("a token");
        assert_eq!(signer.admits(&port, &until.text), Some(until.expires_at));
        assert!(signer.admits(&port, &token).is_some());
        // How it is exposed is no matter.
        assert!(signer.admits(&Port { public: true, ..port.clone() }, &token).is_some());
        let other = SandboxId::random().expect("random bytes");
        let later = Timestamp::from_second(1_800_000_001).expect("a time");
        for wrong in [
            Port { port: 81, ..port.clone() },
            Port { sandbox_id: other, ..port.clone() },
            Port { created_at: later, ..port.clone() },
        ] {
            assert!(signer.admits(&wrong, &token).is_none(), "{wrong:?}");
        }
        assert!(Signer::new(Some([2; 32])).admits(&port, &token).is_none());
        assert!(!signer.opens(&port, account(), &token), "no link");
        for wrong in ["", "x", &token[1..], &token[..token.len() - 4], &format!("{token}AAAA")] {
            assert!(signer.admits(&port, wrong).is_none(), "{wrong}");
        }
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert!(signer.admits(&port, &changed).is_none(), "{at}");
        }
    }

    #[test]
    fn tokens_are_known_by_their_form_wherever_they_are() {
        let (signer, port) = (Signer::new(Some([1; 32])), port());
        for kind in [Kind::Link, Kind::Access] {
            let token = signer.sign(&port, kind, HOUR).expect("a token").text;
            assert_eq!(token.len(), LENGTH);
            for text in [token.clone(), format!("a=1&é={token}&b"), format!("AQAAAA{token}")] {
                assert!(holds_token(&text), "{text}");
            }
            assert!(!holds_token(&token[..LENGTH - 1]) && !holds_token(&token[1..]));
            let over = signer.sign(&port, kind, Duration::ZERO).expect("a token").text;
            assert!(!holds_token(&over), "it is worth nothing any more");
        }
        for other in ["", "AQAAAA", &"A".repeat(56), &"x".repeat(200), &"AQAAAA".repeat(20)] {
            assert!(!holds_token(other), "{other}");
        }
    }

    #[test]
    fn a_token_ends_and_a_link_works_once() {
        let (signer, port) = (Signer::new(Some([1; 32])), port());
        let over = signer.sign(&port, Kind::Access, Duration::ZERO).expect("a token");
        assert!(signer.admits(&port, &over.text).is_none());
        let link = signer.sign(&port, Kind::Link, HOUR).expect("a token").text;
        assert!(signer.admits(&port, &link).is_none(), "no access");
        let account = account();
        assert!(signer.opens(&port, account, &link));
        assert!(!signer.opens(&port, account, &link));
        let other = signer.sign(&port, Kind::Link, HOUR).expect("a token").text;
        assert!(signer.opens(&port, account, &other), "each link is its own");
    }

    #[test]
    fn links_of_one_account_push_out_no_mark_of_anothers() {
        let (signer, port) = (Signer::new(Some([1; 32])), port());
        let (crowded, other) = (account(), account());
        let link = || signer.sign(&port, Kind::Link, HOUR).expect("a token").text;
        let used = link();
        assert!(signer.opens(&port, other, &used));
        for _ in 0..super::super::used::EACH {
            assert_eq!(signer.links_wait(crowded), None);
            assert!(signer.opens(&port, crowded, &link()));
        }
        assert!(signer.links_wait(crowded).is_some() && !signer.opens(&port, crowded, &link()));
        assert!(!signer.opens(&port, other, &used), "it was used");
        assert!(signer.opens(&port, other, &link()));
    }
}
