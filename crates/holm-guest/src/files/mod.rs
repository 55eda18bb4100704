//! Files of the sandbox, always handled as the acting user, so that the kernel checks its rights.

pub mod http;
pub mod path;
pub mod pool;
pub mod query;
pub mod read;
pub mod write;
