//! Landlock rule sets, kept between commands.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use crate::sys::landlock;

/// What a rule set depends on: when `/` got or lost an entry.
type Key = (u64, i64, i64);

/// The rule sets made so far.
#[derive(Debug, Default)]
pub struct Rulesets {
    user: RefCell<Option<(Key, Rc<OwnedFd>)>>,
    root: RefCell<Option<(Key, Rc<OwnedFd>)>>,
}

fn key() -> Option<Key> {
    let facts = rustix::fs::stat("/").ok()?;
    Some((facts.st_ino, facts.st_mtime, facts.st_mtime_nsec as i64))
}

impl Rulesets {
    /// The rule set for commands of a user; made anew when the top level has changed.
    pub fn get(&self, level: u32, root: bool) -> std::io::Result<Option<Rc<OwnedFd>>> {
        if level == 0 {
            return Ok(None);
        }
        let slot = if root { &self.root } else { &self.user };
        let key = key();
        if let Some((made_for, ruleset)) = &*slot.borrow()
            && Some(*made_for) == key
        {
            return Ok(Some(Rc::clone(ruleset)));
        }
        let made = if root { landlock::for_root() } else { landlock::for_user(level) };
        let ruleset = Rc::new(made?);
        if let Some(key) = key {
            slot.replace(Some((key, Rc::clone(&ruleset))));
        }
        Ok(Some(ruleset))
    }
}
