//! The host's side of the guest protocol.
//!
//! The guest is hostile (root inside may control it), so nothing here waits without a deadline,
//! buffers without a limit, or believes a length before the bytes are there.

mod calls;
mod error;
mod files;
mod kernel;
mod pool;
mod stream;
mod tree;
mod tunnel;
mod upload;

pub use error::ClientError;
pub use files::FileBody;
pub use kernel::KernelAnswer;
pub use pool::{CallLimits, GuestClient};
pub use stream::EventStream;
pub use tree::TreeUpload;
pub use tunnel::Tunnel;
pub use upload::Upload;
