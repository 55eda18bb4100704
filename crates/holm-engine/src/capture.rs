//! From the kept head and tail of a stream to text.

use holm_wire::guest::Captured;

use crate::Output;

/// Joins head and tail by a line that says how much is missing between them.
///
/// The cut falls where the guest made it, perhaps inside a character. Those few bytes are dropped
/// too, so that only sequences that the program itself left unfinished are marked.
pub(crate) fn output(captured: &Captured, limit: u64) -> Output {
    // The guest keeps to the limit; a hostile one that does not is cut here.
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let head = &captured.head[..captured.head.len().min(limit)];
    let tail = &captured.tail[captured.tail.len().saturating_sub(limit - head.len())..];
    let sent = (captured.head.len() + captured.tail.len()) as u64;
    // A guest that says less than it sent does not make the total smaller than what is there.
    let total = captured.total.max(sent);
    let cut = total > (head.len() + tail.len()) as u64;
    let mut lossy = false;
    let text = if cut {
        let (head, tail) = (without_open_end(head), without_open_start(tail));
        let mut text = lossy_text(head, &mut lossy);
        let dropped = total - (head.len() + tail.len()) as u64;
        text.push_str(&marker(dropped, text.ends_with('\n') || text.is_empty()));
        text.push_str(&lossy_text(tail, &mut lossy));
        text
    } else if tail.is_empty() {
        lossy_text(head, &mut lossy)
    } else {
        lossy_text(&[head, tail].concat(), &mut lossy)
    };
    Output { text, truncated: cut, lossy, bytes: total }
}

/// Keeps beginning and end of a stream, together at most `most` bytes.
pub(crate) fn cut(output: &mut Output, most: usize) {
    if output.text.len() <= most {
        return;
    }
    let (text, half) = (output.text.as_bytes(), most / 2);
    let head = without_open_end(&text[..half]);
    let tail = without_open_start(&text[text.len() - half..]);
    let kept = (head.len() + tail.len()) as u64;
    let mut shorter = String::from_utf8_lossy(head).into_owned();
    // What was cut before is among what is cut now.
    let dropped = output.bytes.max(text.len() as u64) - kept;
    shorter.push_str(&marker(dropped, shorter.ends_with('\n') || shorter.is_empty()));
    shorter.push_str(&String::from_utf8_lossy(tail));
    *output = Output { text: shorter, truncated: true, ..output.clone() };
}

/// Text that comes in parts: a character that falls across two of them is whole.
#[derive(Debug, Default)]
pub(crate) struct Characters {
    /// The beginning of a character whose rest has not come.
    held: Vec<u8>,
    /// Bytes that came in all.
    pub total: u64,
    /// True once bytes that are no UTF-8 were replaced.
    pub lossy: bool,
}

impl Characters {
    /// The text that is there with these bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Option<String> {
        self.total += bytes.len() as u64;
        let joined;
        let bytes = if self.held.is_empty() {
            bytes
        } else {
            joined = [&self.held, bytes].concat();
            &joined
        };
        let whole = without_open_end(bytes);
        let text = lossy_text(whole, &mut self.lossy);
        self.held = bytes[whole.len()..].to_vec();
        (!text.is_empty()).then_some(text)
    }

    /// What is left at the end.
    pub fn finish(&mut self) -> Option<String> {
        let held = std::mem::take(&mut self.held);
        (!held.is_empty()).then(|| lossy_text(&held, &mut self.lossy))
    }
}

pub(crate) fn marker(dropped: u64, at_line_start: bool) -> String {
    let start = if at_line_start { "" } else { "\n" };
    format!("{start}[... {dropped} bytes cut ...]\n")
}

fn lossy_text(bytes: &[u8], lossy: &mut bool) -> String {
    match String::from_utf8_lossy(bytes) {
        std::borrow::Cow::Borrowed(text) => text.to_owned(),
        std::borrow::Cow::Owned(text) => {
            *lossy = true;
            text
        }
    }
}

/// `bytes` without a character that begins but does not end in them.
fn without_open_end(bytes: &[u8]) -> &[u8] {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let length = match bytes[at] {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => return bytes,
        };
        return if length > back { &bytes[..at] } else { bytes };
    }
    bytes
}

