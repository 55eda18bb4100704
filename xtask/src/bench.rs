//! The benchmark. It is a program of its own (`benches/`), whose script builds what it needs.

use crate::shell;

pub fn run(arguments: &[&str]) -> Result<(), String> {
    let program = shell::root().join("benches/run");
    if !program.is_file() {
        return Err("benches/run is missing".to_owned());
    }
    let mut command = std::process::Command::new(program);
    shell::run(command.current_dir(shell::root()).args(arguments))
}
