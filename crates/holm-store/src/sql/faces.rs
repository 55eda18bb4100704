//! The traits, on top of any database: each call is one transaction.

use jiff::Timestamp;

use super::Mode::{Read, Write};
use super::{
    Backend, account, audit, call, charge, key, ledger, node, outbox, port, query_int, reserve,
    sandbox, secret,
};
use crate::{
    Account, AccountId, AccountLimits, Accounts, Answer, Audit, AuditEvent, BoxFuture, Charged,
    Completion, Credit, Delivery, Entry, Event, Key, KeyHash, KeyId, Keys, Ledger, LedgerCheck,
    Node, NodeId, Nodes, Outbox, OutboxClaim, Owner, Page, PageQuery, Port, Ports, Record,
    Reservation, Reserved, SandboxId, Sandboxes, Secret, Secrets, Store, Totals, Traffic, rules,
};

impl<B: Backend> Store for B {
    fn ping(&self) -> Answer<()> {
        call(self, Read, (), |tx, ()| {
            Box::pin(async { query_int(tx, "SELECT 1", Vec::new()).await.map(|_| ()) })
        })
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        Backend::close(self)
    }
}

impl<B: Backend> Accounts for B {
    fn account_create(&self, account: Account) -> Answer<Account> {
        call(self, Write, account, |tx, account| Box::pin(account::create(tx, account)))
    }

    fn account_get(&self, id: AccountId) -> Answer<Option<Account>> {
        call(self, Read, id, |tx, id| Box::pin(account::get(tx, *id)))
    }

    fn account_list(&self, page: PageQuery) -> Answer<Page<Account>> {
        call(self, Read, page, |tx, page| Box::pin(account::list(tx, page)))
    }

    fn account_set_limits(&self, id: AccountId, limits: AccountLimits) -> Answer<Account> {
        call(self, Write, (id, limits), |tx, (id, limits)| {
            Box::pin(account::set_limits(tx, *id, limits))
        })
    }

    fn account_set_disabled(
        &self,
        id: AccountId,
        disabled_at: Option<Timestamp>,
    ) -> Answer<Account> {
        call(self, Write, (id, disabled_at), |tx, (id, at)| {
            Box::pin(account::set_disabled(tx, *id, *at))
        })
    }
}

impl<B: Backend> Keys for B {
    fn key_create(&self, key: Key, hash: KeyHash) -> Answer<Key> {
        call(self, Write, (key, hash), |tx, (key, hash)| Box::pin(key::create(tx, key, *hash)))
    }

    fn key_by_hash(&self, hash: KeyHash) -> Answer<Option<(Key, Account)>> {
        call(self, Read, hash, |tx, hash| Box::pin(key::by_hash(tx, *hash)))
    }

    fn key_get(&self, owner: Owner, id: KeyId) -> Answer<Option<Key>> {
        call(self, Read, (owner, id), |tx, (owner, id)| Box::pin(key::get(tx, *owner, *id)))
    }

    fn key_list(&self, owner: Owner, page: PageQuery) -> Answer<Page<Key>> {
        call(self, Read, (owner, page), |tx, (owner, page)| Box::pin(key::list(tx, *owner, page)))
    }

    fn key_revoke(&self, owner: Owner, id: KeyId, at: Timestamp) -> Answer<Key> {
        call(self, Write, (owner, id, at), |tx, (owner, id, at)| {
            Box::pin(key::revoke(tx, *owner, *id, *at))
        })
    }

    fn key_touch(&self, key: Key, at: Timestamp) -> Answer<()> {
        if !rules::touch_is_due(&key, at) {
            return Box::pin(std::future::ready(Ok(())));
        }
        call(self, Write, (key.id, at), |tx, (id, at)| Box::pin(key::touch(tx, *id, *at)))
    }
}

impl<B: Backend> Sandboxes for B {
    fn sandbox_reserve(&self, reservation: Reservation) -> Answer<Reserved> {
        call(self, Write, reservation, |tx, wanted| Box::pin(reserve::reserve(tx, wanted)))
    }

    fn sandbox_forget(&self, id: SandboxId, events: Vec<Event>) -> Answer<bool> {
        call(self, Write, (id, events), |tx, (id, events)| {
            Box::pin(sandbox::forget(tx, *id, events))
        })
    }

    fn sandbox_save(&self, record: Record, events: Vec<Event>) -> Answer<Record> {
        call(self, Write, (record, events), |tx, (record, events)| {
            Box::pin(sandbox::save(tx, record, events))
        })
    }

    fn sandbox_traffic(&self, id: SandboxId, traffic: Traffic) -> Answer<()> {
        call(self, Write, (id, traffic), |tx, (id, traffic)| {
            Box::pin(sandbox::traffic(tx, *id, *traffic))
        })
    }

    fn sandbox_get(&self, owner: Owner, id: SandboxId) -> Answer<Option<Record>> {
        call(self, Read, (owner, id), |tx, (owner, id)| Box::pin(sandbox::get(tx, *owner, *id)))
    }

    fn sandbox_list(
        &self,
        owner: Owner,
        page: PageQuery,
        include_over: bool,
    ) -> Answer<Page<Record>> {
        call(self, Read, (owner, page, include_over), |tx, (owner, page, over)| {
            Box::pin(sandbox::list(tx, *owner, page, *over))
        })
    }

