//! Audit events: the last ones.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::micros;
use super::page::{is_after, page};
use crate::{AuditEvent, Cursor, Owner, Page, PageQuery, StoreError, rules};

#[derive(Default)]
pub(super) struct Table {
    most: usize,
    events: VecDeque<AuditEvent>,
}

impl Table {
    pub fn new(most: usize) -> Self {
        Self { most, events: VecDeque::new() }
    }

    pub fn add(&mut self, mut event: AuditEvent) -> Result<(), StoreError> {
        rules::detail_text(&event)?;
        rules::texts([&*event.action])?;
        rules::texts(event.target.as_deref())?;
        event.at = micros(event.at);
        // Ids are random: one that is there already is the same event sent again, a moment ago.
        if self.events.iter().rev().take(64).any(|other| other.id == event.id) {
            return Err(StoreError::exists("audit event", &event.id));
        }
        self.events.push_back(event);
        while self.events.len() > self.most {
            self.events.pop_front();
        }
        Ok(())
    }

    pub fn list(&self, owner: Owner, query: &PageQuery) -> Page<AuditEvent> {
        let own = |event: &AuditEvent| match event.account_id {
            Some(account) => owner.sees(account),
            None => owner == Owner::Any,
        };
        let wanted = |event: &&AuditEvent| own(event) && is_after(query, event.at, &event.id);
        let mut found: Vec<&AuditEvent> = self.events.iter().filter(wanted).collect();
        found.sort_unstable_by_key(|event| Reverse((event.at, event.id)));
        page(found.into_iter(), query, |event| Cursor::at(event.at, &event.id))
    }
}
