//! Languages of `code_run`: their names, and how each is started.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::Error;

/// A language.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Language {
    #[default]
    Python,
    Javascript,
    Typescript,
    Bash,
    R,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Python, Self::Javascript, Self::Typescript, Self::Bash, Self::R];

    /// Its stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Javascript => "javascript",
            Self::Typescript => "typescript",
            Self::Bash => "bash",
            Self::R => "r",
        }
    }

    /// Other names that are read for it.
    #[must_use]
    pub fn aliases(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["python3", "py"],
            Self::Javascript => &["js", "node"],
            Self::Typescript => &["ts"],
            Self::Bash => &["shell", "sh"],
            Self::R => &["R"],
        }
    }

    /// Ways to start it, best first.
    pub(crate) fn runners(self) -> &'static [Runner] {
        const PYTHON: &[Runner] = &[Runner::new("python3", &[])];
        const JAVASCRIPT: &[Runner] = &[Runner::new("node", &[])];
        const TYPESCRIPT: &[Runner] = &[
            Runner::new("deno", &["run", "--allow-all", "--quiet"]),
            Runner::new("bun", &["run"]),
            Runner::new("tsx", &[]),
            Runner::new("ts-node", &[]),
            Runner::new(STRIPPING_NODE, &["--experimental-strip-types", "--no-warnings"]),
        ];
        const BASH: &[Runner] = &[Runner::new("bash", &[]), Runner::new("sh", &[])];
        const R: &[Runner] = &[Runner::new("Rscript", &[])];
        match self {
            Self::Python => PYTHON,
            Self::Javascript => JAVASCRIPT,
            Self::Typescript => TYPESCRIPT,
            Self::Bash => BASH,
            Self::R => R,
        }
    }

    /// Name of the file that holds `code`.
    pub(crate) fn file_name(self, code: &str) -> &'static str {
        match self {
            Self::Python => "main.py",
            Self::Javascript if is_es_module(code) => "main.mjs",
            Self::Javascript => "main.js",
            Self::Typescript => "main.ts",
            Self::Bash => "main.sh",
            Self::R => "main.R",
        }
    }

    /// The variable that lets code in a private directory find modules of the working directory.
    pub(crate) fn module_path(self, cwd: &str) -> Option<(&'static str, String)> {
        match self {
            Self::Python => Some(("PYTHONPATH", cwd.to_owned())),
            Self::Javascript | Self::Typescript => {
                Some(("NODE_PATH", format!("{cwd}/node_modules:{cwd}")))
            }
            Self::Bash | Self::R => None,
        }
    }
}

/// Stands for a node that can strip types (22.6 or later) in what a sandbox says it has.
pub(crate) const STRIPPING_NODE: &str = "node-strip-types";

/// One way to start a program of a language.
#[derive(Debug)]
pub(crate) struct Runner {
    /// Name under which a sandbox says that it has it.
    pub has: &'static str,
    arguments: &'static [&'static str],
}

impl Runner {
    const fn new(has: &'static str, arguments: &'static [&'static str]) -> Self {
        Self { has, arguments }
    }

    /// What it needs, for people.
    pub fn text(&self) -> &'static str {
        if self.has == STRIPPING_NODE { "node 22.6 or later" } else { self.has }
    }

    /// The command line for a script at `path`.
    pub fn argv(&self, path: &str) -> Vec<String> {
        let program = if self.has == STRIPPING_NODE { "node" } else { self.has };
        let words = std::iter::once(program).chain(self.arguments.iter().copied());
        words.chain(std::iter::once(path)).map(str::to_owned).collect()
    }
}

/// A line for `sh -c` that prints which of the names in [`Runner::has`] are there. Whether node
/// strips types costs a start of node, so only TypeScript asks for it.
pub(crate) fn probe_line(language: Language) -> String {
    let mut names: Vec<&str> = Language::ALL
        .iter()
        .flat_map(|language| language.runners())
        .map(|runner| runner.has)
        .filter(|name| *name != STRIPPING_NODE)
        .collect();
    names.sort_unstable();
    names.dedup();
    let strips = match language {
        Language::Typescript => {
            format!(
                "node --experimental-strip-types -e 0 >/dev/null 2>&1 && echo {STRIPPING_NODE}; "
            )
        }
        _ => String::new(),
    };
    let names = names.join(" ");
    format!("for n in {names}; do command -v $n >/dev/null 2>&1 && echo $n; done; {strips}:")
}

/// Whether JavaScript needs the module form: it imports, exports or awaits at the top and does
/// not use `require`. Older nodes cannot find out by themselves.
fn is_es_module(code: &str) -> bool {
    let top = ["import ", "import{", "import\"", "import'", "export ", "await "];
    !code.contains("require(")
        && code.lines().any(|line| top.iter().any(|word| line.starts_with(word)))
}

impl fmt::Display for Language {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl FromStr for Language {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let named = |l: &Self| l.as_str() == text || l.aliases().contains(&text);
        Self::ALL.into_iter().find(named).ok_or_else(|| {
            Error::invalid(format!(
                "language must be python, javascript, typescript, bash (or shell) or r, not {:?}",
                crate::text::shorten(text, 40)
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_alias_is_read() {
        for language in Language::ALL {
            assert_eq!(language.as_str().parse::<Language>().unwrap(), language);
            assert_eq!(serde_json::to_value(language).unwrap(), language.as_str());
            for alias in language.aliases() {
                assert_eq!(alias.parse::<Language>().unwrap(), language);
            }
        }
        for bad in ["", "Python", "cobol", "python\0"] {
            let error = bad.parse::<Language>().unwrap_err();
            assert!(error.public.contains("typescript"), "{bad:?}");
        }
    }

    #[test]
    fn module_syntax_is_seen_and_require_wins() {
        for (code, want) in [
            ("import fs from 'fs'\n", true),
            ("const x = 1\nexport const y = x\n", true),
            ("await 1\n", true),
            ("const fs = require('fs')\n", false),
            ("// import me\nconsole.log(1)", false),
            ("  import('x')", false),
        ] {
            assert_eq!(is_es_module(code), want, "{code:?}");
        }
    }

    #[test]
    fn runners_are_complete_command_lines() {
        let runners = Language::Typescript.runners();
        let last = runners.last().unwrap();
        let want = ["node", "--experimental-strip-types", "--no-warnings", "/x/main.ts"];
        assert_eq!(last.argv("/x/main.ts"), want);
        assert!(probe_line(Language::Python).contains("Rscript"));
        assert!(!probe_line(Language::Python).contains(STRIPPING_NODE));
        assert!(probe_line(Language::Typescript).contains(STRIPPING_NODE));
    }
}
