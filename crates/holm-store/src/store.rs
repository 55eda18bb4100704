//! The traits: one for each noun, and [`Store`], which is all of them.
//!
//! Every call is one transaction. A call that has begun is finished also when its future is
//! dropped, so that a write is never half done; a dropped write may or may not have happened.

use jiff::Timestamp;

use crate::{
    Account, AccountId, AccountLimits, AuditEvent, BoxFuture, Charged, Completion, Credit,
    Delivery, Entry, Event, Key, KeyHash, KeyId, LedgerCheck, Node, NodeId, OutboxClaim, Owner,
    Page, PageQuery, Port, Record, Reservation, Reserved, SandboxId, Secret, StoreError, Totals,
    Traffic,
};

/// What every call answers.
pub type Answer<T> = BoxFuture<'static, Result<T, StoreError>>;

/// Everything that the service must not forget.
pub trait Store:
    Accounts
    + Keys
    + Sandboxes
    + Ports
    + Secrets
    + Ledger
    + Audit
    + Outbox
    + Nodes
    + Send
    + Sync
    + 'static
{
    /// Whether the database answers.
    fn ping(&self) -> Answer<()>;

    /// Finishes what is under way and lets go of the database. Later calls fail as unavailable.
    fn close(&self) -> BoxFuture<'static, ()>;
}

/// Accounts.
pub trait Accounts {
    /// Adds one. Fails with [`StoreError::Exists`] when its id is taken.
    fn account_create(&self, account: Account) -> Answer<Account>;
    /// One of them.
    fn account_get(&self, id: AccountId) -> Answer<Option<Account>>;
    /// All of them.
    fn account_list(&self, page: PageQuery) -> Answer<Page<Account>>;
    /// Gives it other limits; what it has already stays.
    fn account_set_limits(&self, id: AccountId, limits: AccountLimits) -> Answer<Account>;
    /// Disables it from this moment, or enables it again.
    fn account_set_disabled(
        &self,
        id: AccountId,
        disabled_at: Option<Timestamp>,
    ) -> Answer<Account>;
}

/// API keys.
pub trait Keys {
    /// Adds one. The key itself never comes here, only its hash.
    fn key_create(&self, key: Key, hash: KeyHash) -> Answer<Key>;
    /// The key with that hash, and its account, as they are at this moment: also one that was
    /// revoked or has expired, which [`Key::status`] tells. Nothing is cached.
    fn key_by_hash(&self, hash: KeyHash) -> Answer<Option<(Key, Account)>>;
    /// One of them.
    fn key_get(&self, owner: Owner, id: KeyId) -> Answer<Option<Key>>;
    /// All of them.
    fn key_list(&self, owner: Owner, page: PageQuery) -> Answer<Page<Key>>;
    /// Revokes one, from now on and for good. One that is revoked already stays as it is.
    fn key_revoke(&self, owner: Owner, id: KeyId, at: Timestamp) -> Answer<Key>;
    /// Writes down that it was used, unless the key as given says that this was done less than
    /// [`TOUCH_SECONDS`](crate::TOUCH_SECONDS) before.
    fn key_touch(&self, key: Key, at: Timestamp) -> Answer<()>;
}

/// Sandboxes.
pub trait Sandboxes {
    /// Takes a place for a create, if account and node have one, the account is neither disabled
    /// nor out of money (with a price above zero), and the key still works: all of it judged in
    /// the transaction that takes the place. All that are not over count, also those that are
    /// being removed.
    fn sandbox_reserve(&self, reservation: Reservation) -> Answer<Reserved>;
    /// Takes a reservation back: the create failed, nothing of it counts or is remembered, its
    /// idempotency key is free again. Only one that is still provisioning; else false. `events` are
    /// recorded with it.
    fn sandbox_forget(&self, id: SandboxId, events: Vec<Event>) -> Answer<bool>;
    /// Writes name, labels, state, times, network and adoption of a record, and answers it with its new
    /// version; the rest of a record never changes. The state is the recorded one or follows from
    /// it by an arrow; `ready_at` and `ended` are set once, [`Pause::turned_at`](crate::Pause) with
    /// each pause and each end of one. One that ends is charged up to its end in the same
    /// transaction, one that is paused or goes on up to that moment. `events` are recorded with it.
    fn sandbox_save(&self, record: Record, events: Vec<Event>) -> Answer<Record>;
    /// Writes down what has gone through its network so far. Sums never go down, and the record's
    /// version stays: nothing else depends on them.
    fn sandbox_traffic(&self, id: SandboxId, traffic: Traffic) -> Answer<()>;
    /// One of them; also an ended one.
    fn sandbox_get(&self, owner: Owner, id: SandboxId) -> Answer<Option<Record>>;
    /// Newest first; those that are over only where wanted.
    fn sandbox_list(
        &self,
        owner: Owner,
        page: PageQuery,
        include_over: bool,
    ) -> Answer<Page<Record>>;
    /// Everything on a node that is not over, oldest first: what a start adopts or removes.
    fn sandbox_alive_on(&self, node: NodeId) -> Answer<Vec<Record>>;
    /// How many are not over.
    fn sandbox_alive(&self, owner: Owner) -> Answer<u64>;
    /// Sums.
    fn sandbox_totals(&self, owner: Owner) -> Answer<Totals>;
}

