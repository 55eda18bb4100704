//! Help, versions, completions.

use crate::snapshot::{check, holm};

#[test]
fn help() {
    check("help", holm(&["--help"]));
    check("help-run", holm(&["run", "--help"]));
    check("help-mcp", holm(&["mcp", "--help"]));
    check("help-serve", holm(&["serve", "--help"]));
    check("help-account", holm(&["account", "--help"]));
    check("help-account-create", holm(&["account", "create", "--help"]));
    check("help-key", holm(&["key", "--help"]));
    check("help-key-create", holm(&["key", "create", "--help"]));
    check("help-account-set", holm(&["account", "set", "--help"]));
    check("help-secret", holm(&["secret", "--help"]));
    check("help-secret-set", holm(&["secret", "set", "--help"]));
    check("help-template", holm(&["template", "--help"]));
    check("help-template-pull", holm(&["template", "pull", "--help"]));
    check("help-template-import", holm(&["template", "import", "--help"]));
    check("help-cp", holm(&["cp", "--help"]));
    check("help-config", holm(&["config", "--help"]));
    check("help-doctor", holm(&["doctor", "--help"]));
    check("help-completions", holm(&["completions", "--help"]));
    check("help-version", holm(&["version", "--help"]));
}

#[test]
fn version() {
    check("version", holm(&["version"]));
    check("version-flag", holm(&["--version"]));
    check("version-json", holm(&["version", "--json"]));
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = holm(&["completions", shell]).output().expect("holm starts");
        assert!(output.status.success() && output.stderr.is_empty(), "{shell}");
        let script = String::from_utf8(output.stdout).expect("a script is text");
        for word in [
            "run",
            "mcp",
            "serve",
            "account",
            "key",
            "secret",
            "template",
            "cp",
            "config",
            "doctor",
            "completions",
            "version",
            "mount-ro",
        ] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
        for inner in ["__launcher", "__confined"] {
            assert!(!script.contains(inner), "{shell} shows an inner command");
        }
    }
}
