//! The guest as a whole program: `holm-guest serve` on a socket, driven by its client and by raw
//! HTTP. Numbers in test names are those of the field cases.

#![allow(missing_docs, reason = "tests")]

mod background;
mod envd;
mod files;
mod harness;
mod hostile;
mod lifecycle;
mod output;
mod process;
mod transfer;
mod trees;
mod watch;
