//! `holm`: disposable, isolated Linux machines for AI agents.

fn main() {}
