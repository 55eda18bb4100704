//! All previews of a process: where they are, what lets visitors in, how many there may be.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use holm_engine::Preview;
use holm_engine::{AccountId, Engine, Error, ErrorKind, Places, Port, SandboxId, Shares};
use hyper::header::HOST;
use hyper::http::request::Parts;
use tokio::sync::{OnceCell, watch};

use super::host::{Claim, Domain};
use super::pool::Pool;
use super::token::{Kind, Signer, Token, holds_token};
use crate::http::Access;

/// Where previews are to visitors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// With TLS, here or in front.
    pub https: bool,
    /// The port in addresses, where it is not the scheme's own.
    pub port: Option<u16>,
}

impl Base {
    /// Of a server without TLS that listens on this port.
    #[must_use]
    pub fn plain(port: u16) -> Self {
        Self { https: false, port: Some(port).filter(|port| *port != 80) }
    }
}

/// Listens when the first port is exposed, and says where.
pub type Listen = Box<dyn Fn(Arc<Previews>) -> std::io::Result<Base> + Send + Sync>;

/// Where previews are.
pub enum Where {
    /// Known from the start.
    At(Base),
    /// Nowhere until there is something to show.
    OnDemand(Listen),
}

/// What previews are like.
pub struct PreviewOptions {
    /// The domain below which they are.
    pub domain: Domain,
    /// Where they are.
    pub base: Where,
    /// How long a link waits to be opened.
    pub link_life: Duration,
    /// How long a visitor may look with a cookie or a header's token.
    pub access_life: Duration,
    /// Who has credentials of the service: those go to no program.
    pub access: Access,
    /// The bounds.
    pub limits: Limits,
}

/// What visitors of previews may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests, and connections with other protocols, open at once to one sandbox.
    pub each_sandbox: u32,
    /// The same to all of an account.
    pub each_account: u32,
    /// The same to all.
    pub all: u32,
    /// How long a request waits for its place.
    pub wait: Duration,
    /// How long a program may take to answer, from the last byte that it was sent.
    pub answer: Duration,
    /// Longest silence of a body or of a connection with another protocol.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            each_sandbox: 256,
            each_account: 512,
            all: 1024,
            wait: Duration::from_secs(5),
            answer: Duration::from_secs(600),
            idle: Duration::from_secs(3600),
        }
    }
}

impl PreviewOptions {
    /// Below `localhost`.
    #[must_use]
    pub fn local(base: Where) -> Self {
        Self {
            domain: Domain::default(),
            base,
            link_life: Duration::from_secs(15 * 60),
            access_life: Duration::from_secs(24 * 3600),
            access: Access::Token(None),
            limits: Limits::default(),
        }
    }
}

/// How far the way down is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Not on it.
    Serving,
    /// No new work; what never ends by itself ends.
    Refusing,
    /// Everything ends.
    Finishing,
}

/// A place for one request; given back when this is dropped.
pub struct Place(#[allow(dead_code, reason = "held, not read")] (Places, Places));

/// All places.
struct Room {
    of_sandboxes: Shares<SandboxId>,
    of_accounts: Shares<AccountId>,
    wait: Duration,
}

impl Room {
    fn new(limits: &Limits) -> Self {
        Self {
            // Only accounts' places count in all: whoever has one of a sandbox and waits for one of
            // its account is in the way of that sandbox alone.
            of_sandboxes: Shares::new(u32::MAX, limits.each_sandbox),
            of_accounts: Shares::new(limits.all, limits.each_account),
            wait: limits.wait,
        }
    }

    async fn take(&self, sandbox: SandboxId, account: AccountId) -> Option<Place> {
        let own = self.of_sandboxes.take(sandbox, 1, self.wait).await?;
        let accounts = self.of_accounts.take(account, 1, self.wait).await?;
        Some(Place((own, accounts)))
    }
}

/// All previews of a process.
pub struct Previews {
    pub(super) engine: Engine,
    options: PreviewOptions,
    base: OnceCell<Base>,
    pub(super) signer: Signer,
    pub(super) pool: Pool,
    room: Room,
    pub(super) stage: watch::Sender<Stage>,
}

/// What an exposed port is to whoever exposed it.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Its address, which stays.
    pub url: String,
    /// For private ones: an address that opens it once.
    pub link: Option<Link>,
    /// For private ones: a token for programs.
    pub token: Option<Token>,
}

/// An address that opens a preview once.
#[derive(Debug, Clone)]
pub struct Link {
    /// The address.
    pub url: String,
    /// Until when.
    pub expires_at: jiff::Timestamp,
}

impl Previews {
    /// The previews of this engine's sandboxes, whoever's handle it is.
    #[must_use]
    pub fn new(engine: Engine, options: PreviewOptions) -> Arc<Self> {
        let limits = &options.limits;
        let base = match &options.base {
            Where::At(base) => OnceCell::new_with(Some(base.clone())),
            Where::OnDemand(_) => OnceCell::new(),
        };
        Arc::new(Self {
            base,
            signer: Signer::new(engine.secret_for("previews").ok()),
            pool: Pool::default(),
            room: Room::new(limits),
            stage: watch::Sender::new(Stage::Serving),
            engine,
            options,
        })
    }

