//! What a gate's work is bounded by.

use std::time::Duration;

/// What a gate's work is bounded by. What is beyond is refused at once, never left waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Open connections of one sandbox.
    pub connections: usize,
    /// Open connections of all sandboxes of this process; what open files allow, if that is less.
    pub connections_total: usize,
    /// Connections of one sandbox that wait for the other side to answer.
    pub dialling: usize,
    /// Bytes per second of one sandbox, both ways together and with DNS; 0 for no limit.
    pub bandwidth: u64,
    /// How long the other side may take to answer a connect.
    pub connect: Duration,
    /// How long a connection may be silent both ways.
    pub idle: Duration,
    /// How long a client that has begun to say whom it wants may take to finish.
    pub opening: Duration,
    /// How long a client may stay silent where only its word can permit the connection.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2_000,
            connections_total: 10_000,
            dialling: 256,
            bandwidth: 0,
            connect: Duration::from_secs(10),
            idle: Duration::from_hours(1),
            opening: Duration::from_secs(10),
            silence: Duration::from_secs(2),
        }
    }
}
