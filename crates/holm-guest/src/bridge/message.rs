//! Jupyter's messages: their frames, and as much of their content as is read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::zmtp::Message;

const DELIMITER: &[u8] = b"<IDS|MSG>";
/// The protocol's version that this client speaks.
const VERSION: &str = "5.3";

/// The client's side of a conversation.
#[derive(Debug)]
pub struct Session {
    id: String,
    count: u64,
}

/// A message to a kernel, without the frames' heads.
#[derive(Debug)]
pub struct Request {
    /// Its id.
    pub id: String,
    frames: [Vec<u8>; 4],
}

impl Session {
    /// A new one.
    pub fn new() -> Self {
        Self { id: format!("holm-{}", std::process::id()), count: 0 }
    }

    /// A message.
    pub fn request(&mut self, kind: &str, content: &Value) -> Request {
        self.count += 1;
        let id = format!("{}-{}", self.id, self.count);
        let header = json!({
            "msg_id": id, "session": self.id, "username": "holm", "msg_type": kind,
            "version": VERSION, "date": "2000-01-01T00:00:00Z",
        });
        let nothing = || b"{}".to_vec();
        let frames = [
            header.to_string().into_bytes(),
            nothing(),
            nothing(),
            content.to_string().into_bytes(),
        ];
        Request { id, frames }
    }
}

impl Request {
    /// Its frames. There is no signature, because nobody but the kernel's user reaches its sockets.
    pub fn frames(&self) -> [&[u8]; 6] {
        let [header, parent, metadata, content] = &self.frames;
        [DELIMITER, b"", header, parent, metadata, content]
    }
}

/// A message from a kernel.
#[derive(Debug, PartialEq, Eq)]
pub struct Heard {
    /// What it is.
    pub kind: String,
    /// To which message it belongs.
    pub parent: String,
    /// JSON; only its beginning where it was too long.
    pub content: Vec<u8>,
    /// The end of what was too long.
    pub tail: Vec<u8>,
    /// Bytes that were dropped because it was too long.
    pub dropped: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Header {
    msg_type: String,
    msg_id: String,
}

/// Reads a message; `None` where it is none.
pub fn read(message: Message) -> Option<Heard> {
    let Message { mut frames, tail, dropped } = message;
    let at = frames.iter().position(|frame| frame == DELIMITER)?;
    let header: Header = serde_json::from_slice(frames.get(at + 2)?).ok()?;
    let parent: Header = serde_json::from_slice(frames.get(at + 3)?).unwrap_or_default();
    let content = std::mem::take(frames.get_mut(at + 5)?);
    Some(Heard { kind: header.msg_type, parent: parent.msg_id, content, tail, dropped })
}

/// Content of `status`.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Status {
    /// `busy` or `idle`.
    pub execution_state: String,
}

/// Content of `stream`.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Stream {
    /// `stdout` or `stderr`.
    pub name: String,
    /// What was written.
    pub text: String,
}

/// Content of `display_data`, `update_display_data` and `execute_result`.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Display {
    /// By media type.
    pub data: BTreeMap<String, Value>,
    /// How it is found again.
    pub transient: Transient,
}

/// What is not kept in notebooks.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Transient {
    /// A name, by which it can be replaced.
    pub display_id: Option<String>,
}

/// Content of `error`.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Raised {
    /// Its class.
    pub ename: String,
    /// What it says.
    pub evalue: String,
    /// Lines.
    pub traceback: Vec<String>,
}

/// Content of `clear_output`.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Clear {
    /// Only when the next output comes.
    pub wait: bool,
}

/// Content of `execute_reply`.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Reply {
    /// `ok`, `error` or `aborted`.
    pub status: String,
    /// The code's number.
    pub execution_count: Option<u64>,
}

impl Heard {
    /// Its content; empty where it cannot be read.
    pub fn content<T: for<'a> Deserialize<'a> + Default>(&self) -> T {
        serde_json::from_slice(&self.content).unwrap_or_default()
    }

    /// Beginning and end of a stream's text that was too long for one message.
    pub fn ends(&self) -> (Stream, String) {
        let head = String::from_utf8_lossy(&self.content);
        // It may break off in the middle of a character or an escape.
        let head = (0..12).find_map(|less| {
            let end = head.len().checked_sub(less)?;
            serde_json::from_str(&format!("{}\"}}", head.get(..end)?)).ok()
        });
        let tail = String::from_utf8_lossy(&self.tail);
        // From the beginning of a line on, where one is near; no escape is cut there.
        let near = tail.char_indices().nth(4096).map_or(tail.len(), |(at, _)| at);
        let line = tail[..near].find("\\n").map(|at| at + 2);
        let tail = line.into_iter().chain(0..12).find_map(|from| {
            let rest = tail.get(from..)?;
            serde_json::from_str::<Stream>(&format!("{{\"text\":\"{rest}")).ok()
        });
        (head.unwrap_or_default(), tail.unwrap_or_default().text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_message_is_passed_over() {
        let check = |frames: &[&str], want: Option<(&str, &str, &str)>| {
            let frames = frames.iter().map(|text| text.as_bytes().to_vec()).collect();
            let got = read(Message { frames, ..Message::default() });
            let got = got
                .map(|heard| (heard.kind, heard.parent, String::from_utf8(heard.content).unwrap()));
            let got = got.as_ref().map(|(kind, parent, text)| (&**kind, &**parent, &**text));
            assert_eq!(got, want);
        };
        let header = r#"{"msg_type": "status", "msg_id": "2", "more": [1]}"#;
        let parent = r#"{"msg_id": "1"}"#;
        let whole = ["topic", "<IDS|MSG>", "", header, parent, "{}", "{\"x\":1}"];
        check(&whole, Some(("status", "1", "{\"x\":1}")));
        check(&whole[..6], None);
        check(&["<IDS|MSG>", "", header, "", "{}", "{}"], Some(("status", "", "{}")));
        check(&["<IDS|MSG>", "", "[[[", parent, "{}", "{}"], None);
        check(&["hello"], None);
        check(&[], None);
    }

    #[test]
    fn of_a_long_stream_there_are_the_ends() {
        let check = |head: &str, tail: &str, want: (&str, &str, &str)| {
            let heard = Heard {
                kind: "stream".to_owned(),
                parent: String::new(),
                content: head.as_bytes().to_vec(),
                tail: tail.as_bytes().to_vec(),
                dropped: 5,
            };
            let (stream, tail) = heard.ends();
            assert_eq!((&*stream.name, &*stream.text, &*tail), want);
        };
        let head = r#"{"name": "stderr", "text": "a\nb"#;
        check(head, r#"ab\nc\n"}"#, ("stderr", "a\nb", "c\n"));
        check(&format!("{head}\\u00"), r#"d"}"#, ("stderr", "a\nb", "d"));
        check("garbage", "garbage", ("", "", ""));
    }

    #[test]
    fn a_request_is_what_kernels_read() {
        let mut session = Session::new();
        let request = session.request("kernel_info_request", &json!({"a": 1}));
        let frames = request.frames().map(<[u8]>::to_vec);
        let heard = read(Message { frames: frames.into(), ..Message::default() }).unwrap();
        assert_eq!((&*heard.kind, &*heard.content), ("kernel_info_request", &b"{\"a\":1}"[..]));
        assert_ne!(request.id, session.request("x", &json!({})).id);
    }
}
