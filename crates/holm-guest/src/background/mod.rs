//! Commands that go on when the call that started them is over, and what they wrote.

pub mod job;
pub mod list;
pub mod log;
pub mod start;
