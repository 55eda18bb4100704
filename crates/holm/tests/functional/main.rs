//! What holm does, tried through its binary: cases from the field (their numbers are in the names)
//! and the flows of `holm run` and `holm mcp`.

#![allow(clippy::print_stdout, reason = "tests say what they skip")]

#[path = "../common/mod.rs"]
mod common;

mod acme;
mod admin;
mod ending;
mod environment;
mod files;
mod installs;
mod isolation;
mod kernels;
mod lifecycle;
mod limits;
mod load;
mod network;
mod output;
mod postgres;
mod previews;
mod processes;
mod protocol;
mod proxies;
mod readers;
mod requests;
mod rest;
mod run;
mod serve;
mod sessions;
mod snapshots;
mod storage;
mod streams;
mod traces;
mod troubles;
mod usage;
mod webhooks;
