//! The program that is PID 1 in every sandbox.

fn main() {}
