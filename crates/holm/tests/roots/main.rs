//! Sandboxes on images that these tests make, through the binary: what an image says and lacks, and
//! how long it is held.

#![allow(clippy::print_stdout, reason = "tests say what they skip")]

#[path = "../common/mod.rs"]
mod common;

mod hostile;
mod image;
mod layers;
mod service;
mod using;
