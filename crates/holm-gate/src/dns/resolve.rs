//! From a question to an answer: what is refused is refused at once and never leaves the host; what
//! comes back is told only as far as it answers the question and leads where the sandbox may go.
//!
//! A name that is refused does not exist (`NXDOMAIN`), with the reason as an extended error: to
//! `REFUSED` the resolvers of musl listen as little as to silence, and they end a search list there,
//! so that a list with a name that is refused would hide one that is not.

use std::net::IpAddr;
use std::time::Duration;

use super::answer::{Answer, LONGEST_TTL};
use super::judge;
use super::local::{self, Realm};
use super::name::Name;
use super::question::Question;
use super::reply::{Record, Reply};
use super::upstream::Upstream;
use super::wire::{kind, rcode};
use crate::policy::HostName;
use crate::state::State;

/// The types of records that are passed on. All that may name an address beside A and AAAA is
/// without it (see [`super::svcb`]).
const KINDS: [u16; 16] = [
    kind::A,
    kind::NS,
    kind::CNAME,
    kind::SOA,
    kind::PTR,
    kind::MX,
    kind::TXT,
    kind::AAAA,
    kind::SRV,
    kind::NAPTR,
    kind::SSHFP,
    kind::TLSA,
    kind::SVCB,
    kind::HTTPS,
    kind::CAA,
    // URI
    256,
];
/// Why a name is refused that is of some network.
const NOT_PUBLIC: &str = "always refused: not a public name";
/// The longest chain of aliases.
const LONGEST_CHAIN: usize = 12;
/// The most records that one answer has.
const MOST_RECORDS: usize = 128;

/// A question that may be asked.
#[derive(Debug)]
pub(crate) struct Permitted {
    /// The name as rules know it.
    name: HostName,
    /// Whether it is an address asked backwards.
    reverse: bool,
}

/// Judges a question before anything is sent: what must be refused has its answer.
pub(crate) fn permit(state: &State, question: &Question) -> Result<Permitted, Answer> {
    if !KINDS.contains(&question.kind) {
        let reason = Some("the gate does not serve records of this type".to_owned());
        return Err(Answer { reason, ..Answer::code(rcode::REFUSED) });
    }
    let Some(text) = question.name.text() else {
        return Err(refused("the gate does not serve names with such characters"));
    };
    let name: Result<HostName, _> = text.parse();
    let permitted = match (&name, local::realm(&text)) {
        (Err(error), _) => Err(error.to_string()),
        (Ok(name), Realm::Public) => {
            judge::name(state, &subject(name, question.kind)).map(|()| false)
        }
        (Ok(_), Realm::Reverse(address)) => judge::reverse(state, address).map(|()| true),
        (Ok(_), Realm::Local) => Err(NOT_PUBLIC.to_owned()),
    };
    match (name, permitted) {
        (Ok(name), Ok(reverse)) => Ok(Permitted { name, reverse }),
        (name, permitted) => {
            let rule = permitted.err().unwrap_or_default();
            judge::denied(state, name.as_ref().ok(), None, &rule);
            Err(refused(&rule))
        }
    }
}

/// Whose record it is: services have theirs below the name of their host, as `_https._tcp.`.
fn subject(name: &HostName, kind: u16) -> HostName {
    if matches!(kind, kind::A | kind::AAAA) {
        return name.clone();
    }
    let below = |name: &str| {
        let (_, host) = name.split_once('.').filter(|(label, _)| label.starts_with('_'))?;
        host.parse::<HostName>().ok()
    };
    let first = below(name.as_str()).unwrap_or_else(|| name.clone());
    below(first.as_str()).unwrap_or(first)
}

/// For whoever asks, there is no such name. Without a time for which that holds nobody may remember
/// it (RFC 2308), and rules may change.
fn refused(reason: &str) -> Answer {
    Answer { reason: Some(reason.to_owned()), ..Answer::code(rcode::NO_SUCH_NAME) }
}

/// Asks, and tells what may be told.
pub(crate) async fn resolve(state: &State, question: &Question, permitted: &Permitted) -> Answer {
    let chain = match Chain::follow(state, question, permitted).await {
        Ok(chain) => chain,
        Err(answer) => return answer,
    };
    // Rules may have changed meanwhile; those of now hold.
    if let Err(answer) = permit(state, question) {
        return answer;
    }
    chain.answer(state, question, permitted)
}

