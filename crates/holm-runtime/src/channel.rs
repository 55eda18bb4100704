//! Messages between our own processes: JSON over a `SOCK_SEQPACKET` socket, with descriptors.

use std::cell::RefCell;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest message.
const MAX_MESSAGE: usize = 64 * 1024;
/// Most descriptors in one message: as many as the kernel takes.
const MAX_FDS: usize = 253;

thread_local! {
    /// What a message is read into: once for each thread, because to make and clear it for every
    /// message would take longer than the message.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; MAX_MESSAGE].into_boxed_slice());
}

/// One end of a socket.
#[derive(Debug)]
pub struct Channel {
    fd: OwnedFd,
}

impl Channel {
    /// Two connected ends, both close-on-exec.
    pub fn pair() -> Result<(Self, Self), Errno> {
        let (a, b) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self { fd: a }, Self { fd: b }))
    }

    /// The end behind a descriptor.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// The descriptor behind the end.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Sends one message.
    pub fn send(&self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        self.send_bytes(&encode(message)?, fds, SendFlags::NOSIGNAL)
    }

    /// Sends bytes made by [`encode`] if that is possible at once ([`Errno::AGAIN`] if not).
    pub fn try_send_bytes(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        self.send_bytes(bytes, fds, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    /// Sends bytes made by [`encode`].
    pub fn send_encoded(&self, bytes: &[u8]) -> Result<(), Errno> {
        self.send_bytes(bytes, &[], SendFlags::NOSIGNAL)
    }

    fn send_bytes(
        &self,
        bytes: &[u8],
        fds: &[BorrowedFd<'_>],
        flags: SendFlags,
    ) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::INVAL);
        }
        rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(&self.fd, &[IoSlice::new(bytes)], &mut control, flags)
        })?;
        Ok(())
    }

    /// Waits for one message. `None` when the other end is closed.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<Option<(T, Vec<OwnedFd>)>, Errno> {
        self.receive_with(RecvFlags::CMSG_CLOEXEC)
    }

    /// Waits for one message, which comes also where there is no room for its descriptors, without any
    /// then: whoever wants them asks again. `None` when the other end is closed.
    pub fn receive_as_far_as_there_is_room<T: DeserializeOwned>(
        &self,
    ) -> Result<Option<(T, Vec<OwnedFd>)>, Errno> {
        let flags = RecvFlags::CMSG_CLOEXEC;
        BUFFER.with_borrow_mut(|buffer| self.receive_into(buffer, flags, ReturnFlags::TRUNC))
    }

    /// Takes a message that is already there ([`Errno::AGAIN`] when none is).
    pub fn try_receive<T: DeserializeOwned>(&self) -> Result<Option<(T, Vec<OwnedFd>)>, Errno> {
        self.receive_with(RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT)
    }

    fn receive_with<T: DeserializeOwned>(
        &self,
        flags: RecvFlags,
    ) -> Result<Option<(T, Vec<OwnedFd>)>, Errno> {
        let refused = ReturnFlags::TRUNC | ReturnFlags::CTRUNC;
        BUFFER.with_borrow_mut(|buffer| self.receive_into(buffer, flags, refused))
    }

    fn receive_into<T: DeserializeOwned>(
        &self,
        bytes: &mut [u8],
        flags: RecvFlags,
        refused: ReturnFlags,
    ) -> Result<Option<(T, Vec<OwnedFd>)>, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut attempt = || {
            rustix::io::retry_on_intr(|| {
                let mut parts = [IoSliceMut::new(bytes)];
                rustix::net::recvmsg(&self.fd, &mut parts, &mut control, flags)
            })
        };
        let received = match attempt() {
            // The other end was closed while messages of ours were unread in it. The kernel says
            // so once, before what the other end had sent; that comes with the next call.
            Err(Errno::CONNRESET) => attempt()?,
            other => other?,
        };
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(list) = message {
                fds.extend(list);
            }
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        if received.flags.intersects(refused) {
            return Err(Errno::MSGSIZE);
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            fds.clear();
        }
        let message =
            serde_json::from_slice(&bytes[..received.bytes]).map_err(|_| Errno::BADMSG)?;
        Ok(Some((message, fds)))
    }

    /// True when the other end is closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed_within(std::time::Duration::ZERO)
    }

    /// True when the other end is closed within that time. Reads nothing.
    pub fn is_closed_within(&self, time: std::time::Duration) -> bool {
        self.poll_for_end(rustix::event::Timespec::try_from(time).ok().as_ref())
    }

    /// Waits until the other end is closed, and reads nothing.
    pub fn wait_for_end(&self) {
        while !self.poll_for_end(None) {}
    }

    fn poll_for_end(&self, timeout: Option<&rustix::event::Timespec>) -> bool {
        let mut ready = [rustix::event::PollFd::new(&self.fd, rustix::event::PollFlags::empty())];
        // Interrupted is as good as not yet.
        let _ = rustix::event::poll(&mut ready, timeout);
        ready[0].revents().contains(rustix::event::PollFlags::HUP)
    }

    /// Says that we will send no more; what the other end sends still arrives.
    pub fn close_sending(&self) {
        // Fails only when the other end is gone already, which is what the caller wants.
        let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Write);
    }
}

/// The bytes of a message.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, Errno> {
    let bytes = serde_json::to_vec(message).map_err(|_| Errno::INVAL)?;
    if bytes.len() > MAX_MESSAGE { Err(Errno::MSGSIZE) } else { Ok(bytes) }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carries_messages_and_descriptors_and_notices_the_end() {
        let (a, b) = Channel::pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        a.send(&"hello", &[file.as_fd()]).unwrap();
        let (text, fds) = b.receive::<String>().unwrap().unwrap();
        assert_eq!((text.as_str(), fds.len()), ("hello", 1));
        assert_eq!(b.try_receive::<String>().unwrap_err(), Errno::AGAIN);
        assert_eq!(a.send(&"x".repeat(MAX_MESSAGE), &[]).unwrap_err(), Errno::MSGSIZE);
        drop(a);
        assert!(b.receive::<String>().unwrap().is_none());
    }

    #[test]
    fn last_words_arrive_although_ours_were_not_read() {
        let (a, b) = Channel::pair().unwrap();
        b.send(&"unread", &[]).unwrap();
        a.send(&"last words", &[]).unwrap();
        drop(a);
        assert_eq!(b.receive::<String>().unwrap().unwrap().0, "last words");
        assert!(b.receive::<String>().unwrap().is_none());
    }
}
