//! Sizes: how much of the host a sandbox may use.

use holm_runtime::Shape;
use holm_store::{Size, SizeName};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The size of that name.
fn read_name(text: &str) -> Result<SizeName, Error> {
    SizeName::read(text).ok_or_else(|| {
        Error::invalid(format!(
            "size must be small, medium or large, not {:?}",
            crate::text::shorten(text, 40)
        ))
    })
}

/// A size as the driver has it.
pub(crate) fn shape(size: &Size) -> Shape {
    Shape {
        vcpus: size.vcpus,
        memory_bytes: size.memory_bytes(),
        disk_bytes: size.disk_bytes(),
        disk_inodes: size.disk_inodes,
        max_processes: size.max_processes,
    }
}

/// The three sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Sizes {
    pub small: Size,
    pub medium: Size,
    pub large: Size,
}

impl Default for Sizes {
    fn default() -> Self {
        let size = |vcpus: u32, memory_gb: u64, disk_gb: u64| Size {
            vcpus,
            memory_mb: memory_gb << 10,
            disk_mb: disk_gb << 10,
            disk_inodes: disk_gb << 16,
            max_processes: 512 * u64::from(vcpus),
        };
        Self { small: size(2, 4, 8), medium: size(4, 8, 16), large: size(8, 16, 32) }
    }
}

/// What the host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostCapacity {
    /// Processors that this process may use.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
}

impl HostCapacity {
    /// Asks the system.
    #[must_use]
    pub fn detect() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let info = rustix::system::sysinfo();
        let memory = info.totalram.saturating_mul(u64::from(info.mem_unit.max(1)));
        Self { cpus: u32::try_from(cpus).unwrap_or(u32::MAX), memory_bytes: memory }
    }

    /// Memory in MiB, rounded up to a whole GiB: a "4 GiB" machine reports a little less than
    /// 4 GiB, because the kernel keeps some, and still counts as one.
    #[must_use]
    pub fn memory_mb(&self) -> u64 {
        self.memory_bytes.div_ceil(1 << 30) << 10
    }
}

/// A size that was chosen for a sandbox on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    /// Its name.
    pub name: SizeName,
    /// Its numbers, processors already clamped to the host's.
    pub given: Size,
    /// Processors before they were clamped.
    pub vcpus_asked: u32,
}

impl Sizes {
    /// The numbers of `name`.
    #[must_use]
    pub fn get(&self, name: SizeName) -> Size {
        match name {
            SizeName::Small => self.small,
            SizeName::Medium => self.medium,
            SizeName::Large => self.large,
        }
    }

    /// All of them, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = (SizeName, Size)> + '_ {
        SizeName::ALL.into_iter().map(|name| (name, self.get(name)))
    }

    /// Chooses: the named size; else the smallest that has `cpu` processors and `memory_mb`; else
    /// small. Processors beyond the host's are clamped, memory beyond the host's is refused.
    ///
    /// # Errors
    /// When no size fits what was asked, or the host has less memory.
    pub fn choose(
        &self,
        name: Option<&str>,
        cpu: Option<u32>,
        memory_mb: Option<u64>,
        host: &HostCapacity,
    ) -> Result<Chosen, Error> {
        if cpu == Some(0) || memory_mb == Some(0) {
            return Err(Error::invalid("cpu and memory must be above 0"));
        }
        let enough = |size: &Size| {
            size.vcpus >= cpu.unwrap_or(0) && size.memory_mb >= memory_mb.unwrap_or(0)
        };
        let name = match name {
            Some(name) => {
                let name = read_name(name)?;
                if !enough(&self.get(name)) {
                    return Err(Error::invalid(format!(
                        "size {name} has less than the cpu or memory that was asked for; the sizes \
                         are {}",
                        self.describe(|_| true)
                    ))
                    .suggest("Give either size, or cpu and memory."));
                }
                name
            }
            None => self.iter().find(|(_, size)| enough(size)).map(|(name, _)| name).ok_or_else(
                || {
                    Error::invalid(format!(
                        "no size has {} processors and {} MiB of memory; the sizes are {}",
                        cpu.unwrap_or(0),
                        memory_mb.unwrap_or(0),
                        self.describe(|_| true)
                    ))
                },
            )?,
        };
        let mut given = self.get(name);
        let there = host.memory_mb();
        if given.memory_mb > there {
            let fitting = self.describe(|size| size.memory_mb <= there);
            let fitting = if fitting.is_empty() { "none".to_owned() } else { fitting };
            return Err(Error::invalid(format!(
                "size {name} needs {} MiB of memory and this host has {there} MiB; sizes that fit: \
                 {fitting}",
                given.memory_mb
            ))
            .suggest("Choose a size that fits, or set smaller sizes in the settings of holm."));
        }
        let vcpus_asked = given.vcpus;
        given.vcpus = vcpus_asked.clamp(1, host.cpus.max(1));
        Ok(Chosen { name, given, vcpus_asked })
    }

    fn describe(&self, wanted: impl Fn(&Size) -> bool) -> String {
        let texts: Vec<String> = self
            .iter()
            .filter(|(_, size)| wanted(size))
            .map(|(name, size)| format!("{name} ({} vCPU, {} MiB)", size.vcpus, size.memory_mb))
            .collect();
        texts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: HostCapacity = HostCapacity { cpus: 4, memory_bytes: (7 << 30) + (900 << 20) };

    fn check(
        name: Option<&str>,
        cpu: Option<u32>,
        memory: Option<u64>,
        want: Result<(&str, u32), &str>,
    ) {
        let got = Sizes::default().choose(name, cpu, memory, &HOST);
        match (got, want) {
            (Ok(chosen), Ok(want)) => {
                assert_eq!((chosen.name.as_str(), chosen.given.vcpus), want);
            }
            (Err(error), Err(part)) => {
                assert!(error.public.contains(part), "{} lacks {part}", error.public);
            }
            (got, want) => panic!("{name:?} {cpu:?} {memory:?}: {got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn sizes_are_named_or_the_smallest_that_fits() {
        check(None, None, None, Ok(("small", 2)));
        check(Some("medium"), None, None, Ok(("medium", 4)));
        check(None, Some(1), Some(1), Ok(("small", 2)));
        check(None, Some(3), None, Ok(("medium", 4)));
        check(None, None, Some(4097), Ok(("medium", 4)));
        check(Some("medium"), Some(4), Some(8192), Ok(("medium", 4)));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_does() {
        check(Some("large"), None, None, Err("sizes that fit: small (2 vCPU, 4096 MiB), medium"));
        check(None, Some(64), None, Err("no size has 64 processors"));
        check(Some("small"), Some(4), None, Err("size small has less"));
        check(Some("Small"), None, None, Err("small, medium or large"));
        check(None, Some(0), None, Err("above 0"));
    }

    #[test]
    fn processors_are_clamped_and_both_numbers_kept() {
        let host = HostCapacity { cpus: 2, memory_bytes: 64 << 30 };
        let chosen = Sizes::default().choose(Some("large"), None, None, &host).unwrap();
        assert_eq!((chosen.vcpus_asked, chosen.given.vcpus), (8, 2));
    }
}
