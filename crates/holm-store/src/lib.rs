//! What the service must not forget: accounts, API keys, secrets, sandboxes, the ledger, audit
//! events, webhooks, nodes.
//!
//! [`Store`] is the whole of it, [`SqliteStore`] keeps it in one file without any other service,
//! [`PostgresStore`] where several nodes share it. Both run the same transactions (`sql/`, one
//! file per noun); what differs (connections, locks, migrations) is in `sqlite/` and `postgres/`.
//! [`MemoryStore`] is plain maps, for an engine whose sandboxes end with its process. A rule about
//! money or places exists once (`rules.rs`), and one contract test runs against all of them. Knows
//! nothing above it.

#![forbid(unsafe_code)]

mod account;
mod audit;
mod error;
mod id;
mod key;
mod ledger;
mod memory;
mod migrate;
mod node;
mod outbox;
mod page;
mod port;
mod postgres;
mod record;
mod rules;
mod secret;
mod size;
mod sql;
mod sqlite;
mod state;
mod store;
mod vault;

pub use account::{Account, AccountLimits};
pub use audit::{AuditEvent, DETAIL_MAX, Outcome};
pub use error::{Source, StoreError};
pub use id::{
    AccountId, AuditId, EntryId, EventId, IdError, KeyId, NodeId, SandboxId, random_bytes,
};
pub use key::{Key, KeyHash, KeyHasher, KeyScope, KeyStatus, KeyText, TOUCH_SECONDS};
pub use ledger::{Charged, Credit, Entry, EntryKind, LedgerCheck, Usage};
pub use memory::MemoryStore;
pub use node::Node;
pub use outbox::{Completion, Delivery, DeliveryOutcome, Event, OutboxClaim, PAYLOAD_MAX};
pub use page::{Cursor, CursorError, Owner, PAGE_MAX, Page, PageQuery};
pub use port::{PORTS_MAX, Port};
pub use postgres::{PostgresSettings, PostgresStore};
pub use record::{
    IDEMPOTENCY_LIFE, Idempotency, Pause, Record, Reservation, Reserved, Totals, Traffic,
};
pub use size::{Size, SizeName};
pub use sqlite::SqliteStore;
pub use state::{EndReason, Ended, SandboxState};
pub use store::{
    Accounts, Answer, Audit, Keys, Ledger, Nodes, Outbox, Ports, Sandboxes, Secrets, Store,
};
pub use vault::{Sealer, Secret, SecretText};

/// A boxed future, so that traits with async calls can be objects.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
