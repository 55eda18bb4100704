//! A conversation with the kernel: a batch is sent, and its answers are there when that returns.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto,
    socket_with,
};

use super::message::{Batch, HEAD};

/// One kind of netlink.
#[derive(Debug)]
pub(super) struct Session(OwnedFd);

/// `NLMSG_ERROR`, which is also how success is told.
const ANSWER: u16 = 2;

/// Answers of one batch are short, and there is at most one for each message.
const LONGEST_ANSWER: usize = 8192;

impl Session {
    /// None is the kind for addresses and routes.
    pub(super) fn open(protocol: Option<Protocol>) -> Result<Self, Errno> {
        let kind = SocketType::RAW;
        socket_with(AddressFamily::NETLINK, kind, SocketFlags::CLOEXEC, protocol).map(Self)
    }

    /// What became of each message that asked for an answer or failed, by its number.
    pub(super) fn ask(&self, batch: &Batch) -> Result<BTreeMap<u32, Result<(), Errno>>, Errno> {
        let kernel = SocketAddrNetlink::new(0, 0);
        let bytes = batch.bytes();
        let sent =
            rustix::io::retry_on_intr(|| sendto(&self.0, bytes, SendFlags::empty(), &kernel))?;
        if sent != bytes.len() {
            return Err(Errno::MSGSIZE);
        }
        let mut answers = BTreeMap::new();
        let mut buffer = vec![0; LONGEST_ANSWER];
        // One message of the kernel for each of ours, and one for the whole.
        for _ in 0..=batch.count() {
            // All that it has to say it has said by now.
            let received = rustix::io::retry_on_intr(|| {
                recv(&self.0, buffer.as_mut_slice(), RecvFlags::DONTWAIT)
            });
            match received {
                Ok((length, _)) => read(&buffer[..length], &mut answers)?,
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(answers)
    }
}

fn read(mut bytes: &[u8], answers: &mut BTreeMap<u32, Result<(), Errno>>) -> Result<(), Errno> {
    while let Some((head, _)) = bytes.split_first_chunk::<HEAD>() {
        let [l0, l1, l2, l3, k0, k1, _, _, n0, n1, n2, n3, ..] = *head;
        let length = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
        let number = u32::from_ne_bytes([n0, n1, n2, n3]);
        if length < HEAD || length > bytes.len() {
            return Err(Errno::BADMSG);
        }
        if u16::from_ne_bytes([k0, k1]) == ANSWER {
            let body = bytes[HEAD..length].first_chunk::<4>().ok_or(Errno::BADMSG)?;
            let code = i32::from_ne_bytes(*body);
            let answer = if code == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(-code)) };
            // The first thing that is said about a message counts.
            answers.entry(number).or_insert(answer);
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(number: u32, code: i32) -> Vec<u8> {
        let mut bytes = vec![36, 0, 0, 0, 2, 0, 0, 0];
        bytes.extend(number.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(code.to_ne_bytes());
        bytes.extend([0; 16]);
        bytes
    }

    #[test]
    fn answers_are_told_apart_by_their_number() {
        let mut answers = BTreeMap::new();
        let both = [answer(3, 0), answer(5, -1), answer(3, -2)].concat();
        read(&both, &mut answers).unwrap();
        assert_eq!(answers, BTreeMap::from([(3, Ok(())), (5, Err(Errno::PERM))]));
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        let whole = answer(1, 0);
        for length in [HEAD, HEAD + 3, whole.len() - 1] {
            let mut answers = BTreeMap::new();
            assert_eq!(read(&whole[..length], &mut answers), Err(Errno::BADMSG), "{length}");
        }
    }
}