    /// The domain below which they are.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        &self.options.domain
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.options.limits
    }

    pub(super) fn access_life(&self) -> Duration {
        self.options.access_life
    }

    pub(super) fn is_https(&self) -> bool {
        self.base.get().is_some_and(|base| base.https)
    }

    /// The host that a request names, as it names it.
    pub(super) fn host_of(head: &Parts) -> Option<&str> {
        let named = head.uri.authority().map(hyper::http::uri::Authority::as_str);
        named.or_else(|| head.headers.get(HOST)?.to_str().ok())
    }

    /// Which preview the head of a request means.
    pub(super) fn claimed(&self, head: &Parts) -> Claim {
        Self::host_of(head).map_or(Claim::Foreign, |host| self.domain().judge(host))
    }

    /// Where they are; listens there where nobody does yet.
    async fn base(self: &Arc<Self>) -> Result<&Base, Error> {
        let listen = || async {
            match &self.options.base {
                Where::At(base) => Ok(base.clone()),
                Where::OnDemand(listen) => listen(Arc::clone(self)).map_err(|error| {
                    let text = "no port of this machine is free for previews";
                    Error::new(ErrorKind::Unavailable, text).with_internal(error.to_string())
                }),
            }
        };
        self.base.get_or_try_init(listen).await
    }

    /// The address of a port.
    ///
    /// # Errors
    /// `unavailable` where nothing can listen.
    pub async fn url(self: &Arc<Self>, port: &Port) -> Result<String, Error> {
        let base = self.base().await?;
        let host = self.domain().host(&port.sandbox_id, port.port);
        let scheme = if base.https { "https" } else { "http" };
        let number = base.port.map(|port| format!(":{port}")).unwrap_or_default();
        Ok(format!("{scheme}://{host}{number}/"))
    }

    /// What whoever exposed it is told: its address and, where it is private, new ways in.
    ///
    /// # Errors
    /// As [`Self::url`]; `rate_limited` where this account has opened as many links as are kept in
    /// mind; when the system gives no random bytes.
    pub async fn show(self: &Arc<Self>, port: &Port, account: AccountId) -> Result<Shown, Error> {
        let url = self.url(port).await?;
        if port.public {
            return Ok(Shown { url, link: None, token: None });
        }
        if let Some(seconds) = self.signer.links_wait(account) {
            return Err(too_many_links(port, seconds));
        }
        let token = self.signer.sign(port, Kind::Link, self.options.link_life)?;
        let link = format!("{url}?{}={}", super::access::PARAMETER, token.text);
        let link = Link { url: link, expires_at: token.expires_at };
        Ok(Shown { url, link: Some(link), token: Some(self.access(port)?) })
    }

    /// A new access token.
    pub(super) fn access(&self, port: &Port) -> Result<Token, Error> {
        self.signer.sign(port, Kind::Access, self.options.access_life)
    }

    /// Who knows what a credential of the service is.
    pub(super) fn credentials(&self) -> Access {
        self.options.access.clone()
    }

    /// Whether a text holds a credential of the service: a key, its token, or a token for previews.
    #[must_use]
    pub fn is_credential(&self, text: &str) -> bool {
        holds_token(text) || self.options.access.is_credential(text)
    }

    /// A place for one more request to a preview.
    pub(super) async fn place(&self, preview: &Preview) -> Option<Place> {
        self.place_for(preview.port().sandbox_id, preview.account()).await
    }

    /// The same for whatever else leads to a port.
    pub async fn place_for(&self, sandbox: SandboxId, account: AccountId) -> Option<Place> {
        self.room.take(sandbox, account).await
    }
}

/// None is made that could not be opened.
fn too_many_links(port: &Port, seconds: NonZeroU32) -> Error {
    let text = format!(
        "port {} is exposed, and there is no new link to it: this account has opened so many links \
         that no further one works for {seconds} s",
        port.port
    );
    let remedy = "Wait that long, use a token or a link that you have, or expose it with public.";
    let error = Error::new(ErrorKind::RateLimited, text).suggest(remedy);
    Error { retry_after: Some(seconds), ..error }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_place_of_its_account_is_in_no_other_accounts_way() {
        let limits = Limits { each_sandbox: 1, each_account: 2, all: 4, ..Limits::default() };
        let room = Arc::new(Room::new(&limits));
        let sandbox = || SandboxId::random().expect("random bytes");
        let account = || AccountId::random().expect("random bytes");
        let (crowded, other) = (account(), account());
        let held = (room.take(sandbox(), crowded).await, room.take(sandbox(), crowded).await);
        assert!(held.0.is_some() && held.1.is_some());
        for id in std::iter::repeat_with(sandbox).take(8) {
            let room = Arc::clone(&room);
            tokio::spawn(async move { room.take(id, crowded).await });
        }
        tokio::task::yield_now().await;
        let taken = timeout(limits.wait / 2, room.take(sandbox(), other)).await;
        assert!(taken.is_ok_and(|place| place.is_some()));
    }
}
