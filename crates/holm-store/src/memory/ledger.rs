//! The ledger. Entries are pushed and read; nothing here changes or removes one.

use std::collections::HashMap;

use jiff::Timestamp;

use super::page::page;
use super::{Tables, micros};
use crate::rules::{self, Due};
use crate::{
    AccountId, Charged, Credit, Cursor, Entry, EntryId, EntryKind, LedgerCheck, Page, PageQuery,
    Record, SandboxId, StoreError, Usage,
};

#[derive(Default)]
pub(super) struct Table(HashMap<AccountId, Vec<Entry>>);

impl Tables {
    pub(super) fn ledger_add(&mut self, credit: &Credit) -> Result<Entry, StoreError> {
        rules::may_add(credit)?;
        rules::texts(credit.reference.as_deref())?;
        self.accounts.get(credit.account_id)?;
        if let Some(before) = self.ledger.referred(credit) {
            if (before.kind, before.amount) != (credit.kind, credit.amount) {
                let reference = credit.reference.as_deref().unwrap_or_default();
                return Err(StoreError::exists("ledger reference", &reference));
            }
            return Ok(before.clone());
        }
        let reference = credit.reference.clone();
        self.ledger.append(credit.account_id, credit.kind, credit.amount, None, reference)
    }

    pub(super) fn ledger_charge(
        &mut self,
        id: SandboxId,
        until: Timestamp,
    ) -> Result<Charged, StoreError> {
        let record = self.sandboxes.get(id)?.clone();
        let metered_until = record.metered_until;
        let mut charged = Charged { seconds: 0, amount: 0, metered_until, balance: 0 };
        for due in rules::dues(&record, micros(until))? {
            self.ledger.charge(&record, due)?;
            self.sandboxes.charged(id, due);
            self.sandboxes.count_cost(&record, due.amount);
            charged.seconds += due.seconds;
            charged.amount = rules::add_up(charged.amount, due.amount)?;
            charged.metered_until = Some(due.to);
        }
        charged.balance = self.ledger.balance(record.account_id);
        Ok(charged)
    }

    pub(super) fn ledger_check(&self, id: AccountId) -> Result<LedgerCheck, StoreError> {
        self.accounts.get(id)?;
        let entries = self.ledger.of(id);
        Ok(LedgerCheck {
            sum: entries.iter().map(|entry| entry.amount).sum(),
            balance: self.ledger.balance(id),
            entries: u64::try_from(entries.len()).unwrap_or(u64::MAX),
        })
    }
}

impl Table {
    fn of(&self, id: AccountId) -> &[Entry] {
        self.0.get(&id).map_or(&[], Vec::as_slice)
    }

    pub fn list(&self, id: AccountId, query: &PageQuery) -> Page<Entry> {
        let before = query.after.as_ref().map_or(i64::MAX, |cursor| cursor.place);
        let entries = self.of(id).iter().rev();
        let cursor = |entry: &Entry| Cursor { place: entry.number, id: entry.id.to_string() };
        page(entries.filter(|entry| entry.number < before), query, cursor)
    }

    pub fn balance(&self, id: AccountId) -> i64 {
        self.of(id).last().map_or(0, |entry| entry.balance_after)
    }

    fn referred(&self, credit: &Credit) -> Option<&Entry> {
        let reference = credit.reference.as_ref()?;
        self.of(credit.account_id).iter().find(|entry| entry.reference.as_ref() == Some(reference))
    }

    /// Writes what `due` says; nothing where that costs nothing.
    pub fn charge(&mut self, record: &Record, due: Due) -> Result<(), StoreError> {
        if due.amount == 0 {
            return Ok(());
        }
        let usage = Usage { sandbox_id: record.id, from: due.from, to: due.to };
        let kind = EntryKind::Usage;
        self.append(record.account_id, kind, -due.amount, Some(usage), None).map(|_| ())
    }

    fn append(
        &mut self,
        account_id: AccountId,
        kind: EntryKind,
        amount: i64,
        usage: Option<Usage>,
        reference: Option<String>,
    ) -> Result<Entry, StoreError> {
        let entries = self.0.entry(account_id).or_default();
        let (number, balance) =
            entries.last().map_or((0, 0), |last| (last.number, last.balance_after));
        let entry = Entry {
            id: EntryId::random()?,
            account_id,
            number: number + 1,
            kind,
            amount,
            balance_after: rules::add_up(balance, amount)?,
            usage,
            reference,
            created_at: micros(Timestamp::now()),
        };
        entries.push(entry.clone());
        Ok(entry)
    }
}
