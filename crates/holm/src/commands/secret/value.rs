//! The value of a secret, from standard input: never an argument, and never shown at a terminal.

use std::io::{IsTerminal as _, Read as _, Stdin};

use holm_engine::SecretText;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::exit::Failure;
use crate::output;

/// Bytes that are read at most: more than a secret may have.
const MAX: u64 = 64 << 10;
/// What a terminal gives for Ctrl-C where it makes no signal of it.
const CTRL_C: char = '\u{3}';

/// Reads it; one newline at its end is not part of it.
pub(super) fn read(name: &str) -> Result<SecretText, Failure> {
    let stdin = std::io::stdin();
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot read the value from standard input: {error}"))
    };
    let mut text = String::new();
    if stdin.is_terminal() {
        let _hidden = Hidden::begin(&stdin).map_err(|error| failed(&error))?;
        output::stderr(format!("value of {name} (not shown): ").as_bytes());
        let read = stdin.read_line(&mut text);
        output::stderr(b"\n");
        read.map_err(|error| failed(&error))?;
        if text.contains(CTRL_C) {
            return Err(Failure::new("nothing is set").code(crate::exit::SIGNAL_BASE + 2));
        }
    } else {
        stdin.take(MAX).read_to_string(&mut text).map_err(|error| failed(&error))?;
    }
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() {
        return Err(Failure::usage("the value on standard input is empty")
            .hint(format!("for example: holm secret set {name} --host … < FILE")));
    }
    Ok(SecretText::new(text.to_owned()))
}

/// A terminal that shows nothing of what is typed, until this is dropped.
struct Hidden<'a> {
    stdin: &'a Stdin,
    before: Termios,
}

impl<'a> Hidden<'a> {
    fn begin(stdin: &'a Stdin) -> rustix::io::Result<Self> {
        let before = tcgetattr(stdin)?;
        let mut hidden = before.clone();
        // Ctrl-C comes as a character, so that no signal leaves the terminal so.
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(stdin, OptionalActions::Flush, &hidden)?;
        Ok(Self { stdin, before })
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        // There is nothing else to do where it does not go.
        let _ = tcsetattr(self.stdin, OptionalActions::Flush, &self.before);
    }
}
