//! What an image says of its programs, and what it may lack.

use serde_json::json;

use super::image::{Image, root_is, run};
use crate::common::*;

as_root!(
    an_image_without_files_of_etc,
    user_directory_and_variables_are_the_images,
    a_user_that_is_not_there,
    nothing_but_one_static_program,
    calls_of_an_agent,
    names_of_templates,
);
as_rootless!(an_image_without_files_of_etc, nothing_but_one_static_program, calls_of_an_agent);

fn an_image_without_files_of_etc(home: &Home) {
    Image::with_shell(home).import(home, "small");
    let root = root_is(home);
    let line = "id -u; pwd; stat -c %u /workspace; echo x > f && ls; ls /etc | sort";
    let want = format!("{root}\n/workspace\n{root}\nf\nhostname\nhosts\nresolv.conf\n");
    assert_eq!(run(home, "small", &[], &["sh", "-c", line]), want);
    let line =
        "test -c /dev/null && cat /proc/self/stat > /dev/null && head -c 1 /dev/zero | wc -c";
    assert_eq!(run(home, "small", &[], &["sh", "-c", line]), "1\n");
    assert_eq!(run(home, "small", &["--user", "sandbox"], &["id", "-u"]), "1000\n");
    // Nothing of the host.
    let line =
        "ls /usr /home /root /bin/bash 2>/dev/null | wc -l; grep -c . /proc/self/mountinfo >&2";
    assert_eq!(run(home, "small", &[], &["sh", "-c", line]), "0\n");
}

fn user_directory_and_variables_are_the_images(home: &Home) {
    let mut image = Image::with_shell(home);
    image.file("etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:41:42::/srv/app:/bin/none\n");
    image.file("etc/group", "app:x:42:\nmore:x:43:app\nstaff:x:44:\n");
    let show = ["sh", "-c", "id -u; id -G; pwd; echo $HOME $SHELL $GREETING $PATH"];
    let env = ["GREETING=hello", "PATH=/bin:/srv/bin"];
    image.says(json!({"User": "app", "WorkingDir": "/srv/app/data", "Env": env}));
    image.import(home, "app");
    let want = "41\n42 43\n/srv/app/data\n/srv/app /bin/sh hello /bin:/srv/bin\n";
    assert_eq!(run(home, "app", &[], &show), want);
    assert_eq!(run(home, "app", &[], &["stat", "-c", "%u:%g", "."]), "41:42\n");
    assert_eq!(
        run(home, "app", &["--env", "GREETING=own"], &["sh", "-c", "echo $GREETING"]),
        "own\n"
    );
    assert_eq!(
        run(home, "app", &["-w", "/tmp", "-u", "root"], &["sh", "-c", "pwd; id -u"]),
        "/tmp\n0\n"
    );
    for (user, want) in
        [("41:staff", "41\n44\n"), ("41:7", "41\n7\n"), ("99", "99\n0\n"), ("", "0\n0\n")]
    {
        let mut image = Image::with_shell(home);
        image.file("etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:41:42::/srv/app:\n");
        image.file("etc/group", "app:x:42:\nstaff:x:44:\n").says(json!({"User": user}));
        image.import(home, "other");
        assert_eq!(run(home, "other", &[], &["sh", "-c", "id -u; id -G"]), want, "{user:?}");
        assert_eq!(home.holm(&["template", "rm", "other"]).code(), Some(0));
    }
}

fn a_user_that_is_not_there(home: &Home) {
    let mut image = Image::with_shell(home);
    image.says(json!({"User": "nobody-here"}));
    image.import(home, "lost");
    let exit = home.holm(&["run", "--template", "lost", "--", "true"]);
    assert_eq!(exit.code(), Some(2), "{}", exit.err());
    assert!(
        exit.err().contains("nobody-here") && exit.err().contains("/etc/passwd"),
        "{}",
        exit.err()
    );
}

