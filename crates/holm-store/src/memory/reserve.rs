//! Taking a place for a create.

use super::{Tables, micros};
use crate::{
    AccountId, IDEMPOTENCY_LIFE, Idempotency, Record, Reservation, Reserved, StoreError, Traffic,
    rules,
};

impl Tables {
    pub(super) fn sandbox_reserve(&mut self, wanted: Reservation) -> Result<Reserved, StoreError> {
        let record = wanted.record;
        rules::may_reserve(&record)?;
        rules::texts([&*record.template])?;
        rules::texts(record.name.as_deref().into_iter().chain(record.session.as_deref()))?;
        rules::texts(wanted.idempotency.iter().map(|idempotency| &*idempotency.key))?;
        let account = self.accounts.get(record.account_id)?;
        if account.disabled_at.is_some() {
            return Err(StoreError::AccountDisabled { id: account.id });
        }
        let limit = account.limits.max_sandboxes.unwrap_or(wanted.account_limit);
        if let Some(key) = record.key_id {
            self.keys.check_usable(record.account_id, key, record.created_at)?;
        }
        if let Some(idempotency) = &wanted.idempotency {
            self.sandboxes.forget_old_keys(record.account_id, record.created_at);
            if let Some(before) = self.made_before(record.account_id, idempotency)? {
                return Ok(Reserved::Existing(before));
            }
        }
        if !self.nodes.contains_key(&record.node_id) {
            return Err(StoreError::unknown("node", &record.node_id));
        }
        if self.sandboxes.alive_of(record.account_id) >= u64::from(limit) {
            return Err(StoreError::AccountFull { limit });
        }
        if self.sandboxes.alive_at(record.node_id) >= u64::from(wanted.node_limit) {
            return Err(StoreError::NodeFull { limit: wanted.node_limit });
        }
        if record.price_per_second > 0 {
            let balance = self.ledger.balance(record.account_id);
            if balance <= 0 {
                return Err(StoreError::BalanceEmpty { balance });
            }
        }
        if self.sandboxes.find(record.id).is_some() {
            return Err(StoreError::exists("sandbox", &record.id));
        }
        self.check_events(&wanted.events)?;
        let record = stored(record);
        if let Some(idempotency) = wanted.idempotency {
            let until = record.created_at.checked_add(IDEMPOTENCY_LIFE);
            let until = until.unwrap_or(jiff::Timestamp::MAX);
            self.sandboxes.remember_key(&record, idempotency, until);
        }
        self.sandboxes.add(record.clone());
        self.outbox.add_all(wanted.events);
        Ok(Reserved::New(record))
    }

    fn made_before(
        &self,
        account: AccountId,
        idempotency: &Idempotency,
    ) -> Result<Option<Record>, StoreError> {
        let Some((fingerprint, id)) = self.sandboxes.made_with(account, &idempotency.key) else {
            return Ok(None);
        };
        if *fingerprint != idempotency.fingerprint {
            return Err(StoreError::IdempotencyReused { key: idempotency.key.clone() });
        }
        self.sandboxes.get(id).cloned().map(Some)
    }
}

/// The record as a database would have it.
fn stored(mut record: Record) -> Record {
    record.created_at = micros(record.created_at);
    record.expires_at = record.expires_at.map(micros);
    record.metered_until = None;
    record.traffic = Traffic::default();
    record.version = 1;
    record
}
