//! Paths and child processes.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The cargo that runs this.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command, its output shown.
pub fn run(command: &mut Command) -> Result<(), String> {
    let line = line(command);
    eprintln!("$ {line}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` failed: {status}")),
        Err(error) => Err(format!("`{line}` cannot be run: {error}")),
    }
}

/// Runs a command and answers what it prints.
pub fn read(command: &mut Command) -> Result<String, String> {
    let line = line(command);
    let output = command.output().map_err(|error| format!("`{line}` cannot be run: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{line}` failed: {}\n{text}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{line}` printed bytes that are no text"))
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Every file that belongs to the repository, relative to its root: tracked, or new and not
/// ignored.
pub fn files() -> Result<Vec<String>, String> {
    let mut git = Command::new("git");
    git.current_dir(root());
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
    let mut files: Vec<String> =
        read(&mut git)?.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    // Deleted, but not committed yet.
    files.retain(|path| root().join(path).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}
