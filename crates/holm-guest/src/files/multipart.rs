//! `multipart/form-data`, read as it comes.

use crate::errors::{Result, invalid};

/// Most bytes of one part's head.
const MAX_HEAD: usize = 16 << 10;

/// What comes next in a form.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A part begins: the field's name and the file's.
    Part(String, Option<String>),
    /// Content of the part.
    Data(Vec<u8>),
    /// The part is whole.
    PartEnd,
    /// The form is whole.
    End,
}

#[derive(Debug, PartialEq, Eq)]
enum At {
    /// Before the first boundary.
    Start,
    /// Just after a boundary.
    Boundary,
    Head,
    Data,
    End,
}

/// Splits a form into events, holding little more than one boundary's length.
#[derive(Debug)]
pub struct Parser {
    buffer: Vec<u8>,
    /// `\r\n--boundary`.
    mark: Vec<u8>,
    at: At,
}

/// The boundary that a content type names.
pub fn boundary(content_type: &str) -> Option<String> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let value = parameter(parameters, "boundary")?;
    (1..=200).contains(&value.len()).then_some(value)
}

/// A parameter of a header, quoted or not.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    while !rest.is_empty() {
        rest = rest.trim_start_matches([' ', '\t', ';']);
        let (key, after) = rest.split_once('=')?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let (value, after) = after.split_once(';').unwrap_or((after, ""));
                (value.trim().to_owned(), after)
            }
        };
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = after;
    }
    None
}

/// Text up to the closing quote; a backslash makes the next quote or backslash plain.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' if text[at + 1..].starts_with(['"', '\\']) => {
                value.push(letters.next()?.1);
            }
            letter => value.push(letter),
        }
    }
    None
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

impl Parser {
    /// A parser for a boundary.
    pub fn new(boundary: &str) -> Self {
        let mark = format!("\r\n--{boundary}").into_bytes();
        // The first boundary has no line before it; one is put there.
        Self { buffer: b"\r\n".to_vec(), mark, at: At::Start }
    }

    /// Adds what came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next event; `None` when more must come first.
    ///
    /// # Errors
    /// When the form is broken.
    pub fn next(&mut self) -> Result<Option<Event>> {
        loop {
            match self.at {
                At::End => return Ok(None),
                At::Start => {
                    let Some(at) = find(&self.buffer, &self.mark) else {
                        if self.buffer.len() > MAX_HEAD {
                            return Err(invalid("the form does not begin with its boundary"));
                        }
                        return Ok(None);
                    };
                    self.buffer.drain(..at + self.mark.len());
                    self.at = At::Boundary;
                }
                At::Boundary => {
                    if self.buffer.len() < 2 {
                        return Ok(None);
                    }
                    if self.buffer.starts_with(b"--") {
                        self.at = At::End;
                        self.buffer.clear();
                        return Ok(Some(Event::End));
                    }
                    if !self.buffer.starts_with(b"\r\n") {
                        return Err(invalid("a boundary of the form is not at a line's end"));
                    }
                    // The line's end stays: an empty head is then found, too.
                    self.at = At::Head;
                }
                At::Head => {
                    let Some(at) = find(&self.buffer, b"\r\n\r\n") else {
                        if self.buffer.len() > MAX_HEAD {
                            return Err(invalid("the head of a part of the form is too long"));
                        }
                        return Ok(None);
                    };
                    let head = String::from_utf8_lossy(&self.buffer[..at]).into_owned();
                    self.buffer.drain(..at + 4);
                    self.at = At::Data;
                    let (name, file) = disposition(&head);
                    return Ok(Some(Event::Part(name, file)));
                }
                At::Data => {
                    if let Some(at) = find(&self.buffer, &self.mark) {
                        if at > 0 {
                            return Ok(Some(Event::Data(self.buffer.drain(..at).collect())));
                        }
                        self.buffer.drain(..self.mark.len());
                        self.at = At::Boundary;
                        return Ok(Some(Event::PartEnd));
                    }
                    let safe = self.buffer.len().saturating_sub(self.mark.len() - 1);
                    if safe == 0 {
                        return Ok(None);
                    }
                    return Ok(Some(Event::Data(self.buffer.drain(..safe).collect())));
                }
            }
        }
    }
}

fn disposition(head: &str) -> (String, Option<String>) {
    for line in head.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.trim().eq_ignore_ascii_case("content-disposition") {
            let parameters = value.split_once(';').map_or("", |(_, rest)| rest);
            let field = parameter(parameters, "name").unwrap_or_default();
            return (field, parameter(parameters, "filename"));
        }
    }
    (String::new(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &[u8] = b"--XX\r\nContent-Disposition: form-data; name=\"file\"; \
filename=\"a;\\\"b.txt\"\r\nContent-Type: x/y\r\n\r\nhello\r\n--X not\r\n\r\n--XX\r\n\
content-disposition: form-data; name=other\r\n\r\n\r\n--XX--\r\n";

    fn parts(size: usize) -> Vec<(String, Option<String>, Vec<u8>)> {
        let mut parser = Parser::new("XX");
        let mut found = Vec::new();
        for part in FORM.chunks(size) {
            parser.push(part);
            while let Some(event) = parser.next().unwrap() {
                match event {
                    Event::Part(name, file) => found.push((name, file, Vec::new())),
                    Event::Data(bytes) => found.last_mut().unwrap().2.extend(bytes),
                    Event::PartEnd => {}
                    Event::End => return found,
                }
            }
        }
        panic!("no end with parts of {size}");
    }

    #[test]
    fn any_cut_gives_the_same_form() {
        for size in 1..FORM.len() {
            let found = parts(size);
            assert_eq!(found.len(), 2, "parts of {size}");
            assert_eq!(found[0].0, "file");
            assert_eq!(found[0].1.as_deref(), Some("a;\"b.txt"));
            assert_eq!(found[0].2, b"hello\r\n--X not\r\n");
            assert_eq!((found[1].0.as_str(), found[1].2.len()), ("other", 0));
        }
    }

    #[test]
    fn boundaries_are_read() {
        let check = |text: &str, want: Option<&str>| {
            assert_eq!(boundary(text).as_deref(), want, "{text}");
        };
        check("multipart/form-data; boundary=abc", Some("abc"));
        check("multipart/form-data; charset=x; boundary=\"a b\"", Some("a b"));
        check("multipart/form-data", None);
        check("text/plain; boundary=abc", None);
        check("multipart/form-data; boundary=", None);
    }

    #[test]
    fn a_form_that_never_begins_is_refused() {
        let mut parser = Parser::new("XX");
        parser.push(&vec![b'a'; MAX_HEAD + 1]);
        assert!(parser.next().is_err());
    }
}
