//! `process.Process` of envd: programs that are started, followed, fed and signalled.

pub mod input;
pub mod program;
pub mod queue;
pub mod registry;
pub mod signals;
pub mod stream;
