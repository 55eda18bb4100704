//! Which languages the built-in template `host` can run: it shows this host's own programs.

use holm_engine::Language;
use serde::Serialize;

/// One language.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    /// Its name in `run_code`.
    name: &'static str,
    /// Where its interpreter is; `null` when there is none.
    interpreter: Option<String>,
}

impl Found {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn interpreter(&self) -> Option<&str> {
        self.interpreter.as_deref()
    }
}

/// The directories of the `PATH` inside that come from the host.
const DIRECTORIES: [&str; 2] = ["/usr/local/bin", "/usr/bin"];

/// All languages, found or not.
pub(super) fn find() -> Vec<Found> {
    let found = |language: Language| Found {
        name: language.as_str(),
        interpreter: programs(language).iter().find_map(|program| locate(program)),
    };
    Language::ALL.into_iter().map(found).collect()
}

fn programs(language: Language) -> &'static [&'static str] {
    match language {
        Language::Python => &["python3"],
        Language::Javascript => &["node"],
        Language::Typescript => &["deno", "bun", "tsx", "ts-node"],
        Language::Bash => &["bash", "sh"],
        Language::R => &["Rscript"],
    }
}

fn locate(program: &str) -> Option<String> {
    DIRECTORIES
        .iter()
        .map(|directory| format!("{directory}/{program}"))
        .find(|path| rustix::fs::access(path.as_str(), rustix::fs::Access::EXEC_OK).is_ok())
}
