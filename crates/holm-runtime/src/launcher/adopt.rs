//! What launchers before this one have left: sandboxes that run are taken over, everything else is
//! removed. Only in a service, where sandboxes outlive launchers.

use std::collections::BTreeSet;
use std::path::Path;

use super::slot::Slot;
use super::{Launcher, watch};
use crate::failure::{Attempt as _, Failure};
use crate::helper;
use crate::ids::{self, IdMap};
use crate::instance::Former;
use crate::kept::{self, Kept};
use crate::message::{Created, Event};

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
                        self.take_over_one(number, name, &path, kept)?;
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
        self.tell(&Event::FoundAll);
        Ok(())
    }

    fn take_over_one(
        &mut self,
        former: usize,
        name: String,
        path: &Path,
        kept: Kept,
    ) -> Result<(), Failure> {
        let process = kept.init.filter(|_| kept.is_of_this_boot());
        let init = process.and_then(kept::Init::open).filter(|init| !watch::is_gone(init));
        let ids_are_ours = match kept.ids {
            IdMap::Range { start } => {
                self.host.ranges.take_over(ids::LOCK_DIR.as_ref(), start).is_ok()
            }
            IdMap::Subordinate { .. } | IdMap::Single { .. } => false,
        };
        let mut slot = Slot::kept(name, kept, init);
        if !ids_are_ours {
            // Whose ids somebody else has by now goes on all the same, but has none to give back.
            slot.range = None;
        }
        slot.former = Some(former);
        slot.record = Some(path.to_owned());
        self.host.use_cpus(&slot.cpus);
        let number = self.next_slot;
        self.next_slot += 1;
        if let Some(init) = &slot.init {
            self.host.watch(init, number)?;
        }
        match (slot.init_pid, slot.sandbox(), slot.socket.clone()) {
            (Some(pid), Some(id), Some(socket)) => {
                let sandbox = Created {
                    id: id.to_owned(),
                    pid: pid.unsigned_abs(),
                    socket,
                    cgroup: slot.group.clone(),
                };
                self.tell(&Event::Found(sandbox));
            }
            // Nobody's, dead, or never finished.
            (_, id, _) => {
                if let Some(id) = id {
                    let out_of_memory = slot.was_out_of_memory();
                    self.tell(&Event::Exited { id: id.to_owned(), out_of_memory });
                }
                slot.end(None);
            }
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

    /// The owner is gone: what it has made goes on, the rest ends.
    pub(super) fn let_go(&mut self) {
        self.closing = true;
        let count = self.slots.len();
        self.slots.retain(|_, slot| !slot.is_kept());
        self.host.keeps |= self.slots.len() < count;
        self.slots.values_mut().for_each(|slot| slot.end(None));
    }
}

fn name_of(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
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
