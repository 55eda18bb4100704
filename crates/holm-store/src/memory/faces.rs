//! The traits, on top of the tables.

use std::sync::PoisonError;

use jiff::Timestamp;

use super::{MemoryStore, Tables, micros};
use crate::{
    Account, AccountId, AccountLimits, Accounts, Answer, Audit, AuditEvent, BoxFuture, Charged,
    Completion, Credit, Delivery, Entry, Event, Key, KeyHash, KeyId, Keys, Ledger, LedgerCheck,
    Node, NodeId, Nodes, Outbox, OutboxClaim, Owner, Page, PageQuery, Port, Ports, Record,
    Reservation, Reserved, SandboxId, Sandboxes, Secret, Secrets, Store, Totals, Traffic, rules,
};

impl Store for MemoryStore {
    fn ping(&self) -> Answer<()> {
        self.call(|_| Ok(()))
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let store = self.clone();
        Box::pin(async move {
            let mut tables = store.0.lock().unwrap_or_else(PoisonError::into_inner);
            *tables = Tables { closed: true, ..Tables::default() };
        })
    }
}

impl Accounts for MemoryStore {
    fn account_create(&self, account: Account) -> Answer<Account> {
        self.call(|tables| tables.accounts.create(account))
    }

    fn account_get(&self, id: AccountId) -> Answer<Option<Account>> {
        self.call(move |tables| Ok(tables.accounts.find(id).cloned()))
    }

    fn account_list(&self, page: PageQuery) -> Answer<Page<Account>> {
        self.call(move |tables| Ok(tables.accounts.list(&page)))
    }

    fn account_set_limits(&self, id: AccountId, limits: AccountLimits) -> Answer<Account> {
        self.call(move |tables| tables.accounts.set_limits(id, limits))
    }

    fn account_set_disabled(
        &self,
        id: AccountId,
        disabled_at: Option<Timestamp>,
    ) -> Answer<Account> {
        self.call(move |tables| tables.accounts.set_disabled(id, disabled_at))
    }
}

impl Keys for MemoryStore {
    fn key_create(&self, key: Key, hash: KeyHash) -> Answer<Key> {
        self.call(move |tables| tables.key_create(key, hash))
    }

    fn key_by_hash(&self, hash: KeyHash) -> Answer<Option<(Key, Account)>> {
        self.call(move |tables| Ok(tables.key_by_hash(hash)))
    }

    fn key_get(&self, owner: Owner, id: KeyId) -> Answer<Option<Key>> {
        self.call(move |tables| Ok(tables.keys.get(owner, id).cloned()))
    }

    fn key_list(&self, owner: Owner, page: PageQuery) -> Answer<Page<Key>> {
        self.call(move |tables| Ok(tables.keys.list(owner, &page)))
    }

    fn key_revoke(&self, owner: Owner, id: KeyId, at: Timestamp) -> Answer<Key> {
        self.call(move |tables| tables.keys.revoke(owner, id, at))
    }

    fn key_touch(&self, key: Key, at: Timestamp) -> Answer<()> {
        self.call(move |tables| {
            if rules::touch_is_due(&key, at) {
                tables.keys.touch(key.id, at);
            }
            Ok(())
        })
    }
}

impl Sandboxes for MemoryStore {
    fn sandbox_reserve(&self, reservation: Reservation) -> Answer<Reserved> {
        self.call(|tables| tables.sandbox_reserve(reservation))
    }

    fn sandbox_forget(&self, id: SandboxId, events: Vec<Event>) -> Answer<bool> {
        self.call(move |tables| tables.sandbox_forget(id, events))
    }

    fn sandbox_save(&self, record: Record, events: Vec<Event>) -> Answer<Record> {
        self.call(|tables| tables.sandbox_save(record, events))
    }

    fn sandbox_traffic(&self, id: SandboxId, traffic: Traffic) -> Answer<()> {
        self.call(move |tables| tables.sandboxes.traffic(id, traffic))
    }

    fn sandbox_get(&self, owner: Owner, id: SandboxId) -> Answer<Option<Record>> {
        self.call(move |tables| Ok(tables.sandboxes.seen_by(owner, id).cloned()))
    }

    fn sandbox_list(
        &self,
        owner: Owner,
        page: PageQuery,
        include_over: bool,
    ) -> Answer<Page<Record>> {
        self.call(move |tables| Ok(tables.sandboxes.list(owner, &page, include_over)))
    }

