//! Ports.

use std::collections::BTreeMap;

use super::{Tables, micros};
use crate::{Event, PORTS_MAX, Port, SandboxId, StoreError};

#[derive(Default)]
pub(super) struct Table(BTreeMap<(SandboxId, u16), Port>);

impl Tables {
    pub(super) fn port_put(&mut self, port: Port, events: Vec<Event>) -> Result<Port, StoreError> {
        self.sandboxes.get(port.sandbox_id)?;
        self.check_events(&events)?;
        // Of sandboxes that are not remembered any more nothing stays here either.
        let sandboxes = &self.sandboxes;
        self.ports.0.retain(|(id, _), _| sandboxes.find(*id).is_some());
        let port = self.ports.put(port)?;
        self.outbox.add_all(events);
        Ok(port)
    }

    pub(super) fn port_remove(
        &mut self,
        id: SandboxId,
        number: u16,
        events: Vec<Event>,
    ) -> Result<bool, StoreError> {
        self.check_events(&events)?;
        let removed = self.ports.0.remove(&(id, number)).is_some();
        if removed {
            self.outbox.add_all(events);
        }
        Ok(removed)
    }
}

impl Table {
    fn put(&mut self, port: Port) -> Result<Port, StoreError> {
        let key = (port.sandbox_id, port.port);
        if let Some(there) = self.0.get_mut(&key) {
            there.public = port.public;
            there.extend_lease = port.extend_lease;
            return Ok(there.clone());
        }
        if self.list(port.sandbox_id).len() >= PORTS_MAX as usize {
            return Err(StoreError::PortsFull { limit: PORTS_MAX });
        }
        let port = Port { created_at: micros(port.created_at), ..port };
        self.0.insert(key, port.clone());
        Ok(port)
    }

    pub fn list(&self, id: SandboxId) -> Vec<Port> {
        self.0.range((id, 0)..=(id, u16::MAX)).map(|(_, port)| port.clone()).collect()
    }
}
