//! Money: an append-only list of entries. A balance is their sum; nothing is ever changed.
//!
//! Amounts are whole micro-units (a millionth of the unit in which prices are given). Each entry
//! also says what the sum was after it, which the database checks as it is added, so that a
//! balance needs no walk over years of entries and any two places can be compared.

use std::fmt;

use jiff::Timestamp;

use crate::{AccountId, EntryId, SandboxId};

/// Why money moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// Somebody paid in.
    Topup,
    /// A sandbox lived.
    Usage,
    /// An operator corrected something.
    Adjust,
}

impl EntryKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Topup, Self::Usage, Self::Adjust];

    /// Its stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Topup => "topup",
            Self::Usage => "usage",
            Self::Adjust => "adjust",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl fmt::Display for EntryKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// What a usage entry pays for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The sandbox.
    pub sandbox_id: SandboxId,
    /// From here; no other entry of this sandbox begins here.
    pub from: Timestamp,
    /// To here, a whole number of seconds later; the next entry begins here.
    pub to: Timestamp,
}

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its id.
    pub id: EntryId,
    /// Whose money.
    pub account_id: AccountId,
    /// Its place in the account's ledger: 1, 2, 3 … without a gap.
    pub number: i64,
    /// Why.
    pub kind: EntryKind,
    /// How much, in micro-units; below zero is what the account pays.
    pub amount: i64,
    /// The account's sum after it.
    pub balance_after: i64,
    /// What it pays for.
    pub usage: Option<Usage>,
    /// The payer's own mark: unique per account, so that a repeated payment counts once.
    pub reference: Option<String>,
    /// When it was written.
    pub created_at: Timestamp,
}

/// An entry that is no usage: money paid in, or a correction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credit {
    /// Whose money.
    pub account_id: AccountId,
    /// [`EntryKind::Topup`] (above zero) or [`EntryKind::Adjust`] (not zero).
    pub kind: EntryKind,
    /// How much, in micro-units.
    pub amount: i64,
    /// The payer's own mark. The same mark with the same amount answers the entry that is there.
    pub reference: Option<String>,
}

/// What a charge did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charged {
    /// Whole seconds that this call charged; 0 when they were charged before.
    pub seconds: i64,
    /// What they cost, in micro-units (not negative).
    pub amount: i64,
    /// Up to when the sandbox is charged now; nothing if it never became ready.
    pub metered_until: Option<Timestamp>,
    /// The account's balance now.
    pub balance: i64,
}

/// Two ways to the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerCheck {
    /// The sum of all amounts.
    pub sum: i64,
    /// What the last entry says.
    pub balance: i64,
    /// Entries.
    pub entries: u64,
}
