//! Every bound of the HTTP server.

use std::time::Duration;

/// What one client, or all of them together, may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at once. More wait in the socket's queue until one ends.
    pub connections: usize,
    /// Requests at once on one connection of HTTP/2.
    pub streams: u32,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Time for a head to be complete. It also bounds how long a kept connection idles, since the
    /// wait for the next head counts.
    pub head_time: Duration,
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Longest silence while a body arrives.
    pub body_silence: Duration,
    /// Time for a whole body.
    pub body_time: Duration,
    /// Bodies over [`Self::small_body`] that may arrive at once: they are what takes memory.
    pub large_bodies: usize,
    /// Those of them that may be one account's.
    pub large_bodies_each: usize,
    /// Bodies up to here are always taken at once.
    pub small_body: usize,
    /// Longest time without any progress while a response waits to be read.
    pub write_silence: Duration,
    /// How long running requests may go on after the stop was asked for.
    pub stop_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            streams: 100,
            head_bytes: 64 << 10,
            head_time: Duration::from_secs(75),
            body_bytes: 8 << 20,
            body_silence: Duration::from_secs(30),
            body_time: Duration::from_secs(120),
            large_bodies: 16,
            large_bodies_each: 8,
            small_body: 64 << 10,
            write_silence: Duration::from_secs(60),
            stop_grace: Duration::from_secs(10),
        }
    }
}
