//! As much of ZMTP 3.0 as a client of a Jupyter kernel needs: the NULL mechanism over a Unix socket, as
//! DEALER or SUB. The peer is a program of the user: what it sends has bounds.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Most bytes of one message that are kept whole.
pub const MOST_KEPT: usize = 16 << 20;
/// Bytes that are kept of beginning and end of a frame that is longer, once in a message.
pub const ENDS: usize = 1 << 20;
/// Most frames of one message.
const MOST_FRAMES: usize = 64;
/// How long the peer may take for each step of the opening, and for each part of what it is sent.
const PATIENCE: Duration = Duration::from_secs(5);
const READ: usize = 64 << 10;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// Which of the protocol's sockets this side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Asks and is answered, in any order.
    Dealer,
    /// Is told everything.
    Subscriber,
}

/// One message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Its frames; of one that was too long its beginning, of more of them nothing.
    pub frames: Vec<Vec<u8>>,
    /// The end of the one that was too long.
    pub tail: Vec<u8>,
    /// Bytes that were dropped because it was too long.
    pub dropped: u64,
}

/// A connection.
#[derive(Debug)]
pub struct Socket {
    stream: UnixStream,
    parser: Parser,
    buffer: Vec<u8>,
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn greeting() -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[0] = 0xff;
    bytes[9] = 0x7f;
    bytes[10] = 3;
    bytes[12..16].copy_from_slice(b"NULL");
    bytes
}

/// A length that is known to be short.
fn byte(length: usize) -> u8 {
    u8::try_from(length).unwrap_or(u8::MAX)
}

fn ready(role: Role) -> Vec<u8> {
    let name: &[u8] = match role {
        Role::Dealer => b"DEALER",
        Role::Subscriber => b"SUB",
    };
    let mut body = b"\x05READY\x0bSocket-Type\0\0\0".to_vec();
    body.push(byte(name.len()));
    body.extend_from_slice(name);
    if role == Role::Dealer {
        body.extend_from_slice(b"\x08Identity\0\0\0\0");
    }
    let mut frame = vec![COMMAND, byte(body.len())];
    frame.extend_from_slice(&body);
    frame
}

