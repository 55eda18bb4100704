//! What was refused: the newest hundred, in bounded and printable texts.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

/// Denials that are kept.
pub const KEPT: usize = 100;
/// Most characters of a text in one.
const TEXT: usize = 300;

/// Something that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// When; of several alike, the last one.
    pub at: Timestamp,
    /// How many alike came one after the other.
    pub times: u64,
    /// The name that was asked for, where one is known.
    pub name: Option<String>,
    /// The address, where it is about one.
    pub address: Option<IpAddr>,
    /// The port; 53 for DNS.
    pub port: u16,
    /// What was tried.
    pub protocol: Protocol,
    /// The rule that refused it, or why it is refused always.
    pub rule: String,
}

impl Denial {
    /// Whether both are about the same, at whatever time.
    fn is_like(&self, other: &Self) -> bool {
        let what = |denial: &Self| (denial.address, denial.port, denial.protocol);
        what(self) == what(other) && self.name == other.name && self.rule == other.rule
    }
}

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// A connection.
    Tcp,
    /// A name.
    Dns,
}

impl Protocol {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Dns => "dns",
        }
    }
}

/// The newest denials.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<VecDeque<Denial>>);

impl Log {
    /// Notes one. Where only the time differs from the newest, it counts with that one, so that a
    /// client which tries again and again pushes nothing out.
    pub(crate) fn note(&self, mut denial: Denial) {
        denial.name = denial.name.map(|name| crate::text::shown(&name, TEXT));
        denial.rule = crate::text::shown(&denial.rule, TEXT);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(newest) = kept.back_mut()
            && newest.is_like(&denial)
        {
            newest.at = denial.at;
            newest.times = newest.times.saturating_add(denial.times);
            return;
        }
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(denial);
    }

    /// Newest last.
    pub(crate) fn read(&self) -> Vec<Denial> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(port: u16, name: &str) -> Denial {
        Denial {
            at: Timestamp::UNIX_EPOCH,
            times: 1,
            name: Some(name.to_owned()),
            address: None,
            port,
            protocol: Protocol::Tcp,
            rule: "not in the allow list".to_owned(),
        }
    }

    #[test]
    fn the_newest_hundred_are_kept() {
        let log = Log::default();
        for port in 1..=250 {
            log.note(denial(port, "a.example"));
        }
        let ports: Vec<u16> = log.read().iter().map(|denial| denial.port).collect();
        assert_eq!(ports, (151..=250).collect::<Vec<_>>());
    }

    #[test]
    fn repeats_are_one_entry_with_their_number_and_the_last_time() {
        let log = Log::default();
        let later = Timestamp::from_second(7).expect("a time");
        log.note(denial(1, "a.example"));
        log.note(Denial { at: later, ..denial(1, "a.example") });
        log.note(Denial { at: later, ..denial(1, "a.example") });
        assert_eq!(log.read(), [Denial { at: later, times: 3, ..denial(1, "a.example") }]);
        log.note(denial(2, "a.example"));
        log.note(denial(1, "a.example"));
        let times: Vec<u64> = log.read().iter().map(|denial| denial.times).collect();
        assert_eq!(times, [3, 1, 1]);
    }

    #[test]
    fn texts_are_bounded_and_printable() {
        let log = Log::default();
        log.note(denial(1, &format!("\u{1b}[2J\r\n{}", "a".repeat(100_000))));
        let name = log.read()[0].name.clone().expect("a name");
        assert_eq!(name.chars().count(), TEXT + 1);
        assert!(!name.chars().any(char::is_control), "{name:?}");
    }
}
