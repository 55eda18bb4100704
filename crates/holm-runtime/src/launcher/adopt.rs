//! What launchers before this one have left: sandboxes that run are taken over, everything else is
//! removed. Where sandboxes end with the owner these are launchers of the same keeper, and have left
//! it in the very instance that is ours now; in a service each had an instance of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Launcher;
use super::slot::Slot;
use crate::failure::{Attempt as _, Failure};
use crate::helper;
use crate::ids::{self, IdMap};
use crate::instance::Former;
use crate::kept::{self, Kept};
use crate::message::Event;
use crate::sys;

impl Launcher<'_> {
    /// Takes over what runs, begins to remove the rest, and tells the owner what there is.
    pub(super) fn take_over(&mut self) -> Result<(), Failure> {
        for number in 0..self.host.former.len() {
            let Some(former) = self.host.former[number].take() else { continue };
            let mut names = BTreeSet::new();
            let kept = kept::all(&former.kept_dir()).tried("read what is kept of sandboxes")?;
            for (path, kept) in kept {
                match (name_of(&path), kept) {
                    (Some(name), Some(kept)) => {
                        names.insert(name.clone());
                        self.take_over_one(Some(number), name, path, kept)?;
                    }
                    // Half written, or of another form: removed with what has no record.
                    _ => drop(std::fs::remove_file(&path)),
                }
            }
            if !former.remove_others(&names) {
                remove_later(&former, names);
            }
            self.host.former[number] = Some(former);
            self.leave_former(number);
        }
        self.take_over_own()?;
        self.tell(&Event::FoundAll);
        Ok(())
    }

    fn take_over_own(&mut self) -> Result<(), Failure> {
        let kept = kept::all(&self.host.instance.kept_dir).tried("read what is kept")?;
        // No new one may have the name of one that is there.
        let numbers = kept.iter().filter_map(|(path, _)| number_of(path));
        self.next_slot = numbers.map(|number| number + 1).fold(self.next_slot, u64::max);
        for (path, kept) in kept {
            match (name_of(&path), kept) {
                (Some(name), Some(kept)) => self.take_over_one(None, name, path, kept)?,
                // Half written, so nothing was made on it.
                _ => drop(std::fs::remove_file(&path)),
            }
        }
        Ok(())
    }

    fn take_over_one(
        &mut self,
        former: Option<usize>,
        name: String,
        path: PathBuf,
        kept: Kept,
    ) -> Result<(), Failure> {
        let process = kept.init.filter(|_| kept.is_of_this_boot());
        let init = process.and_then(kept::Init::open).filter(|init| !sys::process::is_gone(init));
        let ids_are_ours = match kept.ids {
            IdMap::Range { start } => {
                self.host.ranges.take_over(ids::LOCK_DIR.as_ref(), start).is_ok()
            }
            IdMap::Subordinate { .. } | IdMap::Single { .. } => false,
        };
        let mut slot = Slot::kept(name, path, kept, init);
        if !ids_are_ours {
            // Whose ids somebody else has by now goes on all the same, but has none to give back.
            slot.range = None;
        }
        slot.former = former;
        self.host.use_cpus(&slot.cpus);
        let number = self.next_slot;
        self.next_slot += 1;
        if let Some(init) = &slot.init {
            self.host.watch(init, number)?;
        }
        if !self.host.settings.lifetime.outlives_owner() {
            self.unclaimed.push(number);
        } else if let Some(sandbox) = slot.created() {
            self.tell(&Event::Found(sandbox));
        } else {
            // Nobody's, dead, or never finished.
            if let Some(id) = slot.sandbox() {
                let out_of_memory = slot.was_out_of_memory();
                self.tell(&Event::Exited { id: id.to_owned(), out_of_memory });
            }
            slot.end(None);
        }
        self.slots.insert(number, slot);
        Ok(())
    }

    /// Removes an earlier launcher's instance once nothing belongs to it any more.
    pub(super) fn leave_former(&mut self, number: usize) {
        // Those that were let go are not among ours any more; the next launcher removes it.
        if self.host.keeps {
            return;
        }
        if self.slots.values().any(|slot| slot.former == Some(number)) {
            return;
        }
        if let Some(former) = self.host.former.get_mut(number).and_then(Option::take) {
            former.remove();
        }
    }

    /// The owner has this one of what was found.
    pub(super) fn claim_found(&mut self, id: String, socket: &Path) {
        let ours = |number: &u64| self.slots.get(number).is_some_and(|slot| slot.socket == socket);
        let found = self.unclaimed.iter().position(ours).map(|at| self.unclaimed.remove(at));
        let slot = found.and_then(|number| self.slots.get_mut(&number));
        let out_of_memory = slot.as_ref().is_some_and(|slot| slot.was_out_of_memory());
        match slot {
            Some(slot) if slot.running && !slot.ending => slot.take_owner(id),
            other => {
                if let Some(slot) = other {
                    slot.end(None);
                }
                self.tell(&Event::Exited { id, out_of_memory });
            }
        }
    }

    /// What is left of it is nobody's: a blank, or one that nobody waits for any more.
    pub(super) fn end_unclaimed(&mut self) {
        for number in std::mem::take(&mut self.unclaimed) {
            if let Some(slot) = self.slots.get_mut(&number) {
                slot.end(None);
            }
        }
    }

    /// What the owner has made goes on without us.
    pub(super) fn let_go(&mut self) {
        let count = self.slots.len();
        self.slots.retain(|_, slot| !slot.is_kept());
        self.host.keeps |= self.slots.len() < count;
    }
}

fn name_of(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

fn number_of(path: &Path) -> Option<u64> {
    name_of(path)?.strip_prefix(super::start::NAME)?.parse().ok()
}

/// Processes without a record need a moment to go. What this leaves, the next start removes.
fn remove_later(former: &Former, names: BTreeSet<String>) {
    let _ = helper::start(c"holm-sweep", &[], || {
        for _ in 0..1000 {
            if former.remove_others(&names) {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Err(Failure::internal("what has no record does not end"))
    });
}
