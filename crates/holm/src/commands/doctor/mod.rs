//! `holm doctor`: which layers this host gives.

mod languages;

use holm_runtime::{Enforcement, LayerState};
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
    for row in report.layers {
        let state = match (row.enforced, row.mandatory) {
            (true, _) => paint.green("yes    "),
            (false, true) => paint.red("MISSING"),
            (false, false) => paint.yellow("no     "),
        };
        text.push_str(&format!("{:wide$}  {state}  {}\n", name(row), row.by));
        if let Some(mend) = &row.mend {
            text.push_str(&format!("{:wide$}           {} {mend}\n", "", paint.cyan("mend:")));
        }
    }
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

/// `OwnIdRange` as `own id range`: the serialized name is the one list of names.
fn layer_name(row: &LayerState) -> String {
    match serde_json::to_value(row.layer) {
        Ok(serde_json::Value::String(name)) => name.replace('_', " "),
        _ => format!("{:?}", row.layer),
    }
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
