//! Whole outputs of the command line, against snapshots.
//!
//! `HOLM_WRITE_SNAPSHOTS=1 cargo test --release -p holm --test cli` writes them anew.

#![allow(clippy::print_stdout, reason = "tests say what they skip")]

#[path = "../common/mod.rs"]
mod common;

mod administer;
mod doctor;
mod errors;
mod help;
mod snapshot;
mod streams;
mod template;
mod terminal;
mod unit;
