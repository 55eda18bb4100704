//! Snapshots: templates that belong to somebody, and are seen by nobody else. Their layers are those of
//! the template that a sandbox was made from, and what it has written.

use super::{LayerLock, Library};
use crate::error::{Result, TemplateError, TemplateErrorKind};
use crate::id::LayerId;
use crate::library::Held;
use crate::template::{self, MAX_LAYERS, Template, TemplateConfig};

/// Between owner and name, in a file's name. No name has it.
const MARK: char = '@';
/// How names begin that no caller can give.
const HIDDEN: char = '.';

/// A layer that was written, and stays while this lives.
#[derive(Debug)]
pub struct Written {
    pub(crate) lock: LayerLock,
}

impl Written {
    /// The layer.
    #[must_use]
    pub fn id(&self) -> &LayerId {
        &self.lock.id
    }

    /// Bytes of its files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lock.bytes
    }
}

/// What is to become a snapshot.
#[derive(Debug, Clone)]
pub struct NewSnapshot {
    /// Whose it is: lower-case letters, digits and `_`.
    pub owner: String,
    /// Its name: as a template's. One that begins with a dot is not listed.
    pub name: String,
    /// Layers below what was written, the lowest one first.
    pub layers: Vec<LayerId>,
    /// These lie over the host's own programs.
    pub on_host: bool,
    /// How programs start in it.
    pub config: TemplateConfig,
    /// Where it is from, for people.
    pub source: String,
}

impl NewSnapshot {
    /// Checks what can be checked before anything is written.
    ///
    /// # Errors
    /// When it cannot have that name, or no further layer.
    pub fn check(&self) -> Result<()> {
        if self.layers.len() >= MAX_LAYERS {
            let text = format!(
                "what the sandbox was made from has {} layers already, and there cannot be more; \
                 begin anew from a template with fewer",
                self.layers.len()
            );
            return Err(TemplateError::new(TemplateErrorKind::TooLarge, text));
        }
        file(&self.owner, &self.name).map(drop)
    }
}

impl Library {
    /// Records a snapshot on top of `written`, for good, and holds it. None when its owner has one of that
    /// name.
    ///
    /// # Errors
    /// When a layer below is not there any more, or it cannot be recorded.
    pub fn snapshot_record(
        &self,
        snapshot: &NewSnapshot,
        written: Written,
    ) -> Result<Option<Held>> {
        snapshot.check()?;
        let file = file(&snapshot.owner, &snapshot.name)?;
        let mut locks = Vec::new();
        for id in &snapshot.layers {
            let text = "a layer of the sandbox's template is not there any more";
            let missing = || TemplateError::new(TemplateErrorKind::Damaged, text);
            locks.push(self.layer(id)?.ok_or_else(missing)?);
        }
        let mut layers = snapshot.layers.clone();
        layers.push(written.id().clone());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let template = Template {
            name: snapshot.name.clone(),
            layers,
            config: snapshot.config.clone(),
            source: snapshot.source.clone(),
            bytes: locks.iter().map(|lock| lock.bytes).sum::<u64>() + written.bytes(),
            created: now.map_or(0, |now| now.as_secs()),
            on_host: snapshot.on_host,
            written: Some(written.bytes()),
        };
        // Renamed into its place, while all of its layers are held.
        let Some(record) = self.write_record(&template, &file, false)? else {
            drop(locks);
            self.discard(written)?;
            return Ok(None);
        };
        locks.push(written.lock);
        Ok(Some(Held::recorded(template, record, locks)))
    }

    /// Those of one owner, by name, without those that are not to be seen.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn snapshots(&self, owner: &str) -> Result<Vec<Template>> {
        let mut all = Vec::new();
        for file in self.record_names()? {
            match file.split_once(MARK) {
                Some((whose, name)) if whose == owner && !name.starts_with(HIDDEN) => {
                    // One that goes meanwhile is not there.
                    all.extend(self.get_record(&file, name)?);
                }
                _ => {}
            }
        }
        Ok(all)
    }

    /// Holds one and its layers, also one that is not listed.
    ///
    /// # Errors
    /// As [`Library::hold`].
    pub fn snapshot_hold(&self, owner: &str, name: &str) -> Result<Option<Held>> {
        match file(owner, name) {
            Ok(file) => self.hold_record(&file, name),
            Err(_) => Ok(None),
        }
    }

    /// Removes one, and of its layers those that nothing else needs. False when there is none.
    ///
    /// # Errors
    /// When it is held.
    pub fn snapshot_remove(&self, owner: &str, name: &str) -> Result<bool> {
        let Ok(file) = file(owner, name) else { return Ok(false) };
        let Some(template) = self.get_record(&file, name)? else { return Ok(false) };
        if !self.remove_record(&file, &format!("the snapshot `{name}`"))? {
            return Ok(false);
        }
        self.free(&template.layers)?;
        Ok(true)
    }

    /// Removes those that are not listed and that nobody holds: of one owner, or of all.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn snapshot_sweep(&self, owner: Option<&str>) -> Result<u64> {
        let mut count = 0;
        for file in self.record_names()? {
            let Some((whose, name)) = file.split_once(MARK) else { continue };
            if name.starts_with(HIDDEN) && owner.is_none_or(|owner| owner == whose) {
                // One that is in use stays.
                count += u64::from(self.snapshot_remove(whose, name).unwrap_or(false));
            }
        }
        Ok(count)
    }
}

/// The name of its record.
fn file(owner: &str, name: &str) -> Result<String> {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    if owner.is_empty() || owner.len() > 63 || !owner.bytes().all(plain) {
        return Err(TemplateError::internal("an owner that cannot have snapshots"));
    }
    template::check_name(name.strip_prefix(HIDDEN).unwrap_or(name))?;
    Ok(format!("{owner}{MARK}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_reaches_anothers() {
        assert_eq!(file("acc_1", "web").unwrap(), "acc_1@web");
        assert_eq!(file("acc_1", ".fork").unwrap(), "acc_1@.fork");
        for (owner, name) in [
            ("acc_1", "../x"),
            ("acc_1", "a@b"),
            ("acc_1", "..x"),
            ("acc_1", ""),
            ("acc_1", "."),
            ("acc_1", "host"),
            ("acc_1", "A"),
            ("", "a"),
            ("a@b", "a"),
            ("../a", "a"),
        ] {
            assert!(file(owner, name).is_err(), "{owner} {name}");
        }
    }
}
