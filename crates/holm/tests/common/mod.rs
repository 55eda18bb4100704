//! What the whole-binary suites share: a home of its own for every test, an MCP client over stdio,
//! runs of the program, waits, a C compiler for attack programs, and the search for leftovers.
//!
//! Each suite includes this by path and uses a part of it.
#![allow(dead_code, reason = "each suite uses a part")]
#![allow(unused_macros, reason = "each suite uses a part")]
#![allow(unused_imports, reason = "each suite uses a part")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests say what they skip")]

mod cc;
mod client;
mod home;
mod leftover;
mod mcp;
mod proc;
mod result;
mod serve;
mod terminal;
mod wait;

pub use cc::{musl_program, static_program};
pub use client::{Answer, Client, fresh_id, receive};
pub use home::{Exit, Home, Mode, finish, in_mode, long, wait};
pub use mcp::{GUARD, Mcp};
pub use proc::{
    children, command_line, descendants, is_alive, memory_peak, name, parent, pids, state,
};
pub use result::{Run, Tool};
pub use serve::Serve;
pub use terminal::open_terminal;
pub use wait::{until, until_within};

pub use serde_json::{Value, json};

/// Does something so many times at once, and gives what came of it in order.
pub fn at_once<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let all: Vec<_> = (0..count).map(|n| scope.spawn(move || work(n))).collect();
        all.into_iter().map(|one| one.join().expect("no panic inside")).collect()
    })
}

/// Every tool that uses a sandbox, with arguments to which its `sandbox_id` has to be added.
pub fn uses() -> [(&'static str, Value); 6] {
    [
        ("run_command", json!({"command": "true"})),
        ("run_code", json!({"code": "1"})),
        ("read_file", json!({"path": "x"})),
        ("write_file", json!({"path": "x", "content": "y"})),
        ("list_files", json!({})),
        ("extend_sandbox", json!({})),
    ]
}

/// Makes a test of each named function `fn(&Home)` as root; skipped, and said so, for others.
macro_rules! as_root {
    ($($name:ident),* $(,)?) => {
        mod root {
            $(#[test] fn $name() { $crate::common::in_mode($crate::common::Mode::Root, super::$name); })*
        }
    };
}

/// Makes a test of each named function `fn(&Home)` as an unprivileged user.
macro_rules! as_rootless {
    ($($name:ident),* $(,)?) => {
        mod rootless {
            $(#[test] fn $name() { $crate::common::in_mode($crate::common::Mode::Rootless, super::$name); })*
        }
    };
}

pub(crate) use {as_root, as_rootless};
