//! `holm doctor`: which layers this host gives.

mod languages;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use holm_runtime::{Enforcement, LayerState, Pausing};
use serde::Serialize;

use languages::Found;

use super::host;
use crate::exit::{self, Failure};
use crate::output::{self, Paint};
use crate::settings::DoctorSettings;

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    /// Every mandatory layer is there.
    ok: bool,
    version: &'static str,
    mode: &'a str,
    cgroup: &'static str,
    layers: &'a [LayerState],
    pause: &'a Pausing,
    languages: Vec<Found>,
}

pub(super) fn run(settings: &DoctorSettings) -> Result<u8, Failure> {
    host::start_log(&settings.host, false)?;
    let enforcement = holm_runtime::doctor::report(&host::linux_options(&settings.host));
    if enforcement.layers.is_empty() {
        // Nothing found must not look like nothing missing.
        return Err(Failure::new("this host cannot be examined: the launcher did not start").hint(
            "set HOLM_LOG=debug; check that the data and runtime directories can be written",
        ));
    }
    let ok = enforcement.missing_mandatory().next().is_none();
    let report = Report {
        ok,
        version: env!("CARGO_PKG_VERSION"),
        mode: &enforcement.mode,
        cgroup: cgroup_version(),
        layers: &enforcement.layers,
        pause: &enforcement.pause,
        languages: languages::find(),
    };
    if settings.json {
        output::print_json(&report)?;
    } else {
        output::print(&table(&report, &enforcement, settings.paint))?;
    }
    Ok(if ok { exit::SUCCESS } else { exit::FAILURE })
}

fn table(report: &Report<'_>, enforcement: &Enforcement, paint: Paint) -> String {
    let mut text =
        format!("holm {} · mode {} · {}\n\n", report.version, report.mode, report.cgroup);
    let name = |row: &LayerState| layer_name(row);
    let wide = report.layers.iter().map(|row| name(row).chars().count()).max().unwrap_or(0);
    let mut told = Told::default();
    for row in report.layers {
        let state = match (row.enforced, row.mandatory) {
            (true, _) => paint.green("yes    "),
            (false, true) => paint.red("MISSING"),
            (false, false) => paint.yellow("no     "),
        };
        let by = told.once(&row.by, &name(row));
        text.push_str(&format!("{:wide$}  {state}  {by}\n", name(row)));
        if let Some(mend) = &row.mend {
            let mend = told.once(mend, &name(row));
            text.push_str(&format!("{:wide$}           {} {mend}\n", "", paint.cyan("mend:")));
        }
    }
    text.push_str(&pause_text(report.pause, &mut told, paint));
    text.push_str("\nLanguages of the template `host`:\n");
    for language in &report.languages {
        let found = language.interpreter().unwrap_or("not installed on this host");
        text.push_str(&format!("  {:<11} {found}\n", language.name()));
    }
    let missing = enforcement.missing_mandatory().map(name).collect::<Vec<_>>();
    text.push('\n');
    if missing.is_empty() {
        text.push_str(&paint.green("Sandboxes can be made on this host."));
    } else {
        text.push_str(&paint.red("No sandbox can be made on this host."));
        text.push_str(&format!(" Mandatory and missing: {}.", missing.join(", ")));
    }
    text.push('\n');
    text
}

/// It is no layer, so it has a line of its own.
fn pause_text(pause: &Pausing, told: &mut Told, paint: Paint) -> String {
    let name = "pausing sandboxes";
    let state = if pause.possible { paint.green("yes") } else { paint.yellow("no") };
    let mut text = format!("\n{name}: {state}, {}\n", told.once(&pause.by, name));
    if let Some(mend) = &pause.mend {
        text.push_str(&format!("  {} {}\n", paint.cyan("mend:"), told.once(mend, name)));
    }
    text
}

/// Long texts that were shown already, and at which layer.
#[derive(Default)]
struct Told(HashMap<String, String>);

impl Told {
    /// The text, or where it was shown before.
    fn once(&mut self, text: &str, layer: &str) -> String {
        /// Shorter ones are read faster than a reference to them.
        const LONG: usize = 60;
        if text.len() <= LONG {
            return text.to_owned();
        }
        match self.0.entry(text.to_owned()) {
            Entry::Occupied(shown) => format!("as for {}", shown.get()),
            Entry::Vacant(place) => {
                place.insert(layer.to_owned());
                text.to_owned()
            }
        }
    }
}

/// `own_id_range` as `own id range`.
fn layer_name(row: &LayerState) -> String {
    row.layer.to_string().replace('_', " ")
}

/// Which tree the host mounts. Which controllers a sandbox gets is in the layers.
fn cgroup_version() -> &'static str {
    /// The file system's number in `linux/magic.h`.
    const CGROUP2_SUPER_MAGIC: u32 = 0x6367_7270;
    let is_v2 = |path: &str| {
        rustix::fs::statfs(path).is_ok_and(|fs| u32::try_from(fs.f_type) == Ok(CGROUP2_SUPER_MAGIC))
    };
    if is_v2("/sys/fs/cgroup") {
        "cgroup v2"
    } else if is_v2("/sys/fs/cgroup/unified") {
        "cgroup v1 (hybrid)"
    } else if std::path::Path::new("/sys/fs/cgroup")
        .read_dir()
        .is_ok_and(|mut d| d.next().is_some())
    {
        "cgroup v1"
    } else {
        "no cgroups"
    }
}

#[cfg(test)]
mod tests {
    use holm_runtime::{Layer, Pausing};

    use super::*;

    #[test]
    fn a_long_reason_is_shown_once() {
        let long = "permission denied ".repeat(5);
        let row = |layer| LayerState {
            layer,
            enforced: false,
            mandatory: false,
            by: long.clone(),
            mend: Some(format!("{long}mended")),
        };
        let layers = vec![row(Layer::MemoryLimit), row(Layer::CpuLimit)];
        let mend = Some(format!("{long}mended"));
        let pause = Pausing { possible: false, by: "nothing".into(), mend };
        let enforcement = Enforcement { mode: "rootless".into(), layers, pause };
        let report = Report {
            ok: true,
            version: "1",
            mode: &enforcement.mode,
            cgroup: "none",
            layers: &enforcement.layers,
            pause: &enforcement.pause,
            languages: Vec::new(),
        };
        let shown = table(&report, &enforcement, Paint::none());
        assert_eq!(shown.matches(&long).count(), 2, "{shown}");
        assert!(shown.contains("cpu limit     no       as for memory limit\n"), "{shown}");
        assert!(shown.contains("mend: as for memory limit\n"), "{shown}");
        let pausing = "pausing sandboxes: no, nothing\n  mend: as for memory limit\n";
        assert!(shown.contains(pausing), "{shown}");
    }
}
