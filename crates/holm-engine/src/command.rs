//! Commands, judged before they travel.

use std::collections::BTreeMap;
use std::time::Duration;

use holm_wire::guest::{MAX_OUTPUT_LIMIT, RunRequest};

use crate::{Command, Error, ErrorKind, RunCommand, env, files};

/// Most bytes of one argument: the kernel takes 128 KiB with the closing NUL.
const MAX_ARGUMENT: usize = (128 << 10) - 1;
/// Most bytes of all arguments.
const MAX_ARGUMENTS: usize = 1 << 20;
/// Most bytes of standard input that travel inside the call.
const MAX_STDIN: usize = 16 << 20;

/// A time in the protocol's form, rounded up.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

/// Judges a command and puts it into the protocol's form; its time limit is the caller's work.
pub(crate) fn run_request(request: RunCommand, default_limit: u64) -> Result<RunRequest, Error> {
    env::check(&request.env)?;
    check_cwd(request.cwd.as_deref())?;
    let limit = request.output_limit.unwrap_or(default_limit);
    if limit == 0 || limit > MAX_OUTPUT_LIMIT {
        return Err(Error::invalid(format!(
            "the output limit must be from 1 to {MAX_OUTPUT_LIMIT} bytes"
        )));
    }
    if request.stdin.as_ref().is_some_and(|bytes| bytes.len() > MAX_STDIN) {
        let text = format!("standard input may have {MAX_STDIN} bytes");
        return Err(Error::new(ErrorKind::TooLarge, text)
            .suggest("Write it to a file with write_file and redirect from there."));
    }
    Ok(RunRequest {
        argv: argv(&request.command)?,
        env: request.env,
        // Absent where the caller named none: then the guest falls back to a directory that
        // is there, should the usual one have been removed.
        cwd: request.cwd,
        user: user(request.user.as_deref())?.to_owned(),
        timeout_ms: 0,
        stdout_limit: limit,
        stderr_limit: limit,
        stdin: request.stdin.map(Vec::from),
    })
}

/// The user's name in the protocol; empty is whom the template names.
pub(crate) fn user(asked: Option<&str>) -> Result<&'static str, Error> {
    match asked {
        None | Some("") => Ok(""),
        Some("sandbox" | "user") => Ok("sandbox"),
        Some("root") => Ok("root"),
        Some(other) => Err(Error::invalid(format!(
            "user must be \"sandbox\" or \"root\", not {:?}",
            crate::text::shorten(other, 40)
        ))),
    }
}

pub(crate) fn check_cwd(cwd: Option<&str>) -> Result<(), Error> {
    cwd.map_or(Ok(()), |cwd| files::check_path("cwd", cwd))
}

/// The command line of `command`.
pub(crate) fn argv(command: &Command) -> Result<Vec<String>, Error> {
    let argv = match command {
        Command::Shell(line) if line.trim().is_empty() => {
            return Err(Error::invalid("command must not be empty"));
        }
        Command::Shell(line) => vec!["/bin/sh".to_owned(), "-c".to_owned(), line.clone()],
        Command::Argv(argv) => argv.clone(),
    };
    if argv.first().is_none_or(String::is_empty) {
        return Err(Error::invalid("command must name a program"));
    }
    if argv.iter().any(|argument| argument.contains('\0')) {
        return Err(Error::invalid("command holds a NUL character, which no argument may"));
    }
    let longest = argv.iter().map(String::len).max().unwrap_or(0);
    let total: usize = argv.iter().map(|argument| argument.len() + 1).sum();
    if longest > MAX_ARGUMENT || total > MAX_ARGUMENTS {
        let text = format!(
            "command has {total} bytes; one argument may have {MAX_ARGUMENT}, all of them \
             {MAX_ARGUMENTS}"
        );
        return Err(Error::new(ErrorKind::TooLarge, text)
            .suggest("Write a script with write_file and run that, or use run_code."));
    }
    Ok(argv)
}

/// Variables with `added` in them.
pub(crate) fn with_variable(
    mut env: BTreeMap<String, String>,
    added: Option<(&str, String)>,
) -> BTreeMap<String, String> {
    if let Some((name, value)) = added {
        let value = match env.get(name) {
            Some(own) if !own.is_empty() => format!("{own}:{value}"),
            _ => value,
        };
        env.insert(name.to_owned(), value);
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: Command, want: Result<usize, (ErrorKind, &str)>) {
        match (argv(&command), want) {
            (Ok(argv), Ok(length)) => assert_eq!(argv.len(), length),
            (Err(error), Err((kind, part))) => {
                assert!(error.kind == kind && error.public.contains(part), "{error}");
            }
            (got, want) => panic!("{got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn commands_are_judged_before_they_travel() {
        let bad = ErrorKind::InvalidArgument;
        check(Command::Shell("true".into()), Ok(3));
        check(Command::Argv(vec!["a".into(), String::new()]), Ok(2));
        check(Command::Shell(" \n".into()), Err((bad, "empty")));
        check(Command::Argv(vec![]), Err((bad, "program")));
        check(Command::Argv(vec![String::new()]), Err((bad, "program")));
        check(Command::Shell("a\0b".into()), Err((bad, "NUL")));
        check(Command::Shell("x".repeat(MAX_ARGUMENT)), Ok(3));
        check(Command::Shell("x".repeat(MAX_ARGUMENT + 1)), Err((ErrorKind::TooLarge, "bytes")));
        let many = vec!["x".repeat(1000); 1100];
        check(Command::Argv(many), Err((ErrorKind::TooLarge, "bytes")));
    }

    #[test]
    fn users_are_two() {
        for name in [None, Some("")] {
            assert_eq!(user(name).unwrap(), "");
        }
        for name in ["sandbox", "user"] {
            assert_eq!(user(Some(name)).unwrap(), "sandbox");
        }
        assert_eq!(user(Some("root")).unwrap(), "root");
        assert!(user(Some("nobody")).unwrap_err().public.contains("\"root\""));
    }

    #[test]
    fn a_module_path_is_added_to_the_callers_own() {
        let env = BTreeMap::from([("P".to_owned(), "/a".to_owned())]);
        assert_eq!(with_variable(env.clone(), Some(("P", "/b".into())))["P"], "/a:/b");
        assert_eq!(with_variable(env, Some(("Q", "/b".into())))["Q"], "/b");
    }
}
