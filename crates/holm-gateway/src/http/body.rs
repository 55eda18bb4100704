//! Bodies of requests: bounded in bytes, in silence, in time, and together in memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use holm_engine::{AccountId, Shares};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::EXPECT;
use hyper::http::request::Parts;
use tokio::time::timeout;

use super::access::Caller;
use super::limits::Limits;

/// How much of a body that is too long is read and thrown away, so that a client that writes first
/// and reads then gets the answer instead of a broken connection.
const THROWN_AWAY: usize = 64 << 20;

/// Takes bodies in.
#[derive(Debug, Clone)]
pub struct Intake {
    limits: Limits,
    large: Arc<Shares<AccountId>>,
    account: AccountId,
}

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// 413.
    #[error("the body is over the size limit of {0} bytes")]
    TooLong(usize),
    /// 408.
    #[error("the body did not arrive in time")]
    Slow,
    /// 503.
    #[error("too many large bodies arrive at once; try again")]
    Crowded,
    /// 400. Nobody is left to be told.
    #[error("the body broke off")]
    Broken,
}

impl BodyError {
    /// The status that fits.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::TooLong(_) => 413,
            Self::Slow => 408,
            Self::Crowded => 503,
            Self::Broken => 400,
        }
    }
}

impl Intake {
    /// Takes bodies within these limits.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        let places = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let large = Shares::new(places(limits.large_bodies), places(limits.large_bodies_each));
        Self { limits: limits.clone(), large: Arc::new(large), account: AccountId::ZERO }
    }

    /// The same for bodies that this caller sends.
    #[must_use]
    pub fn of(&self, caller: &Caller) -> Self {
        let account = match caller {
            Caller::Known(caller) => caller.account,
            Caller::Keyless => AccountId::ZERO,
        };
        Self { account, ..self.clone() }
    }

    /// Longest silence while a body arrives.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.limits.body_silence
    }

    /// The whole body of a request.
    ///
    /// # Errors
    /// When it is over a bound, or breaks off.
    pub async fn take(&self, head: &Parts, body: Incoming) -> Result<Bytes, BodyError> {
        self.take_within(self.limits.body_bytes, head, body).await
    }

    /// The whole body of a request that has to be short; it takes no room of large ones.
    ///
    /// # Errors
    /// When it is over a bound, or breaks off.
    pub async fn take_small(&self, head: &Parts, body: Incoming) -> Result<Bytes, BodyError> {
        self.take_within(self.limits.small_body, head, body).await
    }

    async fn take_within(
        &self,
        limit: usize,
        head: &Parts,
        mut body: Incoming,
    ) -> Result<Bytes, BodyError> {
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let exact = body.size_hint().exact().is_some();
        let reading = async {
            if announced > limit {
                // A client that waits for a go-ahead sends nothing when it gets the answer instead.
                if !head.headers.contains_key(EXPECT) {
                    self.throw_away(&mut body).await;
                }
                return Err(BodyError::TooLong(limit));
            }
            let small = self.limits.small_body;
            let _room = match limit <= small || (exact && announced <= small) {
                true => None,
                false => {
                    let place = self.large.take(self.account, 1, self.limits.body_silence);
                    Some(place.await.ok_or(BodyError::Crowded)?)
                }
            };
            let mut all = BytesMut::with_capacity(announced);
            while let Some(part) = self.part(&mut body).await? {
                if all.len() + part.len() > limit {
                    drop(all);
                    self.throw_away(&mut body).await;
                    return Err(BodyError::TooLong(limit));
                }
                if all.is_empty() && part.len() == announced {
                    return Ok(part);
                }
                all.extend_from_slice(&part);
            }
            Ok(all.freeze())
        };
        timeout(self.limits.body_time, reading).await.unwrap_or(Err(BodyError::Slow))
    }

    /// Reads what belongs to a request that is refused anyway, within the same bounds. A client that
    /// writes first and reads then would find a broken connection instead of the answer.
    pub async fn discard(&self, head: &Parts, mut body: Incoming) {
        if !body.is_end_stream() && !head.headers.contains_key(EXPECT) {
            // What does not come in time is not waited for.
            let _ = timeout(self.limits.body_silence, self.throw_away(&mut body)).await;
        }
    }

    async fn part(&self, body: &mut Incoming) -> Result<Option<Bytes>, BodyError> {
        loop {
            let frame = timeout(self.limits.body_silence, body.frame());
            match frame.await.map_err(|_elapsed| BodyError::Slow)? {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(_)) => return Err(BodyError::Broken),
            }
        }
    }

    async fn throw_away(&self, body: &mut Incoming) {
        let mut thrown = 0;
        while let Ok(Some(part)) = self.part(body).await {
            thrown += part.len();
            if thrown > THROWN_AWAY {
                return;
            }
        }
    }
}
