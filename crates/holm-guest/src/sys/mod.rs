//! The system calls that no safe wrapper offers. The only module with `unsafe`.
//!
//! What runs between `fork` and `exec` ([`child`]), and what runs in a supervisor ([`supervise`],
//! [`tree`]), allocates nothing and takes no lock: the guest has file threads, and a lock that one
//! of them held at the moment of the fork stays locked in the copy for ever.

#![allow(unsafe_code)]

pub mod child;
pub mod ids;
pub mod landlock;
pub mod malloc;
pub mod raw;
pub mod supervise;
pub mod tree;
