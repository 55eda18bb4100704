//! Sandboxes: those that are alive, and the last ones that are over.

use std::collections::{BTreeSet, HashMap, VecDeque};

use jiff::Timestamp;

use super::page::{is_after, page};
use super::{Tables, micros};
use crate::rules::{self, Due};
use crate::{
    AccountId, Cursor, Ended, Event, Idempotency, NodeId, Owner, Page, PageQuery, Record,
    SandboxId, StoreError, Totals, Traffic,
};

#[derive(Default)]
pub(super) struct Table {
    history: usize,
    records: HashMap<SandboxId, Record>,
    /// All of `records`, oldest first.
    order: BTreeSet<(Timestamp, SandboxId)>,
    /// Those that are over, the one that has been so for longest first.
    over: VecDeque<SandboxId>,
    of_account: HashMap<AccountId, u64>,
    at_node: HashMap<NodeId, u64>,
    totals: HashMap<AccountId, Totals>,
    keys: HashMap<(AccountId, String), Made>,
}

/// What an idempotency key has made.
struct Made {
    fingerprint: String,
    id: SandboxId,
    until: Timestamp,
}

impl Tables {
    pub(super) fn sandbox_save(
        &mut self,
        new: Record,
        events: Vec<Event>,
    ) -> Result<Record, StoreError> {
        let old = self.sandboxes.get(new.id)?;
        rules::may_follow(old, &new)?;
        rules::texts(new.name.as_deref())?;
        let mut saved = old.clone();
        saved.name = new.name;
        saved.metadata = new.metadata;
        saved.state = new.state;
        saved.ready_at = new.ready_at.map(micros);
        saved.expires_at = new.expires_at.map(micros);
        saved.ended = new.ended.map(|end| Ended { at: micros(end.at), ..end });
        saved.adoption = new.adoption;
        saved.network = new.network;
        saved.pause.turned_at = new.pause.turned_at.map(micros);
        saved.metered_until = saved.metered_until.or(saved.ready_at);
        saved.version += 1;
        self.check_events(&events)?;
        if let Some(until) = rules::settled_by(old, &saved) {
            // At the prices of before.
            for due in rules::dues(old, until)? {
                self.ledger.charge(&saved, due)?;
                saved.charged(due);
                self.sandboxes.count_cost(&saved, due.amount);
            }
        }
        self.sandboxes.replace(saved.clone());
        self.outbox.add_all(events);
        Ok(saved)
    }

    pub(super) fn sandbox_forget(
        &mut self,
        id: SandboxId,
        events: Vec<Event>,
    ) -> Result<bool, StoreError> {
        self.check_events(&events)?;
        let forgotten = self.sandboxes.forget(id);
        if forgotten {
            self.outbox.add_all(events);
        }
        Ok(forgotten)
    }
}

impl Record {
    /// Moves the mark up to which it is charged.
    fn charged(&mut self, due: Due) {
        self.metered_until = Some(due.to);
        if due.paused {
            self.pause.charged_seconds += due.seconds;
        }
    }
}

impl Table {
    pub fn new(history: usize) -> Self {
        Self { history, ..Self::default() }
    }

    pub fn find(&self, id: SandboxId) -> Option<&Record> {
        self.records.get(&id)
    }

    pub fn get(&self, id: SandboxId) -> Result<&Record, StoreError> {
        self.find(id).ok_or_else(|| StoreError::unknown("sandbox", &id))
    }

    pub fn seen_by(&self, owner: Owner, id: SandboxId) -> Option<&Record> {
        self.find(id).filter(|record| owner.sees(record.account_id))
    }

    /// Adds one that is alive.
    pub fn add(&mut self, record: Record) {
        self.count(&record, 1);
        self.order.insert((record.created_at, record.id));
        self.records.insert(record.id, record);
    }

    fn count(&mut self, record: &Record, change: i64) {
        let account = self.of_account.entry(record.account_id).or_default();
        *account = account.saturating_add_signed(change);
        let node = self.at_node.entry(record.node_id).or_default();
        *node = node.saturating_add_signed(change);
    }