/// Secrets of accounts, sealed.
pub trait Secrets {
    /// Puts one in the place of the one of that name, or adds it while the account has fewer than
    /// `limit`. True when it was added. What was there keeps the moment at which it was made.
    fn secret_put(&self, secret: Secret, limit: u32) -> Answer<bool>;
    /// All of an account, by name.
    fn secret_list(&self, id: AccountId) -> Answer<Vec<Secret>>;
    /// Removes one; false where there is none.
    fn secret_delete(&self, id: AccountId, name: String) -> Answer<bool>;
    /// Puts `sealed` in the place of what `old` has, unless that was changed meanwhile.
    fn secret_reseal(&self, old: Secret, sealed: Vec<u8>) -> Answer<bool>;
    /// Those of all accounts.
    fn secret_all(&self) -> Answer<Vec<Secret>>;
}

/// Ports of sandboxes that may be reached from outside.
pub trait Ports {
    /// Adds one. Where it is there already it stays as old as it is, and only its options change.
    /// Fails with [`StoreError::PortsFull`] beyond [`PORTS_MAX`](crate::PORTS_MAX). `events` are
    /// recorded with it.
    fn port_put(&self, port: Port, events: Vec<Event>) -> Answer<Port>;
    /// Removes one; false when it was not there. Then `events` are not recorded either.
    fn port_remove(&self, id: SandboxId, number: u16, events: Vec<Event>) -> Answer<bool>;
    /// A sandbox's, by number; also those of one that has ended.
    fn port_list(&self, id: SandboxId) -> Answer<Vec<Port>>;
}

/// Money.
pub trait Ledger {
    /// Adds money, or a correction.
    fn ledger_add(&self, credit: Credit) -> Answer<Entry>;
    /// Charges whole seconds from where the last charge ended up to `until`, never past the
    /// sandbox's end or lease, and moves the mark: one transaction, and a second one finds
    /// nothing left to charge. Seconds in which it was paused all the time have their own price. With a price of zero only the mark moves.
    fn ledger_charge(&self, id: SandboxId, until: Timestamp) -> Answer<Charged>;
    /// What an account has, in micro-units.
    fn ledger_balance(&self, id: AccountId) -> Answer<i64>;
    /// An account's entries, newest first.
    fn ledger_list(&self, id: AccountId, page: PageQuery) -> Answer<Page<Entry>>;
    /// Adds everything up, to compare it with the balance.
    fn ledger_check(&self, id: AccountId) -> Answer<LedgerCheck>;
}

/// Audit events.
pub trait Audit {
    /// Adds one.
    fn audit_add(&self, event: AuditEvent) -> Answer<()>;
    /// Newest first.
    fn audit_list(&self, owner: Owner, page: PageQuery) -> Answer<Page<AuditEvent>>;
}

/// The webhooks' outbox.
pub trait Outbox {
    /// Adds one; false when this event was added for this target before.
    fn outbox_add(&self, event: Event) -> Answer<bool>;
    /// Takes events that are due, each for one claimer at a time.
    fn outbox_claim(&self, claim: OutboxClaim) -> Answer<Vec<Delivery>>;
    /// Ends an attempt; false when the claim had run out or the event is done already.
    fn outbox_complete(&self, completion: Completion) -> Answer<bool>;
    /// Removes what was done before that moment, and says how many.
    fn outbox_prune(&self, before: Timestamp) -> Answer<u64>;
}

/// Nodes.
pub trait Nodes {
    /// Writes down that a node lives, and answers what was known of it before.
    fn node_seen(&self, node: Node) -> Answer<Option<Node>>;
    /// All of them, by id.
    fn node_list(&self) -> Answer<Vec<Node>>;
}
