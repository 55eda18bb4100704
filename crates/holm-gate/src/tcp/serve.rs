//! One connection from its decision to its end.
//!
//! Where addresses decide, nothing is read: the target is dialled and bytes are moved. Where a rule
//! by name does, DNS has decided already whether any name permits the address; the client's first
//! bytes then say whether it is that name which it wants. They are waited for while the target is
//! dialled, and after that while the server may speak, so that protocols in which the server speaks
//! first lose no time, and nothing of a client is sent on before it was looked at.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::accept::DNS;
use super::conn::{Conn, Said};
use super::near::{Near, Writer};
use super::opening::{Opened, Opening};
use super::plain;
use crate::dial::{Far, Target, dial};
use crate::dns;
use crate::http;
use crate::inject;
use crate::policy::{HostName, Verdict};
use crate::relay::{Meter, Way, between, one_way};
use crate::state::State;

/// Why a connection ends before its time.
#[derive(Debug)]
pub(super) enum Cut {
    /// It is refused; noted already.
    Refused,
    /// One side is gone, or has never been there.
    Gone,
}

impl From<io::Error> for Cut {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// Serves one connection to its end.
pub(super) async fn run(state: &Arc<State>, conn: &Arc<Conn>) {
    let cut = tokio::select! {
        biased;
        () = conn.ended() => true,
        end = work(state, conn) => end.is_err(),
    };
    if cut {
        conn.reset();
    }
}

async fn work(state: &Arc<State>, conn: &Arc<Conn>) -> Result<(), Cut> {
    if conn.target.port() == DNS {
        let near = Near::new(Arc::clone(conn), Vec::new());
        return Ok(Box::pin(dns::stream(state, near)).await?);
    }
    let names = state.names.of(conn.target.ip());
    let may_inject = state.injections.concerns(&names, conn.target.port());
    match conn.judge(state, Said::Nothing) {
        // What is rare is boxed, so that it costs the many that wait no memory.
        Ok(_) if may_inject => Box::pin(first(state, conn, true)).await,
        Ok(verdict) if !verdict.wants_claim => {
            let far = reach(state, conn, verdict.by_name.as_ref()).await?;
            relay(state, conn, far, None).await
        }
        Ok(verdict) if state.uplink.proxy().is_none() => {
            Box::pin(beside(state, conn, &verdict)).await
        }
        // A proxy may have to be told the name, so that it has to be known first.
        Ok(_) => Box::pin(first(state, conn, true)).await,
        Err(refusal) if refusal.wants_claim => Box::pin(first(state, conn, false)).await,
        Err(refusal) => Err(refuse(state, conn, &refusal.rule)),
    }
}

/// Dials while the client may speak.
async fn beside(state: &Arc<State>, conn: &Arc<Conn>, verdict: &Verdict) -> Result<(), Cut> {
    let limits = state.uplink.limits();
    let mut opening = Opening::default();
    let mut opened = None;
    let far = {
        let dialled = reach(state, conn, verdict.by_name.as_ref());
        tokio::pin!(dialled);
        loop {
            tokio::select! {
                far = &mut dialled => break far?,
                found = opening.read(&conn.near, limits.opening), if opened.is_none() => {
                    let found = found?;
                    settle(state, conn, &found)?;
                    opened = Some(found);
                }
            }
        }
    };
    match opened {
        Some(opened) => go_on(state, conn, far, opening, opened).await,
        None => late(state, conn, far, opening).await,
    }
}

/// Hears the client before anything is dialled; one that stays silent is judged by DNS alone.
async fn first(state: &Arc<State>, conn: &Arc<Conn>, may_be_silent: bool) -> Result<(), Cut> {
    let limits = state.uplink.limits();
    let mut opening = Opening::default();
    let heard = timeout(limits.silence, opening.read(&conn.near, limits.opening)).await;
    let is_silent = opening.bytes.is_empty();
    let opened = match heard {
        Ok(opened) => Some(opened?),
        Err(_) if is_silent => None,
        // It has begun to speak, and has the time that this takes.
        Err(_) => Some(opening.read(&conn.near, limits.opening).await?),
    };
    let by_name = match &opened {
        Some(opened) if let Some(host) = bound(state, conn, &mut opening, opened).await? => {
            return credentials(state, conn, opening, host).await;
        }
        Some(opened) => settle(state, conn, opened)?,
        None => match conn.judge(state, Said::Nothing) {
            Ok(verdict) if may_be_silent => verdict.by_name,
            Ok(_) => None,
            Err(refusal) => return Err(refuse(state, conn, &refusal.rule)),
        },
    };
    let far = reach(state, conn, by_name.as_ref()).await?;
    match opened {
        Some(opened) => go_on(state, conn, far, opening, opened).await,
        None => late(state, conn, far, opening).await,
    }
}

/// The host that the client asks for, and whether by TLS, if it is one of this address here and
/// credentials are bound to it.
async fn bound(
    state: &State,
    conn: &Conn,
    opening: &mut Opening,
    opened: &Opened,
) -> Result<Option<(HostName, bool)>, Cut> {
    let (names, port) = (state.names.of(conn.target.ip()), conn.target.port());
    if !state.injections.concerns(&names, port) {
        return Ok(None);
    }
    let (host, tls) = match opened {
        Opened::Tls(name) => (name.clone(), true),
        Opened::Http => (opening.host(&conn.near, state.uplink.limits().opening).await?, false),
        _ => return Ok(None),
    };
    let is_bound =
        |host: &HostName| names.contains(host) && state.injections.is_for(host, port, tls);
    Ok(host.filter(is_bound).map(|host| (host, tls)))
}

/// Opens a connection to a host that credentials are bound to.
async fn credentials(
    state: &Arc<State>,
    conn: &Arc<Conn>,
    opening: Opening,
    (host, tls): (HostName, bool),
) -> Result<(), Cut> {
    conn.judge(state, Said::Name(&host)).map_err(|refusal| refuse(state, conn, &refusal.rule))?;
    let (own_state, own_conn, claim) = (Arc::clone(state), Arc::clone(conn), host.clone());
    let dial = move || -> http::Dialling<Far> {
        let (state, conn, claim) = (Arc::clone(&own_state), Arc::clone(&own_conn), claim.clone());
        Box::pin(async move { dial_checked(&state, &conn, &claim).await })
    };
    let near = Near::new(Arc::clone(conn), opening.bytes);
    let opened = inject::Opened { host, address: conn.target, tls };
    Ok(inject::open(state, near, opened, dial).await?)
}

/// Dials for a host after asking again, as connections are dialled anew when they have ended.
async fn dial_checked(state: &State, conn: &Conn, host: &HostName) -> io::Result<Far> {
    let denied = |rule: String| io::Error::new(io::ErrorKind::PermissionDenied, rule);
    if let Some(rule) = state.uplink.refused(conn.target.ip()) {
        return Err(denied(rule));
    }
    let verdict = conn.judge(state, Said::Name(host)).map_err(|refusal| denied(refusal.rule))?;
    let gone = |_| io::Error::from(io::ErrorKind::ConnectionRefused);
    let far = reach(state, conn, verdict.by_name.as_ref()).await.map_err(gone)?;
    far.keep_what_is_sent();
    Ok(far)
}

/// Judges what the client said, by name where it said one. Requests of plain HTTP are judged one by
/// one when they are passed on, the first of them here already by its connection.
fn settle(state: &State, conn: &Conn, opened: &Opened) -> Result<Option<HostName>, Cut> {
    let said = match opened {
        Opened::Wrong(reason) => return Err(refuse(state, conn, reason)),
        Opened::Tls(name) => name.as_ref().into(),
        // A name that permits it may be what the host's proxy has to be asked for.
        Opened::Http => {
            let verdict = conn.judge(state, Said::Nothing);
            return Ok(verdict.ok().and_then(|verdict| verdict.by_name));
        }
        Opened::Other => Said::NoName,
        Opened::Unsure => Said::Nothing,
    };
    match conn.judge(state, said) {
        Ok(verdict) => Ok(verdict.by_name),
        Err(refusal) => Err(refuse(state, conn, &refusal.rule)),
    }
}

/// Passes on what was read, and everything after it.
async fn go_on(
    state: &Arc<State>,
    conn: &Arc<Conn>,
    far: Far,
    opening: Opening,
    opened: Opened,
) -> Result<(), Cut> {
    if opened == Opened::Http {
        far.keep_what_is_sent();
        return plain::serve(state, conn, far, opening.bytes).await;
    }
    relay(state, conn, far, Some((opening, Some(opened)))).await
}

/// Waits for whoever speaks first. What a client says after its server is looked at all the same.
async fn late(
    state: &Arc<State>,
    conn: &Arc<Conn>,
    far: Far,
    mut opening: Opening,
) -> Result<(), Cut> {
    let limits = state.uplink.limits();
    let meter = Meter::new(state);
    let server_speaks = async {
        match &far {
            Far::Plain(server) => server.readable().await,
            // What a proxy's TLS has ready cannot be seen without reading it: such a server is
            // heard when its client has been silent for a while.
            Far::Tls(_) => {
                tokio::time::sleep(limits.silence).await;
                Ok(())
            }
        }
    };
    let opened = tokio::select! {
        biased;
        opened = opening.read(&conn.near, limits.opening) => Some(opened?),
        ready = server_speaks => ready.map(|()| None)?,
        () = meter.idle() => return Err(Cut::Gone),
    };
    let Some(opened) = opened else {
        return relay(state, conn, far, Some((opening, None))).await;
    };
    settle(state, conn, &opened)?;
    go_on(state, conn, far, opening, opened).await
}

/// What a client says before its bytes are moved unseen, and what that is, if it is known.
type Preface = Option<(Opening, Option<Opened>)>;

/// Looks at what a client says first and sends it on.
async fn announce(
    state: &State,
    conn: &Conn,
    meter: &Meter,
    preface: Preface,
    to: &mut (impl AsyncWrite + Unpin),
) -> Result<(), Cut> {
    let Some((mut opening, opened)) = preface else { return Ok(()) };
    let mut opened = match opened {
        Some(opened) => opened,
        None => match opening.read(&conn.near, state.uplink.limits().opening).await? {
            Opened::Http => Opened::Wrong("an HTTP request after its server had spoken"),
            other => other,
        },
    };
    let mut sent = 0;
    loop {
        settle(state, conn, &opened)?;
        let bytes = opening.bytes.get(sent..).unwrap_or_default();
        to.write_all(bytes).await?;
        to.flush().await?;
        let _paid_later = meter.moved(Way::Out, bytes.len());
        sent = opening.bytes.len();
        if opened != Opened::Unsure {
            return Ok(());
        }
        opened = opening.read_line_on(&conn.near).await?;
    }
}

/// Moves bytes both ways until both sides have ended.
async fn relay(
    state: &Arc<State>,
    conn: &Arc<Conn>,
    far: Far,
    preface: Preface,
) -> Result<(), Cut> {
    match far {
        Far::Plain(ref server) => {
            let meter = Meter::new(state);
            let outward = async {
                if preface.is_some() {
                    let mut to = Writer(server);
                    Box::pin(announce(state, conn, &meter, preface, &mut to)).await?;
                }
                Ok(one_way(&meter, Way::Out, &conn.near, server).await?)
            };
            let inward = async { Ok(one_way(&meter, Way::In, server, &conn.near).await?) };
            both(&meter, outward, inward).await?;
            far.keep_what_is_sent();
            Ok(())
        }
        Far::Tls(tls) => Box::pin(relay_tls(state, conn, *tls, preface)).await,
    }
}

/// The same through a proxy that is spoken to by TLS.
async fn relay_tls(
    state: &Arc<State>,
    conn: &Arc<Conn>,
    tls: TlsStream<TcpStream>,
    preface: Preface,
) -> Result<(), Cut> {
    let meter = Meter::new(state);
    let (mut read, mut write) = tokio::io::split(tls);
    let near = || Near::new(Arc::clone(conn), Vec::new());
    let (mut near_read, mut near_write) = (near(), near());
    let outward = async {
        announce(state, conn, &meter, preface, &mut write).await?;
        Ok(between(&meter, Way::Out, &mut near_read, &mut write).await?)
    };
    let inward =
        async { Ok::<(), Cut>(between(&meter, Way::In, &mut read, &mut near_write).await?) };
    both(&meter, outward, inward).await
}

/// Runs both ways to their ends.
async fn both(
    meter: &Meter,
    outward: impl Future<Output = Result<(), Cut>>,
    inward: impl Future<Output = Result<(), Cut>>,
) -> Result<(), Cut> {
    tokio::select! {
        end = async { tokio::try_join!(outward, inward) } => end.map(drop),
        () = meter.idle() => Err(Cut::Gone),
    }
}

/// Dials, within the number of those that may wait for an answer. A client that resets meanwhile
/// ends it.
async fn reach(state: &State, conn: &Conn, by_name: Option<&HostName>) -> Result<Far, Cut> {
    let limits = state.uplink.limits();
    let limit = limits.dialling;
    let Some(_place) = state.dialling.enter(limit) else {
        return Err(refuse(state, conn, &format!("limit: {limit} connections wait for an answer")));
    };
    if let Some(proxy) = state.uplink.proxy() {
        let is_proxy = timeout(limits.connect, proxy.is_at(conn.target)).await;
        if is_proxy.map_err(|_| Cut::Gone)?? {
            return Err(refuse(state, conn, "always refused: this host's proxy"));
        }
    }
    let target = Target { address: conn.target, by_name, wide: conn.wide };
    let far = tokio::select! {
        far = Box::pin(dial(&state.uplink, target)) => far?,
        _gone = conn.near.ready(tokio::io::Interest::ERROR) => return Err(Cut::Gone),
    };
    if conn.is_ended() { Err(Cut::Gone) } else { Ok(far) }
}

/// Notes a refusal.
pub(super) fn refuse(state: &State, conn: &Conn, rule: &str) -> Cut {
    conn.refuse(state, rule);
    Cut::Refused
}