    /// Puts a record in the place of the one that it follows.
    fn replace(&mut self, record: Record) {
        let id = record.id;
        let totals = self.totals.entry(record.account_id).or_default();
        let Some(place) = self.records.get_mut(&id) else { return };
        if place.ready_at.is_none() && record.ready_at.is_some() {
            totals.sandboxes += 1;
        }
        let newly_over = record.state.is_over() && !place.state.is_over();
        if newly_over && let Some(ended) = record.ended {
            totals.ended_seconds += record.seconds(ended.at);
        }
        *place = record;
        if newly_over {
            let record = place.clone();
            self.count(&record, -1);
            self.over.push_back(id);
        }
        while self.over.len() > self.history {
            let Some(oldest) = self.over.pop_front() else { break };
            self.drop_record(oldest);
        }
    }

    fn drop_record(&mut self, id: SandboxId) {
        if let Some(record) = self.records.remove(&id) {
            self.order.remove(&(record.created_at, id));
        }
        self.keys.retain(|_, made| made.id != id);
    }

    /// Takes back one that is still being made.
    pub fn forget(&mut self, id: SandboxId) -> bool {
        let provisioning = |record: &&Record| record.state == crate::SandboxState::Provisioning;
        let Some(record) = self.find(id).filter(provisioning).cloned() else { return false };
        self.count(&record, -1);
        self.drop_record(id);
        true
    }

    pub fn traffic(&mut self, id: SandboxId, traffic: Traffic) -> Result<(), StoreError> {
        let record = self.records.get_mut(&id);
        let record = record.ok_or_else(|| StoreError::unknown("sandbox", &id))?;
        let before = record.traffic;
        record.traffic = before.at_least(traffic);
        let totals = self.totals.entry(record.account_id).or_default();
        totals.traffic = totals.traffic.plus(record.traffic.beyond(before));
        Ok(())
    }

    /// Moves the mark up to which it is charged.
    pub fn charged(&mut self, id: SandboxId, due: Due) {
        if let Some(record) = self.records.get_mut(&id) {
            record.charged(due);
        }
    }

    pub fn count_cost(&mut self, record: &Record, amount: i64) {
        let totals = self.totals.entry(record.account_id).or_default();
        totals.cost = totals.cost.saturating_add(amount);
    }

    pub fn list(&self, owner: Owner, query: &PageQuery, include_over: bool) -> Page<Record> {
        let wanted = |record: &&Record| {
            owner.sees(record.account_id)
                && (include_over || !record.state.is_over())
                && is_after(query, record.created_at, &record.id)
        };
        let newest_first = self.order.iter().rev().filter_map(|(_, id)| self.records.get(id));
        let cursor = |record: &Record| Cursor::at(record.created_at, &record.id);
        page(newest_first.filter(wanted), query, cursor)
    }

    pub fn alive_on(&self, node: NodeId) -> Vec<Record> {
        let oldest_first = self.order.iter().filter_map(|(_, id)| self.records.get(id));
        let wanted = |record: &&Record| record.node_id == node && !record.state.is_over();
        oldest_first.filter(wanted).cloned().collect()
    }

    pub fn alive(&self, owner: Owner) -> u64 {
        match owner {
            Owner::Account(id) => self.alive_of(id),
            Owner::Any => self.of_account.values().sum(),
        }
    }

    pub fn alive_of(&self, account: AccountId) -> u64 {
        self.of_account.get(&account).copied().unwrap_or(0)
    }

    pub fn alive_at(&self, node: NodeId) -> u64 {
        self.at_node.get(&node).copied().unwrap_or(0)
    }

    pub fn totals(&self, owner: Owner) -> Totals {
        let mut sum = Totals::default();
        for (_, totals) in self.totals.iter().filter(|(account, _)| owner.sees(**account)) {
            sum.sandboxes += totals.sandboxes;
            sum.ended_seconds += totals.ended_seconds;
            sum.cost = sum.cost.saturating_add(totals.cost);
            sum.traffic = sum.traffic.plus(totals.traffic);
        }
        sum
    }

    pub fn forget_old_keys(&mut self, account: AccountId, now: Timestamp) {
        self.keys.retain(|(of, _), made| *of != account || made.until > now);
    }

    pub fn remember_key(&mut self, record: &Record, key: Idempotency, until: Timestamp) {
        let made = Made { fingerprint: key.fingerprint, id: record.id, until };
        self.keys.insert((record.account_id, key.key), made);
    }

    /// The fingerprint and the sandbox of an idempotency key.
    pub fn made_with(&self, account: AccountId, key: &str) -> Option<(&String, SandboxId)> {
        if self.keys.is_empty() {
            return None;
        }
        let made = self.keys.get(&(account, key.to_owned()))?;
        Some((&made.fingerprint, made.id))
    }
}
