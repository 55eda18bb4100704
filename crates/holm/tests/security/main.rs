//! Tries to get out of a sandbox, or to disturb others from inside, as the sandbox's user and as
//! root inside, under a holm of the superuser and of an ordinary user.

#![allow(clippy::print_stdout, reason = "tests say what they skip")]

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod confinement;
mod counters;
mod exhaustion;
mod guest;
mod host;
mod program;
mod races;