    fn sandbox_alive_on(&self, node: NodeId) -> Answer<Vec<Record>> {
        self.call(move |tables| Ok(tables.sandboxes.alive_on(node)))
    }

    fn sandbox_alive(&self, owner: Owner) -> Answer<u64> {
        self.call(move |tables| Ok(tables.sandboxes.alive(owner)))
    }

    fn sandbox_totals(&self, owner: Owner) -> Answer<Totals> {
        self.call(move |tables| Ok(tables.sandboxes.totals(owner)))
    }
}

impl Secrets for MemoryStore {
    fn secret_put(&self, secret: Secret, limit: u32) -> Answer<bool> {
        self.call(move |tables| tables.secret_put(secret, limit))
    }

    fn secret_list(&self, id: AccountId) -> Answer<Vec<Secret>> {
        self.call(move |tables| Ok(tables.secrets.list(id)))
    }

    fn secret_delete(&self, id: AccountId, name: String) -> Answer<bool> {
        self.call(move |tables| Ok(tables.secrets.delete(id, name)))
    }

    fn secret_reseal(&self, old: Secret, sealed: Vec<u8>) -> Answer<bool> {
        self.call(move |tables| Ok(tables.secrets.reseal(&old, sealed)))
    }

    fn secret_all(&self) -> Answer<Vec<Secret>> {
        self.call(|tables| Ok(tables.secrets.all()))
    }
}

impl Ports for MemoryStore {
    fn port_put(&self, port: Port, events: Vec<Event>) -> Answer<Port> {
        self.call(|tables| tables.port_put(port, events))
    }

    fn port_remove(&self, id: SandboxId, number: u16, events: Vec<Event>) -> Answer<bool> {
        self.call(move |tables| tables.port_remove(id, number, events))
    }

    fn port_list(&self, id: SandboxId) -> Answer<Vec<Port>> {
        self.call(move |tables| Ok(tables.ports.list(id)))
    }
}

impl Ledger for MemoryStore {
    fn ledger_add(&self, credit: Credit) -> Answer<Entry> {
        self.call(move |tables| tables.ledger_add(&credit))
    }

    fn ledger_charge(&self, id: SandboxId, until: Timestamp) -> Answer<Charged> {
        self.call(move |tables| tables.ledger_charge(id, until))
    }

    fn ledger_balance(&self, id: AccountId) -> Answer<i64> {
        self.call(move |tables| {
            tables.accounts.get(id)?;
            Ok(tables.ledger.balance(id))
        })
    }

    fn ledger_list(&self, id: AccountId, page: PageQuery) -> Answer<Page<Entry>> {
        self.call(move |tables| Ok(tables.ledger.list(id, &page)))
    }

    fn ledger_check(&self, id: AccountId) -> Answer<LedgerCheck> {
        self.call(move |tables| tables.ledger_check(id))
    }
}

impl Audit for MemoryStore {
    fn audit_add(&self, event: AuditEvent) -> Answer<()> {
        self.call(|tables| tables.audit.add(event))
    }

    fn audit_list(&self, owner: Owner, page: PageQuery) -> Answer<Page<AuditEvent>> {
        self.call(move |tables| Ok(tables.audit.list(owner, &page)))
    }
}

impl Outbox for MemoryStore {
    fn outbox_add(&self, event: Event) -> Answer<bool> {
        self.call(|tables| tables.outbox_add(event))
    }

    fn outbox_claim(&self, claim: OutboxClaim) -> Answer<Vec<Delivery>> {
        self.call(move |tables| Ok(tables.outbox.claim(&claim)))
    }

    fn outbox_complete(&self, completion: Completion) -> Answer<bool> {
        self.call(move |tables| Ok(tables.outbox.complete(&completion)))
    }

    fn outbox_prune(&self, before: Timestamp) -> Answer<u64> {
        self.call(move |tables| Ok(tables.outbox.prune(before)))
    }
}

impl Nodes for MemoryStore {
    fn node_seen(&self, node: Node) -> Answer<Option<Node>> {
        self.call(move |tables| {
            let node = Node { last_seen: micros(node.last_seen), ..node };
            Ok(tables.nodes.insert(node.id, node))
        })
    }

    fn node_list(&self) -> Answer<Vec<Node>> {
        self.call(|tables| Ok(tables.nodes.values().cloned().collect()))
    }
}