impl Socket {
    /// Connects and goes through the opening.
    ///
    /// # Errors
    /// When nobody listens there, or who does speaks something else or nothing.
    pub fn connect(path: &Path, role: Role) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut socket = Self { stream, parser: Parser::default(), buffer: vec![0; READ] };
        socket.open(role)?;
        Ok(socket)
    }

    fn open(&mut self, role: Role) -> io::Result<()> {
        self.stream.write_all(&greeting())?;
        let mut theirs = [0; 64];
        self.stream.read_exact(&mut theirs)?;
        if theirs[0] != 0xff || theirs[9] & 1 == 0 || theirs[10] < 3 {
            return Err(broken("it does not speak ZMTP 3"));
        }
        if &theirs[12..17] != b"NULL\0" {
            return Err(broken("it wants a security mechanism"));
        }
        self.stream.write_all(&ready(role))?;
        let mut head = [0; 2];
        self.stream.read_exact(&mut head)?;
        let mut body = vec![0; usize::from(head[1])];
        if head[0] != COMMAND {
            return Err(broken("it does not say that it is ready"));
        }
        self.stream.read_exact(&mut body)?;
        if !body.starts_with(b"\x05READY") {
            return Err(broken("it refuses the connection"));
        }
        if role == Role::Subscriber {
            // To everything.
            self.stream.write_all(&[0, 1, 1])?;
        }
        Ok(())
    }

    /// Sends one message.
    ///
    /// # Errors
    /// When the peer is gone or takes nothing for some seconds.
    pub fn send(&mut self, frames: &[&[u8]]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(frames.iter().map(|frame| frame.len() + 9).sum());
        for (index, frame) in frames.iter().enumerate() {
            let more = if index + 1 < frames.len() { MORE } else { 0 };
            match u8::try_from(frame.len()) {
                Ok(short) => bytes.extend_from_slice(&[more, short]),
                Err(_) => {
                    bytes.push(more | LONG);
                    bytes.extend_from_slice(&(frame.len() as u64).to_be_bytes());
                }
            }
            bytes.extend_from_slice(frame);
        }
        self.stream.write_all(&bytes)
    }

    /// Reads once, which waits unless a poll has said that there is something. False at the end.
    ///
    /// # Errors
    /// When it breaks the protocol.
    pub fn read(&mut self) -> io::Result<bool> {
        match self.stream.read(&mut self.buffer) {
            Ok(0) => Ok(false),
            Ok(got) => {
                self.parser.push(&self.buffer[..got])?;
                Ok(true)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The next message that has come whole.
    pub fn next(&mut self) -> Option<Message> {
        self.parser.done.pop_front()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Message {
    /// Takes a part of a long frame, of which `head` is the beginning.
    fn keep_ends(&mut self, head: &mut Vec<u8>, part: &[u8]) {
        let (first, rest) = part.split_at(part.len().min(ENDS - head.len()));
        head.extend_from_slice(first);
        self.tail.extend_from_slice(rest);
        // Now and then, so that not every part moves all of it.
        if self.tail.len() > 2 * ENDS {
            self.tail.drain(..self.tail.len() - ENDS);
        }
    }
}

/// Makes messages of bytes as they come.
#[derive(Debug, Default)]
struct Parser {
    /// The beginning of a frame's head.
    head: Vec<u8>,
    frame: Option<Partial>,
    message: Message,
    kept: usize,
    done: std::collections::VecDeque<Message>,
}

/// A frame on its way.
#[derive(Debug)]
struct Partial {
    flags: u8,
    left: u64,
    keep: Keep,
    bytes: Vec<u8>,
}

/// What is kept of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    All,
    Ends,
    Nothing,
}

impl Parser {
    fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.frame.is_none() {
                self.head.push(bytes[0]);
                bytes = &bytes[1..];
                self.begin()?;
            }
            let Some(frame) = &mut self.frame else { continue };
            let here = usize::try_from(frame.left).unwrap_or(usize::MAX).min(bytes.len());
            match frame.keep {
                Keep::All => frame.bytes.extend_from_slice(&bytes[..here]),
                Keep::Ends => self.message.keep_ends(&mut frame.bytes, &bytes[..here]),
                Keep::Nothing => {}
            }
            frame.left -= here as u64;
            bytes = &bytes[here..];
            if frame.left == 0
                && let Some(frame) = self.frame.take()
            {
                self.end(frame);
            }
        }
        Ok(())
    }

    /// A frame begins once its head is whole.
    fn begin(&mut self) -> io::Result<()> {
        let flags = self.head[0];
        if flags & !(MORE | LONG | COMMAND) != 0 {
            return Err(broken("a frame has unknown flags"));
        }
        let wanted = if flags & LONG == 0 { 2 } else { 9 };
        if self.head.len() < wanted {
            return Ok(());
        }
        let left = self.head[1..].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        self.head.clear();
        let is_command = flags & COMMAND != 0;
        if !is_command && self.message.frames.len() == MOST_FRAMES {
            return Err(broken("a message has too many frames"));
        }
        let fits = left <= (MOST_KEPT - self.kept) as u64;
        let keep = match fits {
            _ if is_command => Keep::Nothing,
            true => Keep::All,
            false if self.message.dropped == 0 && left > 2 * ENDS as u64 => Keep::Ends,
            false => Keep::Nothing,
        };
        match keep {
            Keep::All => self.kept += usize::try_from(left).unwrap_or(MOST_KEPT),
            Keep::Ends => self.message.dropped = left - 2 * ENDS as u64,
            Keep::Nothing if is_command => {}
            Keep::Nothing => self.message.dropped = self.message.dropped.saturating_add(left),
        }
        let frame = Partial { flags, left, keep, bytes: Vec::new() };
        if left == 0 {
            self.end(frame);
        } else {
            self.frame = Some(frame);
        }
        Ok(())
    }

    fn end(&mut self, frame: Partial) {
        // Commands are for what this client does not do.
        if frame.flags & COMMAND != 0 {
            return;
        }
        if frame.keep == Keep::Ends {
            let tail = &mut self.message.tail;
            tail.drain(..tail.len().saturating_sub(ENDS));
        }
        self.message.frames.push(frame.bytes);
        if frame.flags & MORE == 0 {
            self.kept = 0;
            self.done.push_back(std::mem::take(&mut self.message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bytes: &[u8], step: usize) -> io::Result<Vec<Message>> {
        let mut parser = Parser::default();
        for part in bytes.chunks(step) {
            parser.push(part)?;
        }
        Ok(parser.done.into())
    }

    fn message(frames: &[&str]) -> Message {
        let frames = frames.iter().map(|text| text.as_bytes().to_vec()).collect();
        Message { frames, ..Message::default() }
    }

    #[test]
    fn messages_come_in_any_pieces() {
        let mut bytes = b"\x01\x01a\x00\x02bc\x04\x03\x02XY\x00\x00".to_vec();
        bytes.extend_from_slice(b"\x02\0\0\0\0\0\0\0\x03xyz");
        for step in [1, 2, 3, 7, 100] {
            let got = parsed(&bytes, step).unwrap();
            assert_eq!(got, [message(&["a", "bc"]), message(&[""]), message(&["xyz"])]);
        }
    }

    #[test]
    fn what_is_too_long_is_passed_over() {
        let mut bytes = b"\x01\x01a\x03".to_vec();
        bytes.extend_from_slice(&(MOST_KEPT as u64).to_be_bytes());
        let text: Vec<u8> = (0..MOST_KEPT).map(|at| b'a' + byte(at % 23)).collect();
        bytes.extend_from_slice(&text);
        bytes.extend_from_slice(b"\x00\x01c\x00\x01d");
        let got = parsed(&bytes, 100_000).unwrap();
        let long = Message {
            frames: vec![b"a".to_vec(), text[..ENDS].to_vec(), b"c".to_vec()],
            tail: text[MOST_KEPT - ENDS..].to_vec(),
            dropped: (MOST_KEPT - 2 * ENDS) as u64,
        };
        assert!(got == [long, message(&["d"])]);
        // One that never ends takes no memory and no sum overflows.
        let endless = b"\x03\xff\xff\xff\xff\xff\xff\xff\xffxx";
        assert_eq!(parsed(endless, 4).unwrap(), []);
    }

    #[test]
    fn what_no_peer_sends_is_an_error() {
        assert!(parsed(b"HTTP/1.1 200 OK\r\n", 5).is_err());
        assert!(parsed(&b"\x01\x00".repeat(MOST_FRAMES + 1), 5).is_err());
    }
}
