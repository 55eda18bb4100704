//! Reference pages from the code.
//!
//! The generator is a test of the crate `holm` (`tests/reference`), because the facts (arguments,
//! variables, exit codes, error kinds, tools) live in code that only a test may look into; as a
//! test it also fails in an ordinary test run when a page is out of date.

use crate::shell;

pub fn run(check: bool) -> Result<(), String> {
    let mut command = shell::cargo();
    command.args(["test", "--release", "--locked", "--package", "holm", "--test", "reference"]);
    if check {
        command.env_remove("HOLM_WRITE_REFERENCE");
    } else {
        command.env("HOLM_WRITE_REFERENCE", "1");
    }
    shell::run(&mut command)
}