fn nothing_but_one_static_program(home: &Home) {
    let mut image = Image::new(home);
    image.layer().program("busybox");
    image.import(home, "one");
    assert_eq!(run(home, "one", &[], &["/busybox", "echo", "alone"]), "alone\n");
    assert_eq!(run(home, "one", &[], &["/busybox", "pwd"]), "/workspace\n");
    let exit = home.holm(&["run", "--template", "one", "--", "sh", "-c", "true"]);
    assert_eq!(exit.code(), Some(127), "{}", exit.err());
    let mcp = home.mcp();
    let id = mcp.create_with(json!({"template": "one"}));
    let run = mcp.call("run_command", json!({"sandbox_id": id, "command": "true"})).run();
    assert_eq!(run.exit_code, 127);
    assert!(run.stderr.contains("has no shell"), "{}", run.stderr);
    let code = mcp.call("run_code", json!({"sandbox_id": id, "code": "1"}));
    assert_eq!(code.code(), "language_unavailable");
    assert!(code.text().contains("available languages: none"), "{}", code.text());
    mcp.write(&id, "/workspace/f", "text");
    assert_eq!(mcp.read(&id, "/workspace/f"), "text");
    mcp.end(home);
}

fn calls_of_an_agent(home: &Home) {
    let mut image = Image::with_shell(home);
    image.says(json!({"WorkingDir": "/app"})).file("app/there", "from the image");
    image.import(home, "agent");
    let mcp = home.mcp_with(&[("HOLM_DEFAULT_TEMPLATE", "agent")]);
    let info = mcp.call("get_service_info", json!({}));
    let names = info.ok()["templates"].to_string();
    assert!(names.contains("agent") && names.contains("host"), "{names}");
    let id = mcp.create();
    let sandbox = mcp.call("get_sandbox", json!({"sandbox_id": id}));
    assert_eq!(sandbox.ok()["template"], "agent");
    assert_eq!(mcp.sh(&id, "pwd; cat there").stdout, "/app\nfrom the image");
    assert_eq!(mcp.read(&id, "there"), "from the image");
    mcp.write(&id, "/app/new", "by the agent");
    assert_eq!(mcp.sh(&id, "stat -c %u new").stdout.trim(), root_is(home));
    let listed = mcp.call("list_files", json!({"sandbox_id": id, "path": "/app"}));
    assert!(listed.text().contains("new") && listed.text().contains("there"), "{}", listed.text());
    let shell = mcp
        .call("run_code", json!({"sandbox_id": id, "code": "echo $((6*7))", "language": "bash"}));
    assert_eq!(shell.ok()["stdout"].as_str().map(str::trim), Some("42"));
    let python = mcp.call("run_code", json!({"sandbox_id": id, "code": "1", "language": "python"}));
    assert_eq!(python.code(), "language_unavailable");
    assert!(python.text().contains("available languages: bash"), "{}", python.text());
    let host = mcp.create_with(json!({"template": "base"}));
    assert_eq!(mcp.sh(&host, "pwd; id -u").stdout, "/workspace\n1000\n");
    mcp.end(home);
}

fn names_of_templates(home: &Home) {
    Image::with_shell(home).import(home, "known");
    let exit = home.holm(&["run", "--template", "unknown", "--", "true"]);
    assert_eq!(exit.code(), Some(2));
    assert!(exit.err().contains("base, host, known"), "{}", exit.err());
    for name in ["../known", "known/..", "KNOWN", "", "host/"] {
        let exit = home.holm(&["run", "--template", name, "--", "true"]);
        assert_eq!(exit.code(), Some(2), "{name:?}: {}", exit.err());
    }
    let mcp = home.mcp();
    let refused = mcp.call("create_sandbox", json!({"template": "unknown"}));
    assert_eq!(refused.code(), "template_unknown");
    assert!(refused.text().contains("known"), "{}", refused.text());
    mcp.end(home);
}
