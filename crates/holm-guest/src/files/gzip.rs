//! gzip of uploads and downloads, part by part: little is held at once, however far a few bytes
//! unfold.

use std::io::Write as _;

use bytes::{Buf as _, Bytes};
use flate2::Compression;
use flate2::write::{GzEncoder, MultiGzDecoder};
use hyper::body::Incoming;
use hyper::{HeaderMap, header};

use crate::errors::{Result, invalid};
use crate::server::body::next_part;

/// How content is written on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// As it is.
    Identity,
    /// Compressed.
    Gzip,
}

impl Coding {
    /// What the caller likes best of the two; `None` when it takes neither.
    pub fn accepted(headers: &HeaderMap) -> Option<Self> {
        let (mut gzip, mut identity, mut other) = (None, None, None);
        for value in headers.get_all(header::ACCEPT_ENCODING) {
            for one in value.to_str().unwrap_or("").split(',') {
                let mut parts = one.split(';').map(str::trim);
                let name = parts.next().unwrap_or("").to_ascii_lowercase();
                let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
                let weight: f32 = weight.unwrap_or(1.0);
                match name.as_str() {
                    "gzip" | "x-gzip" => gzip = Some(weight),
                    "identity" => identity = Some(weight),
                    "*" => other = Some(weight),
                    _ => {}
                }
            }
        }
        // Compressed only where it is named; as it is unless that is excluded.
        let plain = identity.unwrap_or(if other == Some(0.0) { 0.0 } else { 1.0 });
        match gzip.or(other.filter(|_| plain <= 0.0)) {
            Some(weight) if weight > 0.0 && (identity.is_none() || weight >= plain) => {
                Some(Self::Gzip)
            }
            _ if plain > 0.0 => Some(Self::Identity),
            _ => None,
        }
    }

    /// How a request's body is written; `None` for a coding that is not known here.
    pub fn sent(headers: &HeaderMap) -> Option<Self> {
        let Some(value) = headers.get(header::CONTENT_ENCODING) else {
            return Some(Self::Identity);
        };
        match value.to_str().unwrap_or("?").trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Some(Self::Identity),
            "gzip" | "x-gzip" => Some(Self::Gzip),
            _ => None,
        }
    }
}

/// A request's body, unpacked as it comes.
pub struct Content {
    body: Incoming,
    packed: Option<Packed>,
}

struct Packed {
    /// None when the end was seen.
    decoder: Option<MultiGzDecoder<Vec<u8>>>,
    input: Bytes,
}

impl Content {
    /// The content of a body.
    pub fn new(body: Incoming, coding: Coding) -> Self {
        let packed =
            || Packed { decoder: Some(MultiGzDecoder::new(Vec::new())), input: Bytes::new() };
        Self { body, packed: (coding == Coding::Gzip).then(packed) }
    }

    /// The body, of which nothing more is wanted.
    pub fn body(&mut self) -> &mut Incoming {
        &mut self.body
    }

    /// The next part; `None` at the end.
    ///
    /// # Errors
    /// As [`next_part`], and when it is not gzip or ends early.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let Some(packed) = &mut self.packed else { return next_part(&mut self.body).await };
        while let Some(decoder) = &mut packed.decoder {
            if packed.input.is_empty() {
                match next_part(&mut self.body).await? {
                    Some(part) => packed.input = part,
                    None => {
                        let decoder = packed.decoder.take();
                        let rest =
                            decoder.map(MultiGzDecoder::finish).transpose().map_err(broken)?;
                        return Ok(rest.filter(|rest| !rest.is_empty()).map(Bytes::from));
                    }
                }
                continue;
            }
            // One call unfolds no more than the decoder's own small buffer.
            let used = decoder.write(&packed.input).map_err(broken)?;
            let unfolded = std::mem::take(decoder.get_mut());
            if used == 0 && unfolded.is_empty() {
                return Err(broken("it does not go on"));
            }
            packed.input.advance(used);
            // Others get their turn: much may come of a body that is all here.
            tokio::task::yield_now().await;
            if !unfolded.is_empty() {
                return Ok(Some(unfolded.into()));
            }
        }
        Ok(None)
    }
}

fn broken(error: impl std::fmt::Display) -> holm_wire::connect::Error {
    invalid(format!("the body is not valid gzip: {error}"))
}

/// Packs what is sent.
pub struct Packer(GzEncoder<Vec<u8>>);

impl Packer {
    /// A new stream.
    pub fn new() -> Self {
        Self(GzEncoder::new(Vec::new(), Compression::fast()))
    }

    /// Packs a part; may keep it for later, unless it is the last.
    ///
    /// # Errors
    /// Never where memory is the target.
    pub fn pack(&mut self, bytes: &[u8], last: bool) -> std::io::Result<Vec<u8>> {
        self.0.write_all(bytes)?;
        if last {
            self.0.try_finish()?;
        }
        Ok(std::mem::take(self.0.get_mut()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: Option<Coding>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, text.parse().unwrap());
        assert_eq!(Coding::accepted(&headers), want, "{text}");
    }

    #[test]
    fn the_coding_is_the_callers_choice() {
        assert_eq!(Coding::accepted(&HeaderMap::new()), Some(Coding::Identity));
        check("", Some(Coding::Identity));
        check("gzip", Some(Coding::Gzip));
        check("GZIP, deflate, br", Some(Coding::Gzip));
        check("gzip;q=0.5", Some(Coding::Gzip));
        check("gzip;q=0.5, identity", Some(Coding::Identity));
        check("identity;q=0.5, gzip", Some(Coding::Gzip));
        check("identity", Some(Coding::Identity));
        check("gzip;q=0", Some(Coding::Identity));
        check("br", Some(Coding::Identity));
        check("*", Some(Coding::Identity));
        check("identity;q=0", None);
        check("identity;q=0, gzip", Some(Coding::Gzip));
        check("identity;q=0, *", Some(Coding::Gzip));
        check("*;q=0", None);
        check("*;q=0, gzip", Some(Coding::Gzip));
        check("*;q=0, identity", Some(Coding::Identity));
        check("br, identity; q=0, gzip; q=0", None);
    }
}
