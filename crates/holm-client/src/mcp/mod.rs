//! A session with a service's MCP endpoint: tools are called there as if they were here.

mod reply;
mod session;

pub use reply::Failure;
pub use session::{Call, Endpoint, Taken};
