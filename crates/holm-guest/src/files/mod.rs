//! Files of the sandbox, always handled as the acting user, so that the kernel checks its rights.

pub mod compose;
pub mod entry;
pub mod envd;
pub mod envd_http;
pub mod file_source;
mod gzip;
pub mod http;
pub mod inflow;
pub mod list_tree;
pub mod multipart;
pub mod path;
pub mod pool;
pub mod query;
pub mod read;
pub mod remove;
pub mod tar;
mod tar_field;
pub mod tar_http;
pub mod tar_read;
pub mod watch;
pub mod watch_stream;
pub mod write;
