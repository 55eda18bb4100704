//! Room in memory for answers. What is read out of a sandbox as a whole is kept until its client has
//! taken it, and the client may take its time: so it needs room of a budget before it is read. Whoever
//! answers works [`Room::around`] the calls, and ties the room that they took to the answer's bytes.

use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::shares::{Places, Shares};
use crate::{Engine, Error, ErrorKind};

/// Room is counted in units of this many bytes.
const UNIT: u64 = 64 << 10;
/// What is shorter needs none: the number of connections bounds it.
const SMALL: u64 = 64 << 10;
/// What is read is there several times while it becomes an answer, and JSON may take six bytes for
/// one.
const GROWTH: u64 = 8;
/// Most outputs of commands that wait for room at a time, each with some MiB.
pub(crate) const WHOLE_OUTPUTS: usize = 32;

tokio::task_local! {
    static TAKEN: Arc<Mutex<Vec<Places>>>;
}

/// Room that an answer has. Given back when this is dropped.
#[derive(Debug, Default)]
pub struct Room(Vec<Places>);

/// Bytes that have room.
struct Roomy {
    bytes: Bytes,
    _room: Room,
}

impl AsRef<[u8]> for Roomy {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Room {
    /// Does `work`; gives, besides, the room that what it read has.
    pub async fn around<T>(work: impl Future<Output = T>) -> (T, Self) {
        let taken = Arc::<Mutex<Vec<Places>>>::default();
        let result = TAKEN.scope(Arc::clone(&taken), work).await;
        let places = std::mem::take(&mut *taken.lock().unwrap_or_else(PoisonError::into_inner));
        (result, Self(places))
    }

    /// Leaves it to the work around this; where there is none it is the caller's as before.
    #[must_use]
    pub fn hand_on(mut self) -> Self {
        let _ = TAKEN.try_with(|taken| {
            taken.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.0);
        });
        self
    }

    /// The same bytes, which keep as much of the room as they need until the last of them is gone.
    #[must_use]
    pub fn tie(mut self, bytes: Bytes) -> Bytes {
        let mut needed = units(bytes.len() as u64);
        self.0.retain_mut(|places| {
            places.keep(needed);
            needed -= places.count();
            places.count() > 0
        });
        if self.0.is_empty() { bytes } else { Bytes::from_owner(Roomy { bytes, _room: self }) }
    }

    /// The room of both.
    pub fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

impl Engine {
    /// Takes room for an answer with `bytes` of a sandbox in it that nobody has read yet. It
    /// belongs to the work around this, else to the caller.
    pub(crate) async fn room_for(&self, bytes: u64) -> Result<Room, Error> {
        self.take_room(bytes, self.inner.settings.answer_wait).await
    }

    /// The same for bytes that are here already. They wait for room as a whole, so only so many
    /// answers may wait; to the others no room is given that is not free now.
    pub(crate) async fn room_for_read(&self, bytes: u64) -> Result<Room, Error> {
        let place = self.inner.whole_outputs.try_acquire();
        let wait = self.inner.settings.answer_wait;
        self.take_room(bytes, if place.is_ok() { wait } else { Duration::ZERO }).await
    }

    async fn take_room(&self, bytes: u64, wait: Duration) -> Result<Room, Error> {
        if bytes <= SMALL {
            return Ok(Room::default());
        }
        let wanted = units(bytes.saturating_mul(GROWTH));
        let places = self.inner.answers.take(self.caller.account, wanted, wait).await;
        let places = places.ok_or_else(|| {
            let text = "too many large answers wait to be read by their clients";
            let error = Error::new(ErrorKind::RateLimited, text).suggest(
                "Read the answers that are on their way and try again in a few seconds, or ask \
                 for less at once (offset and limit for files).",
            );
            Error { retry_after: NonZeroU32::new(2), ..error }
        })?;
        Ok(Room(vec![places]).hand_on())
    }
}

/// How the budget is shared: one account has at most half of it.
pub(crate) fn shares<K: Eq + Hash>(budget: u64) -> Shares<K> {
    let total = units(budget).max(1);
    Shares::new(total, total.div_ceil(2))
}
