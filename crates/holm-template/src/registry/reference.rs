//! Names of images: `registry.example.com:5000/team/app:1.2`, or with a digest.

use std::fmt;

use crate::error::{Result, TemplateError, TemplateErrorKind};
use crate::id::Digest;

/// An image in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Host, with a port where it has one.
    pub host: String,
    /// `team/app`
    pub repository: String,
    /// Which of the repository's images.
    pub version: Version,
}

/// Which image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    /// The one that has this name now.
    Tag(String),
    /// The one with this digest.
    Digest(Digest),
}

impl Reference {
    /// Reads one. Without tag and digest it is `latest`.
    ///
    /// # Errors
    /// When it is none, or names no registry: there is no usual one.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse = |why: &str| {
            let shown = crate::unpack::show(text.as_bytes());
            Err(TemplateError::new(
                TemplateErrorKind::BadName,
                format!(
                    "`{shown}` is not an image: {why}; write it as \
                     registry.example.com/repository:tag"
                ),
            ))
        };
        let Some((host, rest)) = text.split_once('/') else {
            return refuse("it names no registry");
        };
        let is_host = host == "localhost" || host.contains(['.', ':']);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        if !is_host || !host.chars().all(plain) {
            return refuse("it names no registry");
        }
        let (name, digest) = match rest.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (rest, None),
        };
        let (repository, tag) = match name.rsplit_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (name, None),
        };
        let part = |part: &str| {
            let inner = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
            !part.is_empty() && part.bytes().all(inner) && !part.starts_with('.')
        };
        if repository.len() > 255 || !repository.split('/').all(part) {
            return refuse("its repository has a name that none can have");
        }
        let version = match (digest, tag) {
            (Some(digest), _) => match digest.parse() {
                Ok(digest) => Version::Digest(digest),
                Err(_) => return refuse("its digest is not a SHA-256 digest"),
            },
            (None, tag) => {
                let tag = tag.unwrap_or("latest");
                let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
                if tag.is_empty() || tag.len() > 128 || !tag.chars().all(inner) {
                    return refuse("its tag is one that none can have");
                }
                Version::Tag(tag.to_owned())
            }
        };
        Ok(Self { host: host.to_owned(), repository: repository.to_owned(), version })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => out.write_str(tag),
            Self::Digest(digest) => digest.fmt(out),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if matches!(self.version, Version::Tag(_)) { ':' } else { '@' };
        write!(out, "{}/{}{sign}{}", self.host, self.repository, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_name_their_registry() {
        let digest = Digest::of_bytes(b"");
        for (text, want) in [
            ("registry.example.com/app", "registry.example.com/app:latest".to_owned()),
            ("localhost/a/b_c/d-e:1.0", "localhost/a/b_c/d-e:1.0".to_owned()),
            ("127.0.0.1:5000/app:x", "127.0.0.1:5000/app:x".to_owned()),
            (&format!("r.example/app:1@{digest}"), format!("r.example/app@{digest}")),
        ] {
            assert_eq!(Reference::parse(text).unwrap().to_string(), want);
        }
        for text in [
            "alpine",
            "library/alpine",
            "r.example/",
            "r.example/App",
            "r.example/a//b",
            "r.example/../b",
            "r.example/a:",
            "r.example/a:b/c",
            "r.example/a@sha256:00",
            "r.example?x/a",
            "user@r.example/a",
        ] {
            let error = Reference::parse(text).unwrap_err();
            assert_eq!(error.kind, TemplateErrorKind::BadName, "{text}");
        }
    }
}
