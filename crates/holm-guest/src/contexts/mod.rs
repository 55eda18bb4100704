//! Contexts: in each a kernel keeps variables from one piece of code to the next.
//!
//! The kernels are behind bridges (see [`crate::bridge`]), which are commands like any other. What they
//! say is passed on and not read here, but for a letter and how the code ended.

mod call;
mod context;
mod gate;
pub mod list;

pub use call::{create, delete, execute, restart};
