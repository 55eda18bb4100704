//! `holm account` and `holm key`: on a database and through its service they print the same.

use std::fs;
use std::net::TcpListener;

use crate::common::{Exit, Home, Mode, Serve, as_root, finish, in_mode};
use crate::snapshot::{compare, filter};

as_root!(
    through_a_service_everything_is_as_on_its_database,
    what_refuses_is_said_in_one_line,
    a_flag_for_the_database_counts_before_a_url_in_the_environment,
);

/// What is typed after `holm`; `KEY` is the id of the key that was listed last.
const SCRIPT: &[&[&str]] = &[
    &["account", "create", "ci", "--max-sandboxes", "5", "--max-lifetime", "1h"],
    &["account", "create", "lab", "--json"],
    &["account", "topup", "lab", "2.50", "--reference", "one"],
    &["account", "topup", "lab", "2.50", "--reference", "one", "--json"],
    &["account", "topup", "lab", "3", "--reference", "one"],
    &["account", "list"],
    &["account", "list", "--json"],
    &["key", "create", "ci", "--name", "laptop"],
    &["key", "create", "ci", "--name", "ops", "--scopes", "read,admin", "--json"],
    &["key", "list", "ci"],
    &["key", "list", "ci", "--json"],
    &["key", "revoke", "KEY"],
    &["key", "revoke", "KEY", "--json"],
    &["key", "revoke", "key_0123456789abcdef01"],
    &["key", "create", "nobody"],
    &["key", "create", "acc_0123456789abcdef01"],
    &["account", "create", ""],
];

/// Runs the script with these variables, and gives all that was printed, ids and times masked.
fn script(home: &Home, env: &[(&str, &str)]) -> String {
    let (mut told, mut key) = (String::new(), String::new());
    for line in SCRIPT {
        let line: Vec<&str> =
            line.iter().map(|word| if *word == "KEY" { key.as_str() } else { word }).collect();
        let exit = holm(home, &line, env);
        told.push_str(&format!("$ holm {}\n{}", line.join(" "), told_by(&exit)));
        if line.starts_with(&["key", "list"]) && !line.contains(&"--json") {
            let row = exit.out().lines().nth(1).expect("a key").to_owned();
            key = row.split(' ').next().expect("its id").to_owned();
        }
    }
    masked(&told)
}

fn holm(home: &Home, arguments: &[&str], env: &[(&str, &str)]) -> Exit {
    let mut command = home.command();
    command.args(arguments).envs(env.iter().copied());
    finish(command, b"")
}

fn told_by(exit: &Exit) -> String {
    let code = exit.code().expect("a code");
    format!("exit code: {code}\n--- stdout\n{}--- stderr\n{}\n", exit.out(), exit.err())
}

/// Takes out what no two runs have in common, and leaves the width.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    for (at, letter) in text.char_indices() {
        let before = text[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
        let before = before.unwrap_or_default();
        let in_id = ["acc_", "key_", "led_", "holm_sk_"].iter().any(|p| before.starts_with(p));
        // `2026-01-01T00:00:00`, by what stands around a digit.
        let line = text[..at].rfind(['\n', '"', ' ']).map_or(0, |from| from + 1);
        let word = text[line..].split(['\n', '"', ' ', 'Z']).next().unwrap_or_default();
        let in_time = word.len() == 19 && word.as_bytes()[10] == b'T';
        let hides = (in_id && letter.is_ascii_hexdigit()) || (in_time && letter.is_ascii_digit());
        masked.push(if hides { 'x' } else { letter });
    }
    filter(&masked)
}

/// The key of an administrator, made on the database.
fn admin_key(home: &Home) -> String {
    let exit = home.holm(&["key", "create", "first", "--scopes", "admin"]);
    assert_eq!(exit.code(), Some(0), "{}", exit.err());
    exit.out().trim_end().to_owned()
}

fn url(serve: &Serve) -> String {
    format!("http://{}", serve.address)
}

fn through_a_service_everything_is_as_on_its_database(home: &Home) {
    let serve = home.serve(&[], &[]);
    let (url, key) = (url(&serve), admin_key(home));
    let through = script(home, &[("HOLM_URL", &url), ("HOLM_API_KEY", &key)]);
    assert!(!serve.stderr().contains("holm_sk_"), "{}", serve.stderr());
    serve.end();
    compare("administer", &through);
    in_mode(Mode::Root, |other| {
        let serve = other.serve(&[], &[]);
        admin_key(other);
        compare("administer", &script(other, &[]));
        serve.end();
    });
}

fn what_refuses_is_said_in_one_line(home: &Home) {
    let serve = home.serve(&[], &[]);
    let (url, key) = (url(&serve), admin_key(home));
    let usual = serve.key.clone().expect("the first key");
    let address = serve.address.to_string();
    let check = |name: &str, arguments: &[&str], env: &[(&str, &str)]| {
        let exit = holm(home, arguments, env);
        let told = told_by(&exit).replace(&address, "[ADDRESS]");
        for secret in [&key, &usual] {
            assert!(!told.contains(secret.as_str()), "{told}");
        }
        assert_eq!(exit.err().matches("error:").count(), 1, "{told}");
        compare(name, &filter(&told.replace(&home.dir.display().to_string(), "[HOME]")));
    };
    let list: &[&str] = &["account", "list"];
    check("administer-no-key", list, &[("HOLM_URL", &url)]);
    check("administer-wrong-key", list, &[("HOLM_URL", &url), ("AAS_API_KEY", "x-marker-x")]);
    check("administer-usual-key", list, &[("HOLM_URL", &url), ("HOLM_API_KEY", &usual)]);
    let minutes = ["account", "create", "x", "--max-lifetime", "90s"];
    check("administer-lifetime", &minutes, &[("HOLM_URL", &url), ("HOLM_API_KEY", &key)]);
    let both = ["account", "list", "--url", "http://x", "--data-dir", "/x"];
    check("administer-both", &both, &[]);
    check("administer-no-url", &["key", "list", "--key-file", "k"], &[]);
    serve.end();
    let missing = ["account", "list", "--url", &*url, "--key-file", "k"];
    check("administer-no-file", &missing, &[]);
    fs::write(home.dir.join("k"), format!("{key}\n")).expect("a key file");
    check("administer-unreachable", &missing, &[]);
    // Something else listens there.
    let other = TcpListener::bind(&*address).expect("the address is free again");
    let answering = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = other.accept().expect("a connection");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a head");
            head.push(byte[0]);
        }
        let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 3\r\nconnection: close\r\n\r\nno\n";
        stream.write_all(answer.as_bytes()).expect("it reads");
    });
    check("administer-no-service", &missing, &[]);
    answering.join().expect("one answer");
}

fn a_flag_for_the_database_counts_before_a_url_in_the_environment(home: &Home) {
    let data = home.data().display().to_string();
    let nowhere = [("HOLM_URL", "http://127.0.0.1:1"), ("HOLM_API_KEY", "x-marker-x")];
    let made = holm(home, &["account", "create", "here", "--data-dir", &data], &nowhere);
    assert_eq!(made.code(), Some(0), "{}", made.err());
    assert!(home.holm(&["account", "list"]).out().contains("here"));
}
