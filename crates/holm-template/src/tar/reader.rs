//! Entries one after the other, and their content.

use std::io::Read;

use super::extra::{Extra, Holes};
use super::header::Header;
use super::sparse::Map;
use super::{BLOCK, Fault, Result, broken, padding};

/// Most bytes of records and long names before an entry.
const MAX_EXTRA: u64 = 1 << 20;
/// Content is handed on in parts of this size.
const PART: usize = 128 << 10;

/// What an entry makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink,
    HardLink,
    Fifo,
    /// A device, of characters or blocks.
    Device,
}

/// One entry.
#[derive(Debug)]
pub(crate) struct Entry {
    pub path: Vec<u8>,
    pub kind: Kind,
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    /// Seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Target of a link.
    pub link: Vec<u8>,
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where content belongs, of a file.
    pub map: Map,
}

/// Reads an archive from a stream.
pub(crate) struct Reader<R> {
    input: R,
    /// Content of the entry at hand that nobody has read, and its padding.
    rest: u64,
    padding: u64,
    buffer: Vec<u8>,
    ended: bool,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, rest: 0, padding: 0, buffer: Vec::new(), ended: false }
    }

    pub(crate) fn into_inner(self) -> R {
        self.input
    }

    /// The next entry; none at the end. What was not read of the one before is skipped.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>> {
        let mut extra = Extra::default();
        let mut some = false;
        let mut spent = 0_u64;
        loop {
            self.skip(self.rest + self.padding)?;
            (self.rest, self.padding) = (0, 0);
            let Some(header) = self.header()? else {
                self.ended = true;
                return if some { broken("it ends after a header's records") } else { Ok(None) };
            };
            let size = header.size()?;
            match header.kind() {
                b'x' | b'L' | b'K' | b'g' => {
                    spent = spent.saturating_add(size);
                    if spent > MAX_EXTRA {
                        return broken("the name or the records of an entry are too long");
                    }
                    let bytes = self.take(size)?;
                    match header.kind() {
                        b'x' => extra.records(&bytes)?,
                        b'L' => extra.path = Some(trimmed(bytes)),
                        b'K' => extra.link = Some(trimmed(bytes)),
                        // Records for all entries say nothing that matters here.
                        _ => continue,
                    }
                    some = true;
                }
                _ => return self.entry(&header, extra).map(Some),
            }
        }
    }

    fn entry(&mut self, header: &Header, mut extra: Extra) -> Result<Entry> {
        let path = extra.name().unwrap_or_else(|| header.name());
        let kind = match header.kind() {
            // Before there were kinds, a directory was a file whose name ended in a slash.
            0 | b'0' if path.ends_with(b"/") => Kind::Directory,
            0 | b'0' | b'7' | b'S' => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::Symlink,
            b'3' | b'4' => Kind::Device,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            other => {
                return broken(format!(
                    "an entry is of the unknown kind `{}`",
                    other.escape_ascii()
                ));
            }
        };
        let mut map = Map::default();
        if kind == Kind::File {
            let stored = extra.size.map_or_else(|| header.size(), Ok)?;
            map = self.map(header, &extra, stored)?;
        }
        Ok(Entry {
            kind,
            mode: header.mode()?,
            uid: extra.uid.map_or_else(|| header.uid(), Ok)?,
            gid: extra.gid.map_or_else(|| header.gid(), Ok)?,
            mtime: extra.mtime.unwrap_or_else(|| (header.mtime(), 0)),
            link: extra.link.take().unwrap_or_else(|| header.link()),
            xattrs: std::mem::take(&mut extra.xattrs),
            map,
            path,
        })
    }

    /// Where a file's content belongs. `stored` is what the archive has of it.
    fn map(&mut self, header: &Header, extra: &Extra, stored: u64) -> Result<Map> {
        self.padding = padding(stored);
        self.rest = stored;
        let map = if header.kind() == b'S' {
            Map::gnu(header, &mut self.input)?
        } else {
            match extra.holes()? {
                Holes::None => Map::whole(stored),
                Holes::Listed(map) => map,
                Holes::Before(length) => {
                    let (map, taken) = Map::lines(&mut self.input, length, stored)?;
                    self.rest -= taken;
                    map
                }
            }
        };
        map.check(self.rest)
    }

    /// Hands the content of a file on, part by part, with the place of each.
    pub(crate) fn content<E: From<Fault>>(
        &mut self,
        map: &Map,
        mut sink: impl FnMut(u64, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.buffer.resize(PART, 0);
        for (offset, length) in &map.pieces {
            let mut done = 0;
            while done < *length {
                let part = usize::try_from(length - done).unwrap_or(PART).min(PART);
                let part = &mut self.buffer[..part];
                self.input.read_exact(part).map_err(Fault::from)?;
                sink(offset + done, part)?;
                done += part.len() as u64;
                self.rest -= part.len() as u64;
            }
        }
        Ok(())
    }

    /// Reads on to the end of the stream: what is behind the archive's end counts for digests.
    pub(crate) fn drain(&mut self) -> Result<()> {
        std::io::copy(&mut self.input, &mut std::io::sink())?;
        Ok(())
    }

    /// None at the end: a block of zeros, or the end of the stream.
    fn header(&mut self) -> Result<Option<Header>> {
        if self.ended {
            return Ok(None);
        }
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.input.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(Fault::Short),
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Header::check(block)
    }

    fn take(&mut self, size: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        self.input.read_exact(&mut bytes)?;
        self.skip(padding(size))?;
        Ok(bytes)
    }

    fn skip(&mut self, count: u64) -> Result<()> {
        let skipped = std::io::copy(&mut self.input.by_ref().take(count), &mut std::io::sink())?;
        if skipped == count { Ok(()) } else { Err(Fault::Short) }
    }
}

impl<R: Read + std::io::Seek> Reader<R> {
    /// Goes to the end of the content at hand without reading it. That the stream is long enough is
    /// for whoever reads the content to see.
    pub(crate) fn leap(&mut self) -> Result<()> {
        let count = i64::try_from(self.rest.saturating_add(self.padding));
        let Ok(count) = count else { return Err(Fault::Short) };
        (self.rest, self.padding) = (0, 0);
        self.input.seek_relative(count)?;
        Ok(())
    }

    /// Where in the stream the content at hand begins.
    pub(crate) fn position(&mut self) -> Result<u64> {
        Ok(self.input.stream_position()?)
    }
}

/// A long name, which ends with a NUL.
fn trimmed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes
}
