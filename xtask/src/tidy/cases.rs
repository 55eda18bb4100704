//! Every field case that applies has a test with `case_NN` in its name.
//!
//! The cases are faults that users of comparable systems met; the numbers are kept in the tests'
//! names so that one can ask for them: `cargo test case_25`.

use std::collections::BTreeSet;

use super::{Tree, rust};

/// Cases that apply, by what they are about.
const APPLY: &[(&str, &[u32])] = &[
    ("output", &[1, 3, 4, 6, 7, 9]),
    ("processes", &[11, 12, 15, 16, 18, 19, 21, 23]),
    ("files", &[25, 27, 28, 30, 31, 33, 34, 36, 38]),
    ("limits", &[98, 99, 101, 103]),
    ("languages", &[104, 105, 107, 108, 110, 111]),
    ("isolation", &[112, 113, 115, 116]),
    ("protocol", &[76, 78, 79, 80, 81, 82, 84, 86, 87, 89, 91, 92]),
    ("lifecycle", &[53, 55, 56, 58, 59, 60, 62, 63, 64, 66, 67]),
    ("previews", &[39, 41, 42, 43, 44]),
    ("network", &[46, 47, 49, 51]),
    ("tenants", &[68, 69, 71, 73, 75]),
];

/// Cases without a test, with the reason.
const EXEMPT: &[(u32, &str)] = &[];

pub fn check(tree: &Tree) -> Vec<String> {
    judge(&tested(tree))
}

fn judge(tested: &BTreeSet<u32>) -> Vec<String> {
    let mut found = Vec::new();
    for (group, numbers) in APPLY {
        for number in *numbers {
            let exempt = EXEMPT.iter().any(|(exempt, _)| exempt == number);
            match (tested.contains(number), exempt) {
                (false, false) => found.push(format!("no test named case_{number:02} ({group})")),
                (true, true) => found.push(format!("case {number} is tested and exempt")),
                _ => {}
            }
        }
    }
    found
}

/// Numbers in the names of functions, in Rust and in the clients' Python.
fn tested(tree: &Tree) -> BTreeSet<u32> {
    let python = tree.iter().filter(|(path, _)| path.ends_with(".py"));
    let all = rust(tree).chain(python.map(|(path, text)| (path.as_str(), text.as_str())));
    let mut numbers = BTreeSet::new();
    for (path, text) in all {
        if path.starts_with("xtask/") {
            continue;
        }
        for line in text.lines() {
            let line = line.trim_start();
            let name = ["fn ", "async fn ", "def ", "async def "]
                .iter()
                .find_map(|start| line.strip_prefix(start));
            let Some(name) = name else { continue };
            let name = name.split('(').next().unwrap_or_default();
            let mut words = name.split('_').peekable();
            while let Some(word) = words.next() {
                if word == "case" || word == "cases" {
                    while let Some(number) = words.peek().and_then(|word| word.parse().ok()) {
                        numbers.insert(number);
                        words.next();
                    }
                }
            }
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_from_function_names_only() {
        let text = "fn case_07_colours() {}\n    async fn x_case_12() {}\n// case_99\n\
                    fn cases_25_27_paths() {}\nlet case_98 = 1;\nfn lowercase_5() {}";
        let tree = [("t.rs".to_owned(), text.to_owned())].into_iter().collect();
        assert_eq!(tested(&tree), [7, 12, 25, 27].into());
    }

    #[test]
    fn missing_cases_are_named() {
        let all: BTreeSet<u32> = APPLY.iter().flat_map(|(_, n)| n.iter().copied()).collect();
        assert_eq!(judge(&all).len(), EXEMPT.len());
        let mut less = all;
        less.remove(&25);
        assert!(judge(&less)[0].contains("case_25"));
    }
}
