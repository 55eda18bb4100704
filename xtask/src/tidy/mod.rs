//! House rules that no other tool checks. Each rule is a function from the tree to complaints.

mod cases;
mod edges;
mod forks;
mod text;

use std::collections::BTreeMap;

use crate::shell;

/// The text of every file of the repository that is text.
pub type Tree = BTreeMap<String, String>;

pub fn run() -> Result<(), String> {
    let tree = read_tree()?;
    let rules: [(&str, Vec<String>); 8] = [
        ("module documentation", text::module_docs(&tree)),
        ("file length", text::lengths(&tree)),
        ("unsafe code", text::unsafe_code(&tree)),
        ("words", text::words(&tree)),
        ("ignored tests", text::ignored_tests(&tree)),
        ("dependency edges", edges::check()?),
        ("forks", forks::check(&tree)),
        ("field cases", cases::check(&tree)),
    ];
    let mut complaints = 0;
    for (rule, found) in &rules {
        for complaint in found {
            println!("{rule}: {complaint}");
        }
        complaints += found.len();
    }
    if complaints > 0 {
        return Err(format!("tidy: {complaints} complaints"));
    }
    println!("tidy: {} files, {} rules, no complaint", tree.len(), rules.len());
    Ok(())
}

fn read_tree() -> Result<Tree, String> {
    let mut tree = Tree::new();
    for path in shell::files()? {
        let bytes =
            std::fs::read(shell::root().join(&path)).map_err(|error| format!("{path}: {error}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            tree.insert(path, text);
        }
    }
    Ok(tree)
}

/// Rust sources of ours.
fn rust(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let all = tree.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    all.filter(|(path, _)| path.ends_with(".rs"))
}
