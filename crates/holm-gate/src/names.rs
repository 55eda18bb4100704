//! Which names a sandbox was given which address for. Filled by the answers of its DNS, asked when
//! a connection to an address has to be decided by name.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::policy::HostName;

/// Addresses that are remembered.
const ADDRESSES: usize = 4_096;
/// Names of one address that are remembered.
const NAMES: usize = 32;
/// Names of all addresses. Each may be long.
const ALL: usize = 8_192;
/// Programs keep what they resolved for longer than they were told, so the gate does too.
const SHORTEST: Duration = Duration::from_mins(5);
const LONGEST: Duration = Duration::from_hours(24);

/// What a sandbox was told. Bounded: where there is no room, what ends first goes.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    known: HashMap<IpAddr, Vec<Known>>,
    /// How many names that are.
    count: usize,
}

#[derive(Debug)]
struct Known {
    name: HostName,
    until: Instant,
}

impl Names {
    /// Notes that `name`, the one that was asked for, was answered with these addresses.
    pub(crate) fn learn(&self, name: &HostName, addresses: &[IpAddr], ttl: Duration) {
        self.learn_at(Instant::now(), name, addresses, ttl);
    }

    /// The names for which this address was given.
    pub(crate) fn of(&self, address: IpAddr) -> Vec<HostName> {
        self.of_at(Instant::now(), address)
    }

    fn learn_at(&self, now: Instant, name: &HostName, addresses: &[IpAddr], ttl: Duration) {
        let until = now + ttl.clamp(SHORTEST, LONGEST);
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for address in addresses {
            let is_new = !table.known.contains_key(address);
            if table.count >= ALL || (table.known.len() >= ADDRESSES && is_new) {
                table.make_room(now);
            }
            let Table { known, count } = &mut *table;
            let known = known.entry(*address).or_default();
            let before = known.len();
            known.retain(|known| known.until > now && known.name != *name);
            if known.len() >= NAMES {
                let first = known.iter().enumerate().min_by_key(|(_, known)| known.until);
                if let Some((index, _)) = first {
                    known.swap_remove(index);
                }
            }
            known.push(Known { name: name.clone(), until });
            *count = *count + known.len() - before;
        }
    }

    fn of_at(&self, now: Instant, address: IpAddr) -> Vec<HostName> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = table.known.get(&address).map(Vec::as_slice).unwrap_or_default();
        known.iter().filter(|known| known.until > now).map(|known| known.name.clone()).collect()
    }
}

impl Table {
    /// Drops what has ended, and if that is too little the eighth of the addresses that ends first,
    /// so that the next calls need not look again.
    fn make_room(&mut self, now: Instant) {
        let last = |known: &Vec<Known>| known.iter().map(|known| known.until).max().unwrap_or(now);
        self.known.retain(|_, known| last(known) > now);
        self.count = self.known.values().map(Vec::len).sum();
        if self.known.len() < ADDRESSES && self.count < ALL {
            return;
        }
        let mut ends: Vec<Instant> = self.known.values().map(last).collect();
        ends.sort_unstable();
        let cut = ends[ends.len() / 8];
        let mut spare = ends.len() / 8 + 1;
        self.known.retain(|_, known| {
            let goes = spare > 0 && last(known) <= cut;
            spare -= usize::from(goes);
            !goes
        });
        self.count = self.known.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        text.parse().expect("a name")
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::from_bits(0xcb00_0000 + number))
    }

    #[test]
    fn names_are_known_until_their_time() {
        let (names, now) = (Names::default(), Instant::now());
        let known = |after: Duration, number: u32| {
            let names = names.of_at(now + after, address(number));
            names.iter().map(HostName::to_string).collect::<Vec<_>>()
        };
        names.learn_at(now, &name("a.example"), &[address(1), address(2)], Duration::ZERO);
        names.learn_at(now, &name("b.example"), &[address(2)], Duration::from_secs(900));
        names.learn_at(now, &name("c.example"), &[address(3)], Duration::MAX);
        assert_eq!(known(Duration::ZERO, 1), ["a.example"]);
        assert_eq!(known(Duration::ZERO, 2), ["a.example", "b.example"]);
        assert_eq!(known(SHORTEST, 2), ["b.example"]);
        assert_eq!(known(Duration::from_secs(900), 2), [""; 0]);
        assert_eq!(known(LONGEST - Duration::from_secs(1), 3), ["c.example"]);
        assert_eq!(known(LONGEST, 3), [""; 0]);
        assert_eq!(known(Duration::ZERO, 4), [""; 0]);
    }

    #[test]
    fn an_answer_again_renews() {
        let (names, now) = (Names::default(), Instant::now());
        names.learn_at(now, &name("a.example"), &[address(1)], Duration::ZERO);
        names.learn_at(now + SHORTEST / 2, &name("a.example"), &[address(1)], Duration::ZERO);
        assert_eq!(names.of_at(now + SHORTEST, address(1)).len(), 1);
    }

    #[test]
    fn a_flood_of_answers_is_bounded() {
        let (names, now) = (Names::default(), Instant::now());
        let kept = name("kept.example");
        names.learn_at(now, &kept, &[address(0)], LONGEST);
        for number in 1..20_000 {
            let addresses = [address(number), address(1_000_000)];
            names.learn_at(now, &name(&format!("n{number}.example")), &addresses, SHORTEST);
        }
        let table = names.0.lock().expect("the table");
        assert!(table.known.len() <= ADDRESSES, "{}", table.known.len());
        assert!(table.known.values().all(|known| known.len() <= NAMES));
        assert!(table.known.contains_key(&address(0)), "what ends last stays");
        assert!(table.known.contains_key(&address(19_999)), "what came last stays");
    }

    #[test]
    fn a_flood_of_names_is_bounded() {
        let (names, now) = (Names::default(), Instant::now());
        names.learn_at(now, &name("kept.example"), &[address(0)], LONGEST);
        for number in 1..60_000 {
            let named = name(&format!("n{number}.example"));
            names.learn_at(now, &named, &[address(1 + number % 4_000)], SHORTEST);
            let table = names.0.lock().expect("the table");
            assert!(table.count <= ALL, "{}", table.count);
        }
        let table = names.0.lock().expect("the table");
        assert_eq!(table.count, table.known.values().map(Vec::len).sum::<usize>());
        assert!(table.count > ALL / 2, "{}", table.count);
        assert!(table.known.contains_key(&address(0)), "what ends last stays");
    }
}
