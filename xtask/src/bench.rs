//! The benchmark. It is a program of its own (`benches/`), built like everything else; this only
//! builds what it needs and starts it.

use crate::shell;

pub fn run(arguments: &[&str]) -> Result<(), String> {
    shell::run(shell::cargo().args(["build", "--release", "--locked"]))?;
    let program = shell::root().join("benches/run");
    if !program.is_file() {
        return Err("benches/run is missing".to_owned());
    }
    let mut command = std::process::Command::new(program);
    shell::run(command.current_dir(shell::root()).args(arguments))
}
