//! Places of connections. What a connection is for is known with its first request: from then on it
//! has a place among those of previews, or among all others, of which neither can take all. Until then
//! it has one among those that have said nothing, where the one that has been silent longest goes when
//! there are too many: whoever speaks at once is never in anybody's way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::limits::Limits;

/// The fewest places of connections that have said nothing.
const FEWEST: usize = 16;

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A face that is chosen by the host that is asked: previews.
    Host,
    /// All others: the API.
    Path,
}

/// All places of a server.
#[derive(Debug)]
pub(super) struct Places {
    all: Arc<Semaphore>,
    hosts: Arc<Semaphore>,
    paths: Arc<Semaphore>,
    /// By age: who is told to go. At most so many.
    silent: Mutex<BTreeMap<u64, Arc<Notify>>>,
    silent_most: usize,
    wait: Duration,
    next: std::sync::atomic::AtomicU64,
}

impl Places {
    /// So many, in which the two classes have three quarters at most each; all where there is one
    /// class only.
    pub fn new(limits: &Limits, are_shared: bool) -> Arc<Self> {
        let count = limits.connections;
        let most = if are_shared { count - count / 4 } else { count };
        let places = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Arc::new(Self {
            all: places(count),
            hosts: places(most),
            paths: places(most),
            silent: Mutex::default(),
            silent_most: (count / 2).max(FEWEST),
            wait: limits.connection_wait,
            next: std::sync::atomic::AtomicU64::new(0),
        })
    }

