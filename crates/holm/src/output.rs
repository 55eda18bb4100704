//! Text for people and JSON for programs, on streams that may be closed at any time.

use std::io::{self, Write as _};

use serde::Serialize;

use crate::env_vars::{self, Environment};
use crate::exit::Failure;

/// Writes to standard output, past any buffer. A closed reader is not an error: the text was
/// wanted by nobody.
///
/// # Errors
/// Anything else, for example a full disk.
pub fn stdout(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Writes to standard error. There is nowhere to report that this failed.
pub fn stderr(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
}

/// Prints text to standard output.
///
/// # Errors
/// When it cannot be written, other than for a closed reader.
pub fn print(text: &str) -> Result<(), Failure> {
    stdout(text.as_bytes())
        .map_err(|error| Failure::new(format!("cannot write to standard output: {error}")))
}

/// Prints a line of what may come from elsewhere.
///
/// # Errors
/// As [`print`].
pub fn print_line(text: &str) -> Result<(), Failure> {
    print(&format!("{}\n", plain(text)))
}

/// Text from elsewhere, such as a name that a service sends, without what would steer a terminal.
fn plain(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(shown).collect()
}

/// Prints a value as indented JSON.
///
/// # Errors
/// As [`print`].
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(format!("cannot print as JSON: {error}")))?;
    text.push('\n');
    print(&text)
}

/// A table: a head, and columns as wide as they must be.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    let lines = || std::iter::once(&head).chain(rows);
    let wide = |column: usize| {
        lines().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let mut text = String::new();
    for line in lines() {
        let cells = line.iter().enumerate().map(|(column, cell)| {
            let width = wide(column).unwrap_or(0);
            format!("{cell:width$}")
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Prints rows as a table.
///
/// # Errors
/// As [`print`].
pub fn print_rows(
    head: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Result<(), Failure> {
    let cell = |text: String| plain(&text).replace('\n', " ");
    let row = |cells: Vec<String>| cells.into_iter().map(cell).collect();
    print(&table(head, &rows.into_iter().map(row).collect::<Vec<_>>()))
}

/// Prints a failure to standard error.
pub fn report(failure: &Failure, environment: &Environment) {
    let paint = Paint::stderr(environment);
    let mut text = format!("{} {}\n", paint.red("error:"), plain(&failure.message));
    if let Some(hint) = &failure.hint {
        text.push_str(&format!("{} {}\n", paint.cyan("hint:"), plain(hint)));
    }
    stderr(text.as_bytes());
}

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub struct Paint(bool);

impl Paint {
    /// No colours.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self(false)
    }

    /// For standard output.
    #[must_use]
    pub fn stdout(environment: &Environment) -> Self {
        Self::decide(io::IsTerminal::is_terminal(&io::stdout()), environment)
    }

    /// For standard error.
    #[must_use]
    pub fn stderr(environment: &Environment) -> Self {
        Self::decide(io::IsTerminal::is_terminal(&io::stderr()), environment)
    }

    fn decide(terminal: bool, environment: &Environment) -> Self {
        let dumb = environment.get(env_vars::TERM).is_none_or(|(_, term)| term == "dumb");
        Self(terminal && !dumb && environment.get(env_vars::NO_COLOR).is_none())
    }

    /// Whether there are any.
    #[must_use]
    pub fn is_on(self) -> bool {
        self.0
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Bold red.
    #[must_use]
    pub fn red(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    /// Green.
    #[must_use]
    pub fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Yellow.
    #[must_use]
    pub fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// Cyan.
    #[must_use]
    pub fn cyan(self, text: &str) -> String {
        self.wrap("36", text)
    }

    /// Bold.
    #[must_use]
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_elsewhere_does_not_steer_the_terminal() {
        assert_eq!(plain("a\x1b[2Jb\r\n\u{9b}é"), "a\u{fffd}[2Jb\u{fffd}\n\u{fffd}é");
    }

    #[test]
    fn colours_need_a_capable_terminal_and_no_objection() {
        let check = |terminal, pairs: &[(&str, &str)], expected| {
            let environment = Environment::of(pairs.iter().copied());
            assert_eq!(Paint::decide(terminal, &environment).is_on(), expected, "{pairs:?}");
        };
        check(true, &[("TERM", "xterm")], true);
        check(false, &[("TERM", "xterm")], false);
        check(true, &[("TERM", "xterm"), ("NO_COLOR", "1")], false);
        check(true, &[("TERM", "xterm"), ("NO_COLOR", "")], true);
        check(true, &[("TERM", "dumb")], false);
        check(true, &[], false);
    }
}