    fn sandbox_alive_on(&self, node: NodeId) -> Answer<Vec<Record>> {
        call(self, Read, node, |tx, node| Box::pin(sandbox::alive_on(tx, *node)))
    }

    fn sandbox_alive(&self, owner: Owner) -> Answer<u64> {
        call(self, Read, owner, |tx, owner| Box::pin(sandbox::alive(tx, *owner)))
    }

    fn sandbox_totals(&self, owner: Owner) -> Answer<Totals> {
        call(self, Read, owner, |tx, owner| Box::pin(sandbox::totals(tx, *owner)))
    }
}

impl<B: Backend> Secrets for B {
    fn secret_put(&self, secret: Secret, limit: u32) -> Answer<bool> {
        call(self, Write, (secret, limit), |tx, (secret, limit)| {
            Box::pin(secret::put(tx, secret, *limit))
        })
    }

    fn secret_list(&self, id: AccountId) -> Answer<Vec<Secret>> {
        call(self, Read, id, |tx, id| Box::pin(secret::list(tx, *id)))
    }

    fn secret_delete(&self, id: AccountId, name: String) -> Answer<bool> {
        call(self, Write, (id, name), |tx, (id, name)| Box::pin(secret::delete(tx, *id, name)))
    }

    fn secret_reseal(&self, old: Secret, sealed: Vec<u8>) -> Answer<bool> {
        call(self, Write, (old, sealed), |tx, (old, sealed)| {
            Box::pin(secret::reseal(tx, old, sealed))
        })
    }

    fn secret_all(&self) -> Answer<Vec<Secret>> {
        call(self, Read, (), |tx, ()| Box::pin(secret::all(tx)))
    }
}

impl<B: Backend> Ports for B {
    fn port_put(&self, port: Port, events: Vec<Event>) -> Answer<Port> {
        call(self, Write, (port, events), |tx, (port, events)| {
            Box::pin(port::put(tx, port, events))
        })
    }

    fn port_remove(&self, id: SandboxId, number: u16, events: Vec<Event>) -> Answer<bool> {
        call(self, Write, (id, number, events), |tx, (id, number, events)| {
            Box::pin(port::remove(tx, *id, *number, events))
        })
    }

    fn port_list(&self, id: SandboxId) -> Answer<Vec<Port>> {
        call(self, Read, id, |tx, id| Box::pin(port::list(tx, *id)))
    }
}

impl<B: Backend> Ledger for B {
    fn ledger_add(&self, credit: Credit) -> Answer<Entry> {
        call(self, Write, credit, |tx, credit| Box::pin(ledger::add(tx, credit)))
    }

    fn ledger_charge(&self, id: SandboxId, until: Timestamp) -> Answer<Charged> {
        call(self, Write, (id, until), |tx, (id, until)| Box::pin(charge::charge(tx, *id, *until)))
    }

    fn ledger_balance(&self, id: AccountId) -> Answer<i64> {
        call(self, Read, id, |tx, id| Box::pin(ledger::balance_of(tx, *id)))
    }

    fn ledger_list(&self, id: AccountId, page: PageQuery) -> Answer<Page<Entry>> {
        call(self, Read, (id, page), |tx, (id, page)| Box::pin(ledger::list(tx, *id, page)))
    }

    fn ledger_check(&self, id: AccountId) -> Answer<LedgerCheck> {
        call(self, Read, id, |tx, id| Box::pin(ledger::check(tx, *id)))
    }
}

impl<B: Backend> Audit for B {
    fn audit_add(&self, event: AuditEvent) -> Answer<()> {
        call(self, Write, event, |tx, event| Box::pin(audit::add(tx, event)))
    }

    fn audit_list(&self, owner: Owner, page: PageQuery) -> Answer<Page<AuditEvent>> {
        call(self, Read, (owner, page), |tx, (owner, page)| Box::pin(audit::list(tx, *owner, page)))
    }
}

impl<B: Backend> Outbox for B {
    fn outbox_add(&self, event: Event) -> Answer<bool> {
        call(self, Write, event, |tx, event| Box::pin(outbox::add(tx, event)))
    }

    fn outbox_claim(&self, claim: OutboxClaim) -> Answer<Vec<Delivery>> {
        call(self, Write, claim, |tx, claim| Box::pin(outbox::claim(tx, claim)))
    }

    fn outbox_complete(&self, completion: Completion) -> Answer<bool> {
        call(self, Write, completion, |tx, done| Box::pin(outbox::complete(tx, done)))
    }

    fn outbox_prune(&self, before: Timestamp) -> Answer<u64> {
        call(self, Write, before, |tx, before| Box::pin(outbox::prune(tx, *before)))
    }
}

impl<B: Backend> Nodes for B {
    fn node_seen(&self, node: Node) -> Answer<Option<Node>> {
        call(self, Write, node, |tx, node| Box::pin(node::seen(tx, node)))
    }

    fn node_list(&self) -> Answer<Vec<Node>> {
        call(self, Read, (), |tx, ()| Box::pin(node::list(tx)))
    }
}
