//! The async process never forks: another thread's locks would be copied into the child, held for
//! ever. Making processes is the launcher's work, which has one thread and lives in `holm-runtime`.

use super::{Tree, rust};

/// Sources that run in the async process.
const ASYNC: &[&str] = &["crates/holm-engine/src/", "crates/holm-gateway/src/", "crates/holm/src/"];

/// What makes a process, in whatever library. Spawning a task or a thread takes an argument.
const MAKES: &[&str] = &[
    "Command::new",
    "process::Command",
    ".spawn()",
    // A fork of a sandbox takes arguments, and is nobody else's.
    "fork()",
    "libc::fork",
    "unistd::fork",
    "fork_into",
    "clone3",
    "libc::clone",
    "SYS_clone",
    "posix_spawn",
    "daemon(",
];

pub fn check(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in rust(tree) {
        let test = path.ends_with("/tests.rs") || path.contains("/tests/");
        if test || !ASYNC.iter().any(|directory| path.starts_with(directory)) {
            continue;
        }
        for (number, code) in code(text) {
            if let Some(form) = MAKES.iter().find(|form| code.contains(*form)) {
                found.push(format!("{path}:{number}: `{form}` makes a process; the launcher does"));
            } else if imports_command(code) {
                found.push(format!("{path}:{number}: imports what makes processes"));
            }
        }
    }
    found
}

/// Numbered lines without comments, up to the tests at the end of the file.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    (1..).zip(lines.take_while(|line| !line.starts_with("mod tests {")))
}

/// `use std::process::{Child, Command};` and its like of other libraries.
fn imports_command(code: &str) -> bool {
    let Some((_, list)) = code.trim_start().split_once("process::{") else { return false };
    list.split([',', '}', ' ']).any(|name| matches!(name, "Command" | "Child"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(path: &str, text: &str, complaints: usize) {
        let tree = [(path.to_owned(), text.to_owned())].into_iter().collect();
        assert_eq!(check(&tree).len(), complaints, "{path}: {text}");
    }

    #[test]
    fn processes_are_found_where_they_may_not_be_made() {
        let engine = "crates/holm-engine/src/exec.rs";
        for text in [
            "let child = Command::new(\"ls\");",
            "use std::process::Command;",
            "use tokio::process::{Child, Command};",
            "    let child = builder.spawn()?;",
            "let pid = unsafe { libc::fork() };",
            "match fork_into(0, Parentage::Child, None) {",
            "libc::syscall(libc::SYS_clone3, 0)",
        ] {
            for path in [engine, "crates/holm-gateway/src/mcp/a.rs", "crates/holm/src/lib.rs"] {
                check_one(path, text, 1);
            }
            for path in [
                "crates/holm-runtime/src/launcher/a.rs",
                "crates/holm-engine/tests/engine/a.rs",
                "crates/holm-engine/src/store/tests.rs",
                "crates/holm/build.rs",
            ] {
                check_one(path, text, 0);
            }
            check_one(engine, &format!("#[cfg(test)]\nmod tests {{\n    {text}\n}}"), 0);
            check_one(engine, &format!("// {text}"), 0);
        }
    }

    #[test]
    fn tasks_and_threads_are_no_processes() {
        for text in [
            "self.tasks.spawn(async move {});",
            "thread::Builder::new().spawn(move || {})",
            "use std::process::ExitCode;",
            "use crate::{Command, CommandResult};",
            "std::process::exit(1);",
        ] {
            check_one("crates/holm-engine/src/exec.rs", text, 0);
        }
    }
}
