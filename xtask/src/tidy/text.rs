//! Rules about single files.

use super::{Tree, rust};

/// Most lines of a Rust file.
const MAX_LINES: usize = 400;

/// Files that may be longer, with the reason.
const LONGER: &[(&str, &str)] = &[];

/// Files outside of `sys` that may hold unsafe code, with the reason.
const UNSAFE: &[(&str, &str)] = &[(
    "crates/holm-runtime/tests/linux/guest.rs",
    "a stand-in for the guest takes descriptor 3 over, as the launcher hands it",
)];

/// Words that no file may hold, with the reason. Split so that this file holds none either.
const BANNED: &[(&str, &str)] = &[
    (concat!("/work", "/"), "a path of one machine"),
    (concat!("crates", ".io"), "registries are a setting of the builder's machine"),
    (concat!("pypi", ".org"), "registries are a setting of the builder's machine"),
    (concat!("npmjs", ".org"), "registries are a setting of the builder's machine"),
    (concat!("deb.debian", ".org"), "registries are a setting of the builder's machine"),
    (concat!("--index", "-url"), "registries are a setting of the builder's machine"),
    (concat!("CONTRACT", ".md"), "not a file of this repository"),
    (concat!("DECISIONS", ".md"), "not a file of this repository"),
    (concat!("FIX", "ME"), "fix it, or write an issue"),
    (concat!("XX", "X:"), "fix it, or write an issue"),
];

/// Every module says at its head what it is and why.
pub fn module_docs(tree: &Tree) -> Vec<String> {
    let undocumented = |text: &str| {
        // An inner attribute may come before the documentation.
        !text.lines().take(12).any(|line| line.starts_with("//!"))
    };
    rust(tree)
        .filter(|(_, text)| undocumented(text))
        .map(|(path, _)| format!("{path} does not begin with `//!`"))
        .collect()
}

/// Files stay short enough to be read in one go.
pub fn lengths(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in rust(tree) {
        let lines = text.lines().count();
        let allowed = LONGER.iter().any(|(longer, _)| *longer == path);
        if lines > MAX_LINES && !allowed {
            found.push(format!("{path} has {lines} lines; more than {MAX_LINES} need a split"));
        }
        if lines <= MAX_LINES && allowed {
            found.push(format!("{path} is short enough; remove it from the list of exceptions"));
        }
    }
    found
}

/// Unsafe code lives in system-call modules only.
pub fn unsafe_code(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in rust(tree) {
        let excepted = UNSAFE.iter().any(|(excepted, _)| *excepted == path);
        if excepted || path.contains("/sys/") || path.ends_with("/sys.rs") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"]
                .iter()
                .any(|form| code.contains(form))
                && !code.contains('"')
            {
                found.push(format!("{path}:{}: outside of a `sys` module", number + 1));
            }
        }
    }
    found
}

/// Words that do not belong into the repository.
pub fn words(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree {
        // Lock files name their registry; that is their format.
        if path == "Cargo.lock" || path.ends_with("package-lock.json") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            for (word, reason) in BANNED {
                if line.contains(word) {
                    found.push(format!("{path}:{}: `{word}`: {reason}", number + 1));
                }
            }
        }
    }
    found
}

/// Every test runs.
pub fn ignored_tests(tree: &Tree) -> Vec<String> {
    let attribute = concat!("#[", "ignore");
    rust(tree)
        .filter(|(_, text)| text.contains(attribute))
        .map(|(path, _)| format!("{path} has an ignored test"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(path: &str, text: &str) -> Tree {
        [(path.to_owned(), text.to_owned())].into_iter().collect()
    }

    #[test]
    fn each_rule_finds_what_it_is_for() {
        let long = "//! Doc.\n".repeat(MAX_LINES + 1);
        assert_eq!(lengths(&tree("a.rs", &long)).len(), 1);
        assert_eq!(lengths(&tree("a.md", &long)).len(), 0);
        assert_eq!(module_docs(&tree("a.rs", "fn f() {}")).len(), 1);
        assert_eq!(module_docs(&tree("a.rs", "//! Doc.\nfn f() {}")).len(), 0);
        assert_eq!(unsafe_code(&tree("x/src/a.rs", "  unsafe { f() }")).len(), 1);
        assert_eq!(unsafe_code(&tree("x/src/sys/a.rs", "unsafe { f() }")).len(), 0);
        assert_eq!(unsafe_code(&tree("x/src/a.rs", "// unsafe { f() }")).len(), 0);
        assert_eq!(words(&tree("a.md", concat!("see /work", "/x"))).len(), 1);
        assert_eq!(words(&tree("a.md", "see /workspace/x")).len(), 0);
        assert_eq!(ignored_tests(&tree("a.rs", concat!("#[", "ignore]"))).len(), 1);
    }
}
