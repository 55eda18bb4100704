//! Where the bytes of a file with holes belong. There are four ways to say it.

use std::io::Read;

use super::{BLOCK, Result, broken, header};

/// Most pieces of one file.
const MAX_PIECES: usize = 1 << 18;

/// Pieces of content: where each begins and how long it is; and the file's whole length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Map {
    pub pieces: Vec<(u64, u64)>,
    pub length: u64,
}

impl Map {
    /// Everything in one piece.
    pub(super) fn whole(length: u64) -> Self {
        Self { pieces: vec![(0, length)], length }
    }

    fn add(&mut self, offset: u64, length: u64) -> Result<()> {
        if self.pieces.len() >= MAX_PIECES {
            return broken("a sparse file has too many pieces");
        }
        self.pieces.push((offset, length));
        Ok(())
    }

    /// Checks it against what the archive has of the file.
    pub(super) fn check(self, stored: u64) -> Result<Self> {
        let mut end = 0_u64;
        let mut total = 0_u64;
        for (offset, length) in &self.pieces {
            let Some(next) = offset.checked_add(*length) else {
                return broken("a piece of a sparse file lies nowhere");
            };
            if *offset < end || next > self.length {
                return broken("the pieces of a sparse file do not fit");
            }
            end = next;
            total = total.saturating_add(*length);
        }
        if total != stored {
            return broken("a sparse file has not the bytes that its pieces say");
        }
        Ok(self)
    }

    /// Fields of GNU's own form, in the header and in blocks of their own after it.
    pub(super) fn gnu(header: &header::Header, input: &mut impl Read) -> Result<Self> {
        let (fields, mut more, length) = header.sparse()?;
        let mut map = Self { pieces: Vec::new(), length };
        map.fields(fields)?;
        while more {
            let mut block = [0; BLOCK];
            input.read_exact(&mut block)?;
            map.fields(&block[..504])?;
            more = block[504] != 0;
        }
        Ok(map)
    }

    fn fields(&mut self, fields: &[u8]) -> Result<()> {
        for field in fields.chunks_exact(24) {
            if field[0] == 0 {
                break;
            }
            match (header::number(&field[..12]), header::number(&field[12..])) {
                (Some(offset), Some(length)) => self.add(offset, length)?,
                _ => return broken("the pieces of a sparse file are not numbers"),
            }
        }
        Ok(())
    }

    /// The record of pax form 0.1: `offset,length,offset,length…`.
    pub(super) fn list(text: &[u8], length: u64) -> Result<Self> {
        let mut map = Self { pieces: Vec::new(), length };
        let mut numbers = text.split(|byte| *byte == b',').map(decimal);
        while let Some(offset) = numbers.next() {
            match (offset, numbers.next().flatten()) {
                (Some(offset), Some(length)) => map.add(offset, length)?,
                _ => return broken("the pieces of a sparse file are not numbers"),
            }
        }
        Ok(map)
    }

    /// Pax form 1.0: lines before the content, in whole blocks. Gives what they took as well.
    pub(super) fn lines(input: &mut impl Read, length: u64, stored: u64) -> Result<(Self, u64)> {
        let mut lines = Lines { input, text: Vec::new(), at: 0, taken: 0, most: stored };
        let mut map = Self { pieces: Vec::new(), length };
        for _ in 0..lines.number()? {
            let offset = lines.number()?;
            map.add(offset, lines.number()?)?;
        }
        let taken = lines.taken;
        Ok((map, taken))
    }
}

struct Lines<'a, R> {
    input: &'a mut R,
    text: Vec<u8>,
    at: usize,
    taken: u64,
    most: u64,
}

impl<R: Read> Lines<'_, R> {
    fn number(&mut self) -> Result<u64> {
        let mut digits = Vec::new();
        loop {
            if self.at == self.text.len() {
                if self.taken + BLOCK as u64 > self.most {
                    return broken("the pieces of a sparse file do not end");
                }
                self.text.resize(BLOCK, 0);
                self.input.read_exact(&mut self.text)?;
                self.taken += BLOCK as u64;
                self.at = 0;
            }
            let byte = self.text[self.at];
            self.at += 1;
            match byte {
                b'\n' => break,
                _ if digits.len() < 20 => digits.push(byte),
                _ => return broken("the pieces of a sparse file are not numbers"),
            }
        }
        match decimal(&digits) {
            Some(number) => Ok(number),
            None => broken("the pieces of a sparse file are not numbers"),
        }
    }
}

pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
