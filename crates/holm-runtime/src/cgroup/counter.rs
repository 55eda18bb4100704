//! Numbers from the small files of a group.
//!
//! They are read around every command, so each costs three calls: the size of such a file says
//! nothing, and asking for it or reading in growing pieces would double that. The kernel gives the
//! whole text to the first read that has room for it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Room for the text of a file. The longest, `memory.stat`, has some 2 KiB.
const ROOM: usize = 8 << 10;

/// The number that is all that a file holds.
pub(super) fn number(dir: &Path, file: &str) -> Option<u64> {
    with_text(dir, file, |text| text.trim().parse().ok())
}

/// The number after `key` in a file of `key number` lines.
pub(super) fn keyed(dir: &Path, file: &str, key: &str) -> Option<u64> {
    with_text(dir, file, |text| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(' ')?;
            (name == key).then(|| value.trim().parse().ok())?
        })
    })
}

fn with_text(dir: &Path, file: &str, find: impl FnOnce(&str) -> Option<u64>) -> Option<u64> {
    let mut source = File::open(dir.join(file)).ok()?;
    let mut room = [0; ROOM];
    let count = source.read(&mut room).ok()?;
    if count < ROOM {
        return find(std::str::from_utf8(&room[..count]).ok()?);
    }
    // A later kernel may have more to tell.
    let mut text = room.to_vec();
    source.read_to_end(&mut text).ok()?;
    find(std::str::from_utf8(&text).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_any_length_is_read_to_its_end() {
        let dir = std::env::temp_dir().join(format!("holm-counter-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        // Lengths around that of the first read: 11 bytes more than there are digits.
        for digits in [1, ROOM - 12, ROOM - 11, ROOM - 10, 3 * ROOM] {
            let zeros = "0".repeat(digits);
            std::fs::write(dir.join("stat"), format!("x {zeros}\nwanted 7")).unwrap();
            assert_eq!(keyed(&dir, "stat", "wanted"), Some(7), "{digits}");
            std::fs::write(dir.join("one"), format!("{zeros}5\n")).unwrap();
            assert_eq!(number(&dir, "one"), Some(5), "{digits}");
        }
        assert_eq!(keyed(&dir, "stat", "want"), None);
        assert_eq!(number(&dir, "stat"), None);
        assert_eq!(number(&dir, "missing"), None);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
