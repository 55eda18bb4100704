//! From what a caller asks for to what the command's process needs.

use std::collections::BTreeMap;
use std::ffi::CString;

use crate::errors::{Result, invalid, shorten};
use crate::identity::User;
use crate::state::Guest;
use crate::sys::child::{Plan, c_string};

/// The kernel's limit for one argument or variable, with its NUL.
const MAX_STRING: usize = 128 << 10;
/// The kernel takes a quarter of the stack limit at most (2 MiB as a rule); what is below is
/// left to it.
const MAX_STRINGS: usize = 6 << 20;

/// What to run.
#[derive(Debug)]
pub struct Command {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Variables over those of the sandbox.
    pub env: BTreeMap<String, String>,
    /// Working directory the caller named.
    pub cwd: Option<String>,
    /// Where it starts otherwise.
    pub default_cwd: String,
    /// As whom.
    pub user: User,
    /// What its process becomes.
    pub becomes: Becomes,
}

/// What a command's process becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Becomes {
    /// The program that its first argument names.
    Program,
    /// A report of its own confinement (for `Probe`).
    Report,
    /// The guest's own program, with these arguments.
    Guest,
}

fn text(what: &str, value: &str) -> Result<CString> {
    if value.len() >= MAX_STRING {
        return Err(invalid(format!(
            "{what} has {} bytes; the system takes at most {} for one; pass it in a file or on \
             standard input",
            value.len(),
            MAX_STRING - 1
        )));
    }
    c_string(value.as_bytes()).ok_or_else(|| invalid(format!("{what} holds a NUL byte")))
}

/// Checks a command and makes everything ready that can be made ready before the fork.
///
/// # Errors
/// `invalid_argument`, with a text that names the argument.
pub fn plan(guest: &Guest, command: &Command) -> Result<Plan> {
    let program = command.argv.first().filter(|program| !program.is_empty());
    let program = program.ok_or_else(|| invalid("the command is empty"))?;
    let mut argv = Vec::with_capacity(command.argv.len());
    for (index, value) in command.argv.iter().enumerate() {
        argv.push(text(&format!("argument {index}"), value)?);
    }
    let mut env = guest.environment(&command.user);
    for (name, value) in &command.env {
        if name.is_empty() || name.contains('=') || name.contains('\0') {
            return Err(invalid(format!(
                "{} cannot be the name of a variable: names are not empty and hold neither `=` \
                 nor NUL",
                shorten(name)
            )));
        }
        env.insert(name.clone(), value.clone());
    }
    let mut envp = Vec::with_capacity(env.len());
    for (name, value) in &env {
        envp.push(text(&format!("variable {}", shorten(name)), &format!("{name}={value}"))?);
    }
    let size: usize = argv.iter().chain(&envp).map(|one| one.as_bytes().len() + 9).sum();
    if size > MAX_STRINGS {
        return Err(too_large());
    }
    let path = env.get("PATH").map_or("", String::as_str);
    Ok(Plan {
        candidates: candidates(program, path)?,
        argv,
        envp,
        directories: directories(command)?,
        ids: guest.users.switches().then(|| command.user.ids()),
        max_processes: guest.settings.borrow().max_processes,
        open_files: guest.open_files,
        landlock: None,
        not_found: not_found(program).into_bytes(),
        not_executable: format!("holm: {}: permission denied\n", shown(program)).into_bytes(),
        stdio: [-1; 3],
        terminal: false,
        report: command.becomes == Becomes::Report,
        own: match command.becomes {
            Becomes::Guest => Some(own(guest)?),
            Becomes::Program | Becomes::Report => None,
        },
    })
}

/// The descriptor of the guest's own program.
fn own(guest: &Guest) -> Result<std::os::fd::RawFd> {
    let own = guest.own.as_ref().map(rustix::fd::AsRawFd::as_raw_fd);
    own.ok_or_else(|| crate::errors::internal("cannot start its own program", "it was not found"))
}

/// All arguments and variables together pass what the system takes.
pub fn too_large() -> holm_wire::connect::Error {
    invalid(
        "the arguments and variables are too large together for the system; pass data in a file \
         or on standard input",
    )
}

/// What is said of a program that is not there.
fn not_found(program: &str) -> String {
    if program == "/bin/sh" {
        let text = "this sandbox has no shell, because its template has none; use a template with \
                    one, or start a program by its path with `holm run`";
        return format!("holm: /bin/sh: {text}\n");
    }
    format!("holm: {}: command not found\n", shown(program))
}

/// A program's name for one line of text.
fn shown(program: &str) -> String {
    program.chars().take(200).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Where the program may be. A name with a slash is a path; other names are looked up.
fn candidates(program: &str, path: &str) -> Result<Vec<CString>> {
    if program.contains('/') {
        return Ok(vec![text("the program", program)?]);
    }
    let path = if path.is_empty() { crate::state::PATH } else { path };
    let one = |directory: &str| {
        // An empty part means the working directory, as for shells.
        let directory = if directory.is_empty() { "." } else { directory };
        text("the program", &format!("{directory}/{program}"))
    };
    path.split(':').take(256).map(one).collect()
}

/// Where to start, in order of preference. The default falls back when it is gone, so that a
/// sandbox without its working directory still runs commands; one that was named does not.
fn directories(command: &Command) -> Result<Vec<CString>> {
    match &command.cwd {
        Some(named) if !named.is_empty() => {
            let path = crate::files::path::absolute(named, &command.default_cwd)?;
            Ok(vec![path])
        }
        _ => [command.default_cwd.as_str(), &command.user.home, "/"]
            .into_iter()
            .map(|directory| text("the working directory", directory))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_up_like_a_shell_does() {
        let check = |program: &str, path: &str, want: &[&str]| {
            let got = candidates(program, path).unwrap();
            let got: Vec<_> = got.iter().map(|one| one.to_str().unwrap()).collect();
            assert_eq!(got, want, "{program} in {path}");
        };
        check("ls", "/a:/b", &["/a/ls", "/b/ls"]);
        check("ls", "/a::/b", &["/a/ls", "./ls", "/b/ls"]);
        check("./ls", "/a", &["./ls"]);
        check("/bin/ls", "", &["/bin/ls"]);
        assert!(candidates("ls", "").unwrap().len() > 3);
    }

    #[test]
    fn a_name_is_shown_on_one_line() {
        assert_eq!(shown("a\nb\u{1b}[0m"), "a?b?[0m");
    }

    #[test]
    fn what_the_system_cannot_take_is_named() {
        assert!(text("argument 3", "a\0b").unwrap_err().message.contains("argument 3"));
        assert!(text("argument 3", &"a".repeat(MAX_STRING)).is_err());
        assert!(text("argument 3", &"a".repeat(MAX_STRING - 1)).is_ok());
    }
}
