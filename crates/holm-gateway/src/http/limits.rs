//! Every bound of the HTTP server.

use std::time::Duration;

/// What one client, or all of them together, may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at once. Previews, and all else, have three quarters of them at most; what is more
    /// waits for `connection_wait` until one ends. Half as many again may be open that have said nothing.
    pub connections: usize,
    /// How long a request waits for a place of its connection.
    pub connection_wait: Duration,
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
            connection_wait: Duration::from_secs(5),
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
