//! What is accepted, and how what is not is refused.

use serde_json::json;

use super::*;

/// Takes one argument of each kind and puts what came out into a line.
fn taken(arguments: Value) -> Result<String, ToolError> {
    let mut args = Args::new(Some(arguments))?;
    let line = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        args.word("path")?,
        args.choice("language", &["python", "bash"], &[("shell", "bash")])?,
        args.integer("limit", 1..=10)?,
        args.flag("recursive")?,
        args.span("timeout_ms", Duration::from_millis(1), 1..=86_400_000)?,
        args.strings_by_name("env", &["envs"])?,
        args.mode("mode")?,
    );
    args.finish()?;
    Ok(line)
}

fn check(arguments: Value, expected: &str) {
    let got = taken(arguments.clone()).unwrap_or_else(|error| error.message);
    assert_eq!(got, expected, "{arguments}");
}

#[test]
fn good_arguments_in_every_spelling() {
    let none = "None None None None None {} None";
    check(json!({}), none);
    check(json!({"path": null, "limit": null, "timeout": null}), none);
    check(json!({"path": "a"}), r#"Some("a") None None None None {} None"#);
    check(json!({"language": "shell"}), r#"None Some("bash") None None None {} None"#);
    check(json!({"limit": 10.0}), "None None Some(10) None None {} None");
    check(json!({"recursive": false}), "None None None Some(false) None {} None");
    check(json!({"timeout_ms": 1500}), "None None None None Some(1.5s) {} None");
    check(json!({"timeout": 2}), "None None None None Some(2s) {} None");
    check(json!({"timeout": 2, "timeout_ms": 2000}), "None None None None Some(2s) {} None");
    check(json!({"envs": {"A": "b"}}), r#"None None None None None {"A": "b"} None"#);
    check(
        json!({"envs": {"A": "b"}, "env": {"A": "b"}}),
        r#"None None None None None {"A": "b"} None"#,
    );
    check(json!({"mode": "0755"}), "None None None None None {} Some(493)");
    check(json!({"mode": "0o644"}), "None None None None None {} Some(420)");
}

#[test]
fn case_80_bad_arguments_are_named_with_what_is_allowed() {
    check(json!([]), "`arguments` must be an object with the tool's arguments; got an array");
    check(json!("x"), "`arguments` must be an object with the tool's arguments; got \"x\"");
    check(json!({"path": 7}), "`path` must be a string; got 7");
    check(json!({"path": " "}), "`path` must not be blank; leave it out instead");
    check(json!({"path": "a\u{0}b"}), "`path` must not hold a NUL character");
    check(
        json!({"language": "perl"}),
        "`language` must be one of \"python\", \"bash\"; got \"perl\"",
    );
    for value in [json!(0), json!(11), json!(-1), json!(1.5), json!("5"), json!(1e12), json!(true)]
    {
        check(
            json!({"limit": value}),
            &format!("`limit` must be a whole number from 1 to 10; got {value}"),
        );
    }
    check(json!({"recursive": "yes"}), "`recursive` must be true or false; got \"yes\"");
    check(json!({"timeout": 0}), "`timeout` must be a whole number from 1 to 86400; got 0");
    check(
        json!({"timeout": 2, "timeout_ms": 2001}),
        "`timeout_ms` and `timeout` are two spellings of the same argument and differ; \
         give one of them",
    );
    check(
        json!({"env": {"A": "b"}, "envs": {}}),
        "`env` and `envs` are two spellings of the same argument and differ; give one of them",
    );
    check(json!({"env": {"PORT": 80}}), "`env.PORT` must be a string; got 80");
    check(
        json!({"env": ["A=b"]}),
        "`env` must be an object whose values are strings; got an array",
    );
    for value in [json!(493), json!("rwx"), json!("9"), json!("77777")] {
        let shown = preview(&value);
        check(
            json!({"mode": value}),
            &format!(
                "`mode` must be octal permission bits as a string, such as \"0755\"; got {shown}"
            ),
        );
    }
    check(
        json!({"pth": "a", "zap": 1}),
        "unknown arguments `pth`, `zap`; known are `path`, `language`, `limit`, `recursive`, \
         `timeout_ms`, `env`, `mode`",
    );
}

#[test]
fn what_must_be_there_is_named() {
    let mut args = Args::new(None).expect("empty");
    assert_eq!(
        args.required_word("command").expect_err("missing").message,
        "`command` is required"
    );
    let mut args = Args::new(None).expect("empty");
    args.rest.insert("x".to_owned(), json!(1));
    assert_eq!(
        args.finish().expect_err("unknown").message,
        "unknown argument `x`; this tool takes none"
    );
}
