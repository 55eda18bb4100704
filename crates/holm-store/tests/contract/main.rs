//! What every store does, run against each of them.
//!
//! A contract is a function of a [`support::Bed`]; `contract!` makes one test for each database
//! of it.

#![allow(clippy::print_stdout, reason = "tests tell what they skip")]

mod account;
mod audit;
mod charge;
mod crash;
mod idempotency;
mod key;
mod ledger;
mod memory;
mod node;
mod outbox;
mod pause;
mod port;
mod race;
mod reserve;
mod sandbox;
mod schema;
mod secret;
mod server;
mod support;
mod tls;
