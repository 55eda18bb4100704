//! Where the bytes of a file are. Only those are read: a file may be said to be far larger than any
//! disk.

use std::os::fd::AsFd;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Most pieces of one file; of more, those that are nearest to each other become one.
const MOST: usize = 1 << 16;

/// Pieces of a file, with the smallest hole between two of them.
#[derive(Debug, Default)]
struct Pieces {
    all: Vec<(u64, u64)>,
    gap: u64,
}

impl Pieces {
    fn add(&mut self, start: u64, end: u64) {
        match self.all.last_mut() {
            Some((from, length)) if start.saturating_sub(*from + *length) <= self.gap => {
                *length = end - *from;
            }
            _ => self.all.push((start, end - start)),
        }
        while self.all.len() > MOST {
            self.gap = (self.gap * 2).max(4096);
            let all = std::mem::take(&mut self.all);
            all.into_iter().for_each(|(start, length)| self.add(start, start + length));
        }
    }
}

/// The pieces of a file of that size that hold bytes: offset and length.
pub(super) fn pieces(file: impl AsFd, size: u64) -> Result<Vec<(u64, u64)>, Errno> {
    let mut found = Pieces::default();
    let mut at = 0;
    while at < size {
        let start = match seek(&file, SeekFrom::Data(at)) {
            Ok(start) if start < size => start,
            // Nothing more, or it has become longer.
            Ok(_) | Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno),
        };
        let end = match seek(&file, SeekFrom::Hole(start)) {
            Ok(end) => end.min(size),
            // It has become shorter.
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno),
        };
        if end <= start {
            break;
        }
        found.add(start, end);
        at = end;
    }
    Ok(found.all)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    fn file() -> std::fs::File {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        rustix::fs::memfd_create("holes", flags).unwrap().into()
    }

    #[test]
    fn a_file_is_where_its_bytes_are() {
        let empty = file();
        empty.set_len(1 << 40).unwrap();
        assert_eq!(pieces(&empty, 1 << 40), Ok(vec![]));
        empty.write_all_at(b"x", 1 << 39).unwrap();
        let found = pieces(&empty, 1 << 40).unwrap();
        assert!(
            matches!(found[..], [(at, length)] if at <= 1 << 39 && length < 1 << 22),
            "{found:?}"
        );
        let dense = file();
        dense.write_all_at(&[1; 10_000], 0).unwrap();
        assert_eq!(pieces(&dense, 10_000), Ok(vec![(0, 10_000)]));
        // Shorter than it was said to be, and longer.
        assert_eq!(pieces(&dense, 5_000), Ok(vec![(0, 5_000)]));
        assert!(pieces(&dense, 20_000).unwrap().iter().all(|(at, length)| at + length <= 20_000));
    }

    #[test]
    fn of_too_many_pieces_neighbours_become_one() {
        let mut pieces = Pieces::default();
        let count = 3 * MOST as u64;
        for number in 0..count {
            let start = number * 8192;
            pieces.add(start, start + 100);
        }
        assert!(pieces.all.len() <= MOST);
        let covered =
            |at: u64| pieces.all.iter().any(|(from, len)| (*from..from + len).contains(&at));
        for number in [0, 1, count / 2, count - 1] {
            assert!(covered(number * 8192) && covered(number * 8192 + 99), "{number}");
        }
        assert!(pieces.all.is_sorted());
    }
}