    fn silent(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Notify>>> {
        // Every change under the lock is one call of the map: it is whole even after a panic.
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection in that has said nothing yet.
    pub fn enter(self: &Arc<Self>) -> Arc<Seat> {
        let seat = Seat { places: Arc::clone(self), out: Arc::default(), state: Mutex::default() };
        seat.state().silent = Some(self.wait_in_line(&seat.out));
        Arc::new(seat)
    }

    /// A place among those that wait; who has waited longest goes where there is none.
    fn wait_in_line(self: &Arc<Self>, out: &Arc<Notify>) -> Silent {
        let key = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut silent = self.silent();
        if silent.len() >= self.silent_most
            && let Some((_, oldest)) = silent.pop_first()
        {
            oldest.notify_one();
        }
        silent.insert(key, Arc::clone(out));
        drop(silent);
        Silent { places: Arc::clone(self), key }
    }

    async fn take(&self, class: Class) -> Option<Held> {
        let own = match class {
            Class::Host => &self.hosts,
            Class::Path => &self.paths,
        };
        let both = async {
            // The own one first, so that who waits for it is in the way of its own class alone.
            let own = Arc::clone(own).acquire_owned().await.ok()?;
            let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some(Held { _permits: (own, all) })
        };
        timeout(self.wait, both).await.ok().flatten()
    }
}

/// A place among those that have said nothing.
#[derive(Debug)]
struct Silent {
    places: Arc<Places>,
    key: u64,
}

impl Silent {
    /// Whether it has not been taken away.
    fn is_there(&self) -> bool {
        self.places.silent().contains_key(&self.key)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.places.silent().remove(&self.key);
    }
}

/// A place of a class, and one of all.
#[derive(Debug)]
struct Held {
    _permits: (OwnedSemaphorePermit, OwnedSemaphorePermit),
}

/// What one connection has.
#[derive(Debug)]
pub(super) struct Seat {
    places: Arc<Places>,
    out: Arc<Notify>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    silent: Option<Silent>,
    host: Share,
    path: Share,
}

/// A connection's part in one class.
#[derive(Debug, Default)]
struct Share {
    held: Option<Held>,
    /// Requests that are open.
    requests: usize,
}

impl State {
    fn of(&mut self, class: Class) -> (&mut Share, &mut Share) {
        match class {
            Class::Host => (&mut self.host, &mut self.path),
            Class::Path => (&mut self.path, &mut self.host),
        }
    }
}

impl Seat {
    fn state(&self) -> MutexGuard<'_, State> {
        // What is inside is whole between any two lines that change it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when another connection needs the place of this one, which has said nothing.
    pub async fn evicted(&self) {
        self.out.notified().await;
    }

    /// A place for a request of this class; nothing where there is none in time. A connection whose
    /// requests are all of the other class gives up its place there.
    pub async fn take(self: &Arc<Self>, class: Class) -> Option<Taken> {
        {
            let mut state = self.state();
            let (own, other) = state.of(class);
            if own.held.is_some() {
                own.requests += 1;
                return Some(Taken { seat: Arc::clone(self), class });
            }
            if other.held.is_some() && other.requests == 0 {
                other.held = None;
                state.silent = Some(self.places.wait_in_line(&self.out));
            }
        }
        let held = self.places.take(class).await?;
        let mut state = self.state();
        if state.silent.take().is_some_and(|silent| !silent.is_there()) {
            return None;
        }
        let (own, _) = state.of(class);
        // Of two requests at once the first has brought one.
        own.held.get_or_insert(held);
        own.requests += 1;
        drop(state);
        Some(Taken { seat: Arc::clone(self), class })
    }
}

/// A connection's place for one request.
#[derive(Debug)]
pub(super) struct Taken {
    seat: Arc<Seat>,
    class: Class,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut state = self.seat.state();
        let (own, other) = state.of(self.class);
        own.requests -= 1;
        // A connection that idles keeps the place that it had last.
        let given_up = match own.requests == 0 && other.held.is_some() {
            true => own.held.take(),
            false => None,
        };
        drop(state);
        drop(given_up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(5);

    fn places(connections: usize, are_shared: bool) -> Arc<Places> {
        Places::new(&Limits { connections, connection_wait: WAIT, ..Limits::default() }, are_shared)
    }

    async fn taken(seat: &Arc<Seat>, class: Class) -> Option<Taken> {
        seat.take(class).await
    }

    #[tokio::test(start_paused = true)]
    async fn neither_class_can_take_all() {
        for (one, other) in [(Class::Host, Class::Path), (Class::Path, Class::Host)] {
            let places = places(8, true);
            let mut seats = Vec::new();
            for _ in 0..6 {
                let seat = places.enter();
                seats.push((taken(&seat, one).await.expect("a place"), seat));
            }
            let late = places.enter();
            assert!(taken(&late, one).await.is_none(), "{one:?}");
            let (first, second) = (places.enter(), places.enter());
            let held = (taken(&first, other).await, taken(&second, other).await);
            assert!(held.0.is_some() && held.1.is_some(), "{other:?}");
            // All are taken; one that ends makes room for the one that waits.
            let ends = async { drop(seats.pop()) };
            let (waited, ()) = tokio::join!(taken(&late, one), ends);
            assert!(waited.is_some());
        }
        let places = places(8, false);
        let seats: Vec<_> = (0..8).map(|_| places.enter()).collect();
        let mut held = Vec::new();
        for seat in &seats {
            held.push(taken(seat, Class::Path).await.expect("alone it may have all"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_has_one_place_and_changes_it_with_what_it_asks_for() {
        let places = places(4, true);
        let seat = places.enter();
        for _ in 0..3 {
            drop(taken(&seat, Class::Host).await.expect("a place"));
            assert_eq!(
                (places.hosts.available_permits(), places.paths.available_permits()),
                (2, 3)
            );
            drop(taken(&seat, Class::Path).await.expect("a place"));
            assert_eq!(
                (places.hosts.available_permits(), places.paths.available_permits()),
                (3, 2)
            );
        }
        // Both at once, as streams: one in each.
        let one = taken(&seat, Class::Host).await.expect("a place");
        let two = taken(&seat, Class::Host).await.expect("a place");
        let three = taken(&seat, Class::Path).await.expect("a place");
        assert_eq!(places.all.available_permits(), 2);
        drop((one, three));
        assert_eq!((places.hosts.available_permits(), places.paths.available_permits()), (2, 3));
        drop(two);
        drop(seat);
        assert_eq!(places.all.available_permits(), 4);
        assert_eq!(places.silent().len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_said_nothing_longest_goes_and_who_speaks_stays() {
        let places = places(4, true);
        let speaks = places.enter();
        let _held = taken(&speaks, Class::Path).await.expect("a place");
        let silent: Vec<_> = (0..FEWEST).map(|_| places.enter()).collect();
        let newest = places.enter();
        timeout(WAIT, silent[0].evicted()).await.expect("the oldest of them goes");
        for stays in [&speaks, &silent[1], &newest] {
            assert!(timeout(WAIT, stays.evicted()).await.is_err());
        }
        assert!(taken(&silent[0], Class::Path).await.is_none(), "it has no place to wait in");
        assert!(taken(&newest, Class::Host).await.is_some());
        assert_eq!(places.silent().len(), FEWEST - 1);
    }
}
