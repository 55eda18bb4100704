//! What sandboxes reach of the world and what not, tried end to end: the real program on a host of
//! the testbed, real clients inside, and an internet that answers at every address, so that what
//! gets past the gate does connect and is seen.

#![allow(clippy::print_stdout, reason = "tests say what they skip")]

#[path = "../common/mod.rs"]
mod common;

mod allow;
mod bed;
mod breakout;
mod counts;
mod crash;
mod flood;
mod live;
mod names;
mod policy;
mod probe;
mod quiet;
mod reach;
mod refuse;
mod registries;
mod resolvers;
mod secrets;
mod trouble;
mod upstream;
mod workflow;
