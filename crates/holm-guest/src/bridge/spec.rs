//! Which kernels there are: Jupyter's specifications, as they lie in this sandbox.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Where environments with kernels are, one directory each.
const ENVIRONMENTS: &str = "/opt/holm/kernels";
/// Most bytes of one specification, and most of them that are looked at.
const MOST_BYTES: u64 = 64 << 10;
const MOST_SPECS: usize = 64;

/// A kernel's specification.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// The name of its directory.
    #[serde(skip)]
    pub name: String,
    /// Its directory.
    #[serde(skip)]
    pub directory: PathBuf,
    /// The environment whose it is.
    #[serde(skip)]
    pub prefix: PathBuf,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Its language.
    pub language: String,
    /// Variables of the kernel.
    pub env: BTreeMap<String, String>,
    /// `signal` or `message`.
    pub interrupt_mode: String,
}

/// The environments in which a user's kernels are looked for, first come first.
fn prefixes(home: &str) -> Vec<PathBuf> {
    let mut prefixes = vec![PathBuf::from(home).join(".local")];
    prefixes.extend(children(Path::new(ENVIRONMENTS)));
    prefixes.extend(["/usr/local", "/usr"].map(PathBuf::from));
    prefixes
}

/// What is in a directory, in the order of its names.
fn children(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<_> = entries.flatten().take(MOST_SPECS).map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn directories(prefix: &Path) -> Vec<PathBuf> {
    children(&prefix.join("share/jupyter/kernels"))
}

/// Whether there may be any. For most sandboxes this is all that is ever asked.
pub fn are_there(home: &str) -> bool {
    prefixes(home).iter().any(|prefix| !directories(prefix).is_empty())
}

/// The kernel of a language.
///
/// # Errors
/// With a text that says which languages there are kernels of.
pub fn find(home: &str, language: &str) -> Result<Spec, String> {
    let mut languages = Vec::new();
    for prefix in prefixes(home) {
        let mut found: Option<Spec> = None;
        for directory in directories(&prefix) {
            let Some(spec) = read(&directory, &prefix) else { continue };
            if spec.language.eq_ignore_ascii_case(language) {
                // The usual one before others of the same language, such as its older versions.
                let usual = spec.name.eq_ignore_ascii_case(&format!("{language}3"));
                if found.is_none() || usual {
                    found = Some(spec);
                }
            } else if languages.len() < 8 {
                languages.push(spec.language.chars().take(20).collect::<String>());
            }
        }
        if let Some(spec) = found {
            return Ok(spec);
        }
    }
    languages.dedup();
    let there = if languages.is_empty() { "none".to_owned() } else { languages.join(", ") };
    Err(format!("this sandbox has no kernel for {language}; it has kernels for: {there}"))
}

fn read(directory: &Path, prefix: &Path) -> Option<Spec> {
    // It may be anything; a pipe would be waited for without this.
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).ok()?;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(directory.join("kernel.json"))
        .ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    let mut spec: Spec = serde_json::from_str(&text).ok()?;
    spec.name = directory.file_name()?.to_str()?.to_owned();
    directory.clone_into(&mut spec.directory);
    prefix.clone_into(&mut spec.prefix);
    (!spec.argv.is_empty()).then_some(spec)
}

impl Spec {
    /// Program and arguments, with the places of a connection file filled in. A specification that
    /// names no Python means the one of its environment.
    pub fn command(&self, connection_file: &Path) -> Vec<String> {
        let file = connection_file.to_string_lossy();
        let mut argv: Vec<String> = self
            .argv
            .iter()
            .map(|word| {
                word.replace("{connection_file}", &file)
                    .replace("{resource_dir}", &self.directory.to_string_lossy())
                    .replace("{prefix}", &self.prefix.to_string_lossy())
            })
            .collect();
        let own = self.prefix.join("bin/python3");
        if matches!(&*argv[0], "python" | "python3") {
            argv[0] =
                if own.exists() { own.to_string_lossy().into_owned() } else { "python3".into() };
        }
        argv
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_by_language() {
        let home = std::env::temp_dir().join(format!("holm-spec-{}", std::process::id()));
        let kernels = home.join(".local/share/jupyter/kernels");
        let put = |name: &str, text: &str| {
            std::fs::create_dir_all(kernels.join(name)).unwrap();
            std::fs::write(kernels.join(name).join("kernel.json"), text).unwrap();
        };
        assert!(find(home.to_str().unwrap(), "lisp").is_err());
        put("alisp", r#"{"argv": ["python", "{resource_dir}/x"], "language": "lisp"}"#);
        put("lisp3", r#"{"argv": ["sbcl", "-f{connection_file}"], "language": "Lisp"}"#);
        put("broken", "[[");
        put("empty", r#"{"argv": [], "language": "lisp"}"#);
        let home_text = home.to_str().unwrap();
        assert!(are_there(home_text));
        let spec = find(home_text, "lisp").unwrap();
        assert_eq!((&*spec.name, &*spec.interrupt_mode), ("lisp3", ""));
        assert_eq!(spec.command(Path::new("/c.json")), ["sbcl", "-f/c.json"]);
        let error = find(home_text, "cobol").unwrap_err();
        assert!(error.contains("cobol") && error.contains("lisp"), "{error}");
        std::fs::remove_dir_all(kernels.join("lisp3")).unwrap();
        let argv = find(home_text, "lisp").unwrap().command(Path::new("/c.json"));
        assert_eq!(argv, ["python3".to_owned(), format!("{}/x", kernels.join("alisp").display())]);
        std::fs::remove_dir_all(&home).unwrap();
    }
}
