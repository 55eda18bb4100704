//! Names of entries: parts below the root, or refused.

use std::ffi::CString;

use super::task::Form;
use crate::error::{Result, TemplateError, TemplateErrorKind};

/// Longest name in all, as the kernel has it.
const MAX_NAME: usize = 4095;
/// Longest part.
const MAX_PART: usize = 255;

/// Where an entry belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    /// The directory, `a/b`; empty for the root.
    pub above: Vec<u8>,
    /// In that directory.
    pub own: Vec<u8>,
}

impl Name {
    /// None for the root itself. A name that begins with a slash is one below the root as well: the
    /// root of an archive made with such names is the root.
    pub(super) fn parse(path: &[u8], form: Form) -> Result<Option<Self>> {
        let parts: Vec<&[u8]> =
            path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
        let refuse = |why: &str| Err(refused(path, why));
        if path.len() > MAX_NAME {
            return refuse("it is longer than 4095 bytes");
        }
        if path.contains(&0) {
            return refuse("it holds a NUL");
        }
        if parts.iter().any(|part| *part == b"..") {
            return refuse("it holds `..`");
        }
        if parts.iter().any(|part| part.len() > MAX_PART) {
            return refuse("a part of it is longer than 255 bytes");
        }
        let Some((own, above)) = parts.split_last() else { return Ok(None) };
        if form == Form::Image && above.iter().any(|part| part.starts_with(super::marker::PREFIX)) {
            return refuse("it goes through a whiteout");
        }
        Ok(Some(Self { above: above.join(&b'/'), own: own.to_vec() }))
    }

    /// The whole name.
    pub(super) fn full(&self) -> Vec<u8> {
        if self.above.is_empty() {
            return self.own.clone();
        }
        [self.above.as_slice(), b"/", &self.own].concat()
    }
}

/// As the kernel takes it. What comes here has no NUL.
pub(super) fn c_string(part: &[u8]) -> Result<CString> {
    CString::new(part).map_err(|_| refused(part, "it holds a NUL"))
}

/// A name as text that is short and steers no terminal.
pub(crate) fn show(path: &[u8]) -> String {
    const MOST: usize = 200;
    let text: String = String::from_utf8_lossy(path)
        .chars()
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect();
    if text.chars().count() <= MOST {
        return text;
    }
    let start: String = text.chars().take(MOST).collect();
    format!("{start}…")
}

pub(super) fn refused(path: &[u8], why: &str) -> TemplateError {
    TemplateError::new(
        TemplateErrorKind::Refused,
        format!("the layer's entry `{}` is refused: {why}", show(path)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_the_root() {
        let parse = |path: &str| Name::parse(path.as_bytes(), Form::Image);
        for (path, want) in [
            ("a", Some(("", "a"))),
            ("./a/b/c", Some(("a/b", "c"))),
            ("/etc/passwd", Some(("etc", "passwd"))),
            ("//a///b/", Some(("a", "b"))),
            ("a/./b", Some(("a", "b"))),
            ("", None),
            ("./", None),
            ("/", None),
        ] {
            let name = parse(path).unwrap();
            let want = want.map(|(above, own)| Name { above: above.into(), own: own.into() });
            assert_eq!(name, want, "{path}");
        }
        for path in [
            "..",
            "../a",
            "a/../b",
            "a/..",
            "/../a",
            "a\0b",
            ".wh.a/b",
            &"a".repeat(256),
            &"a/".repeat(2048),
        ] {
            assert_eq!(parse(path).unwrap_err().kind, TemplateErrorKind::Refused, "{path}");
        }
        assert!(Name::parse(b".wh.a/b", Form::Overlay).is_ok());
    }
}
