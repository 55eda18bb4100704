//! The newest bytes of a stream, by their place in it.

use std::collections::VecDeque;

use holm_wire::background::Part;

use crate::command::capture::unfinished;

/// Keeps at most a limit.
#[derive(Debug)]
pub struct Log {
    kept: VecDeque<u8>,
    limit: usize,
    total: u64,
}

impl Log {
    /// Keeps at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { kept: VecDeque::new(), limit, total: 0 }
    }

    /// Adds bytes; the oldest make room.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let newest = &bytes[bytes.len().saturating_sub(self.limit)..];
        let over = (self.kept.len() + newest.len()).saturating_sub(self.limit);
        self.kept.drain(..over);
        self.kept.extend(newest);
    }

    /// Bytes that were written in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bytes that are kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Gives up what is kept.
    pub fn clear(&mut self) {
        self.kept = VecDeque::new();
    }

    fn first(&self) -> u64 {
        self.total - self.kept.len() as u64
    }

    /// At most `most` bytes from a place on. One that is in the middle of a character ends before
    /// it, unless nothing else is left: `is_over` says that no more will come.
    pub fn part(&self, from: u64, most: usize, is_over: bool) -> Part {
        let from = from.clamp(self.first(), self.total);
        let skipped = usize::try_from(from - self.first()).unwrap_or(usize::MAX);
        let mut bytes: Vec<u8> = self.kept.iter().skip(skipped).take(most).copied().collect();
        let is_last = from + bytes.len() as u64 == self.total;
        if !(is_last && is_over) {
            let rest = unfinished(&bytes);
            // A limit of three bytes or less could else never be passed.
            if rest < bytes.len() {
                bytes.truncate(bytes.len() - rest);
            } else if is_last {
                bytes.clear();
            }
        }
        Part { from, bytes, total: self.total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(log: &Log, from: u64, most: usize, is_over: bool, want: (u64, &str)) {
        let part = log.part(from, most, is_over);
        let text = String::from_utf8(part.bytes).unwrap();
        assert_eq!((part.from, text.as_str()), want, "from {from}, at most {most}");
    }

    #[test]
    fn the_newest_are_kept_and_have_their_place() {
        let mut log = Log::new(6);
        check(&log, 0, 10, false, (0, ""));
        log.push(b"abcd");
        check(&log, 0, 10, false, (0, "abcd"));
        check(&log, 2, 1, false, (2, "c"));
        check(&log, 4, 10, false, (4, ""));
        check(&log, 99, 10, false, (4, ""));
        log.push(b"efgh");
        check(&log, 0, 10, false, (2, "cdefgh"));
        check(&log, 5, 10, false, (5, "fgh"));
        log.push(b"0123456789");
        check(&log, 0, 10, false, (12, "456789"));
        assert_eq!((log.total(), log.len()), (18, 6));
        log.clear();
        check(&log, 0, 10, true, (18, ""));
    }

    #[test]
    fn characters_are_whole_where_they_can_be() {
        let mut log = Log::new(100);
        log.push("aé日".as_bytes());
        check(&log, 0, 2, false, (0, "a"));
        check(&log, 1, 4, false, (1, "é"));
        check(&log, 3, 9, false, (3, "日"));
        log.push(&"日".as_bytes()[..2]);
        check(&log, 0, 99, false, (0, "aé日"));
        check(&log, 6, 99, false, (6, ""));
        assert_eq!(log.part(6, 99, true).bytes.len(), 2, "nothing more comes");
        log.push(&"日".as_bytes()[2..]);
        check(&log, 6, 99, false, (6, "日"));
        // Somebody who asks for less than a character gets on all the same.
        assert_eq!(log.part(6, 1, false).bytes.len(), 1);
    }
}