/// `bytes` without the rest of a character that began before them.
fn without_open_start(bytes: &[u8]) -> &[u8] {
    let skip = bytes.iter().take(3).take_while(|byte| matches!(byte, 0x80..=0xbf)).count();
    &bytes[skip..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &[u8], tail: &[u8], total: u64, text: &str, truncated: bool, lossy: bool) {
        let got = output(&Captured { head: head.to_vec(), tail: tail.to_vec(), total }, 64);
        assert_eq!((got.text.as_str(), got.truncated, got.lossy), (text, truncated, lossy));
        assert!(got.bytes >= (head.len() + tail.len()) as u64);
    }

    #[test]
    fn case_3_bytes_that_are_no_text_are_marked_and_nul_is_kept() {
        check(b"a\0b\0c", b"", 5, "a\0b\0c", false, false);
        check(b"\xff\xfeok", b"", 4, "\u{fffd}\u{fffd}ok", false, true);
        check(b"", b"", 0, "", false, false);
    }

    #[test]
    fn case_1_a_character_across_head_and_tail_is_whole() {
        check(b"\xe2\x82", b"\xac", 3, "€", false, false);
        check("a€".as_bytes(), "é".as_bytes(), 6, "a€é", false, false);
    }

    #[test]
    fn case_1_only_a_sequence_that_is_really_unfinished_is_marked() {
        check(b"ok\xe2\x82", b"", 4, "ok\u{fffd}", false, true);
        check(b"ok\xe2\x82", b"\x82\xacz", 100, "ok\n[... 97 bytes cut ...]\nz", true, false);
        check(b"ok\n", b"\xe2\x82", 100, "ok\n[... 95 bytes cut ...]\n\u{fffd}", true, true);
    }

    #[test]
    fn case_1_parts_are_whole_characters() {
        let check = |parts: &[&[u8]], want: &[&str], lossy: bool| {
            let mut stream = Characters::default();
            let mut got: Vec<String> = parts.iter().filter_map(|part| stream.push(part)).collect();
            got.extend(stream.finish());
            let total: usize = parts.iter().map(|part| part.len()).sum();
            assert_eq!(
                (got, stream.lossy),
                (want.iter().map(ToString::to_string).collect(), lossy)
            );
            assert_eq!(stream.total, total as u64);
        };
        check(&[b"a", b"b"], &["a", "b"], false);
        check(&[b"a\xe2\x82", b"\xac", b"b"], &["a", "€", "b"], false);
        check(&[b"\xf0", b"\x9f", b"\x98", b"\x80"], &["😀"], false);
        check(&[b"a\xe2\x82"], &["a", "\u{fffd}"], true);
        check(&[b"\xe2\x82", b"x"], &["\u{fffd}x"], true);
        check(&[b"\xff"], &["\u{fffd}"], true);
    }

    #[test]
    fn case_4_the_cut_is_told_with_its_size() {
        check(
            b"head\n",
            b"tail",
            1 << 30,
            "head\n[... 1073741815 bytes cut ...]\ntail",
            true,
            false,
        );
        check(b"", b"tail", 10, "[... 6 bytes cut ...]\ntail", true, false);
    }

    #[test]
    fn what_has_no_room_keeps_beginning_and_end() {
        let check = |text: &str, bytes: u64, want: &str| {
            let mut output = Output { text: text.to_owned(), bytes, ..Output::default() };
            cut(&mut output, 8);
            assert_eq!((output.text.as_str(), output.truncated), (want, text != want));
        };
        check("12345678", 8, "12345678");
        check("1234x5678", 9, "1234\n[... 1 bytes cut ...]\n5678");
        check("€€x€€", 13, "€\n[... 7 bytes cut ...]\n€");
        check("123\nx5678", 99, "123\n[... 91 bytes cut ...]\n5678");
    }

    #[test]
    fn a_guest_that_lies_about_the_total_changes_nothing() {
        check(b"head", b"tail", 2, "headtail", false, false);
    }

    #[test]
    fn a_guest_that_sends_more_than_was_asked_for_is_cut() {
        let flood = vec![b'x'; 100];
        let got = output(&Captured { head: flood.clone(), tail: flood, total: 200 }, 10);
        assert_eq!(got.text, "xxxxxxxxxx\n[... 190 bytes cut ...]\n");
    }
}