/// The aliases from the question's name on, and what is at their end.
struct Chain {
    aliases: Vec<Record>,
    end: Name,
    reply: Reply,
}

impl Chain {
    async fn follow(
        state: &State,
        question: &Question,
        permitted: &Permitted,
    ) -> Result<Self, Answer> {
        let until = Upstream::deadline();
        let failed = |_| Answer::code(rcode::SERVER_FAILURE);
        let reply =
            state.uplink.upstream().ask(&state.share, question, until).await.map_err(failed)?;
        let mut chain = Self { aliases: Vec::new(), end: question.name.clone(), reply };
        let mut asked = question.name.clone();
        loop {
            if chain.is_at_end(question.kind) {
                return Ok(chain);
            }
            let alias = chain.find(kind::CNAME).next().cloned();
            if let Some(alias) = alias {
                let target = alias.target().ok_or_else(|| Answer::code(rcode::SERVER_FAILURE))?;
                judge_target(state, &target, permitted)?;
                chain.aliases.push(alias);
                chain.end = target;
                if chain.aliases.len() > LONGEST_CHAIN {
                    return Err(Answer::code(rcode::SERVER_FAILURE));
                }
            } else if chain.end != asked && chain.reply.authorities.is_empty() {
                // The server left it to us to go on.
                asked = chain.end.clone();
                let next = Question { name: asked.clone(), kind: question.kind };
                chain.reply = state
                    .uplink
                    .upstream()
                    .ask(&state.share, &next, until)
                    .await
                    .map_err(failed)?;
            } else {
                return Ok(chain);
            }
        }
    }

    /// True where the end has what is asked for, or does not exist.
    fn is_at_end(&self, kind: u16) -> bool {
        self.find(kind).next().is_some()
            || (self.reply.rcode != rcode::NO_ERROR && self.find(kind::CNAME).next().is_none())
    }

    /// The records of the end.
    fn find(&self, kind: u16) -> impl Iterator<Item = &Record> {
        self.reply.answers.iter().filter(move |it| it.kind == kind && it.name == self.end)
    }

    fn answer(self, state: &State, question: &Question, permitted: &Permitted) -> Answer {
        let found: Vec<Record> = self.find(question.kind).take(MOST_RECORDS).cloned().collect();
        if found.is_empty() {
            let holds = |soa: &Record| soa.kind == kind::SOA && self.end.is_in(&soa.name);
            let authorities = self.reply.authorities.into_iter().filter(holds).take(1).collect();
            let rcode = self.reply.rcode;
            return Answer { rcode, records: self.aliases, authorities, reason: None };
        }
        let mut answer = Answer { records: self.aliases, ..Answer::default() };
        let mut addresses: Vec<IpAddr> = Vec::new();
        let mut refusal = None;
        for record in found {
            if let Some(address) = record.address() {
                if let Err(untold) = judge::address(state, address) {
                    refusal.get_or_insert(untold);
                    continue;
                }
                addresses.push(address);
            }
            answer.records.push(record);
        }
        if let Some(untold) = refusal {
            judge::denied(state, Some(&permitted.name), untold.address, &untold.rule);
            if addresses.is_empty() {
                // The name is there, and may have records of other types.
                let reason = Some(untold.reason());
                return Answer { reason, ..Answer::default() };
            }
        }
        if !addresses.is_empty() {
            let ttl = answer.records.iter().map(|record| record.ttl).min().unwrap_or(0);
            let holds = Duration::from_secs(ttl.min(LONGEST_TTL).into());
            judge::told(state, &permitted.name, &addresses, holds);
        }
        answer
    }
}

/// An alias may lead anywhere in the world, but not to what is denied, and not home.
fn judge_target(state: &State, target: &Name, permitted: &Permitted) -> Result<(), Answer> {
    let text = target.text();
    let verdict = match text.as_deref().map(|text| (text.parse(), local::realm(text))) {
        Some((Ok(name), Realm::Public)) => judge::target(state, &name),
        Some((Ok(_), Realm::Reverse(address))) if permitted.reverse => {
            judge::reverse(state, address)
        }
        Some(_) => Err(NOT_PUBLIC.to_owned()),
        // Parts of networks have names with a slash.
        None if permitted.reverse => Ok(()),
        None => Err("not the name of a host".to_owned()),
    };
    verdict.map_err(|rule| {
        judge::denied(state, Some(&permitted.name), None, &rule);
        refused(&format!("an alias of it leads elsewhere: {rule}"))
    })
}
