//! What is kept from one piece of code to the next, and what is answered.

use super::place::{Sandbox, with_kernel};
use crate::common::*;

as_root!(variables_are_kept, contexts_are_apart, outputs_are_in_order, without_a_kernel);
as_rootless!(variables_are_kept, contexts_are_apart, outputs_are_in_order, without_a_kernel);

fn variables_are_kept(home: &Home) {
    with_kernel(home, false, |mcp, sandbox| {
        sandbox.code(mcp, "x = 41").value();
        let ran = sandbox.code(mcp, "x + 1");
        assert_eq!((&*ran.value(), ran.kept()), ("42", true));
        assert_eq!(ran.data()["context"], "python");
        assert_eq!(ran.data()["execution_count"], 2);
        assert!(ran.tool.text().contains("result:\n42"), "{}", ran.tool.text());
        // Files and the current directory are the sandbox's.
        mcp.write(&sandbox.id, "note", "there");
        assert_eq!(sandbox.code(mcp, "open('note').read()").value(), "'there'");
        let user = mcp.sh(&sandbox.id, "id -u").good().to_owned();
        assert_eq!(sandbox.code(mcp, "import os; os.getuid()").value(), user);
        // The bridge and its kernel are confined as every command is.
        let privileges =
            "[l.split()[1] for l in open('/proc/self/status') if l[:10] == 'NoNewPrivs']";
        assert_eq!(sandbox.code(mcp, privileges).value(), "['1']");
        let left = mcp.sh(&sandbox.id, "ls -a /tmp | grep -c holm-kernel");
        assert_eq!(left.stdout.trim(), "0", "the sockets' directory is gone");
        // Code that a call gives its own directory or variables is alone.
        let alone = sandbox.code_with(mcp, "print('x' in dir())", json!({"cwd": "/tmp"}));
        assert_eq!(alone.tool.ok()["stateful"], json!(false));
        assert_eq!(alone.tool.run().good(), "False");
        let refused = sandbox.code_with(mcp, "x", json!({"cwd": "/tmp", "context": "python"}));
        assert_eq!(refused.tool.code(), "invalid_argument");
    });
}

fn contexts_are_apart(home: &Home) {
    with_kernel(home, false, |mcp, sandbox| {
        assert_eq!(sandbox.contexts(mcp, json!({"action": "list"})).ok()["contexts"], json!([]));
        let asked = json!({"action": "create", "cwd": "/tmp", "env": {"GREETING": "naïve €"}});
        let made = sandbox.contexts(mcp, asked);
        let id = made.ok()["contexts"][0]["context"].as_str().expect("an id").to_owned();
        let other = |code: &str| sandbox.code_with(mcp, code, json!({"context": id}));
        sandbox.code(mcp, "x = 'default'").value();
        other("x = 'other'").value();
        assert_eq!(sandbox.code(mcp, "x").value(), "'default'");
        assert_eq!(other("x").value(), "'other'");
        let place = "import os; os.getcwd(), os.environ['GREETING']";
        assert_eq!(other(place).value(), "('/tmp', 'naïve €')");
        let listed = sandbox.contexts(mcp, json!({"action": "list"}));
        let ids: Vec<_> = listed.ok()["contexts"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| (one["context"].as_str().expect("an id"), one["default"] == true))
            .collect();
        assert_eq!(ids, [(&*id, false), ("python", true)]);
        sandbox.contexts(mcp, json!({"action": "restart", "context": "python"})).ok();
        assert_eq!(sandbox.code(mcp, "x").raised(), "NameError");
        assert_eq!(other("x").value(), "'other'");
        // What runs there ends.
        let call = json!({"sandbox_id": sandbox.id, "context": id, "code": "open('begun', 'w')\nwhile True: pass"});
        let running = mcp.start("run_code", call);
        until("the code runs", || {
            (mcp.sh(&sandbox.id, "test -e /tmp/begun").exit_code == 0).then_some(())
        });
        sandbox.contexts(mcp, json!({"action": "delete", "context": id})).ok();
        let ended = mcp.finish(running);
        assert!(ended.text().contains("restarted or deleted"), "{}", ended.text());
        let gone = other("x").tool;
        assert_eq!(gone.code(), "not_found");
        assert!(gone.text().contains("code_contexts"), "{}", gone.text());
        let wrong = sandbox.contexts(mcp, json!({"action": "restart", "context": "ctx_99"}));
        assert_eq!(wrong.code(), "not_found");
        let none = sandbox.contexts(mcp, json!({"action": "create", "language": "r"}));
        assert_eq!(none.code(), "language_unavailable");
        for bad in [
            json!({"action": "dance"}),
            json!({"action": "delete"}),
            json!({"action": "list", "context": "python"}),
            json!({"action": "restart", "context": "a/b"}),
            json!({"action": "list", "cwd": "/tmp"}),
        ] {
            assert_eq!(sandbox.contexts(mcp, bad.clone()).code(), "invalid_argument", "{bad}");
        }
    });
}

fn outputs_are_in_order(home: &Home) {
    with_kernel(home, false, |mcp, sandbox| {
        let code = "import sys\nfrom IPython.display import HTML, Markdown, Latex, JSON, Javascript, SVG, display\n\
            print('one', flush=True)\nprint('two', file=sys.stderr, flush=True)\n\
            display(HTML('<b>three</b>'))\nprint('four', flush=True)\n\
            display(Markdown('**five**'), Latex('$6$'), JSON({'seven': [8]}), Javascript('9'), SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))\n\
            'é→'";
        let ran = sandbox.code(mcp, code);
        assert_eq!(ran.value(), "'é→'");
        let outputs = ran.data()["outputs"].as_array().expect("a list").clone();
        let told: Vec<_> = outputs
            .iter()
            .map(|one| {
                let data = one["data"].as_object().into_iter().flatten();
                let form = data.map(|(name, _)| name.as_str()).find(|name| *name != "text/plain");
                let text = one["text"].as_str().map(str::trim);
                text.or(form).unwrap_or("plain").to_owned()
            })
            .collect();
        assert_eq!(
            told,
            [
                "one",
                "two",
                "text/html",
                "four",
                "text/markdown",
                "text/latex",
                "application/json",
                "application/javascript",
                "image/svg+xml",
                "plain"
            ]
        );
        assert_eq!(outputs[6]["data"]["application/json"], "{\"seven\":[8]}");
        assert_eq!(ran.data()["stdout"], "one\nfour\n");
        assert_eq!(ran.data()["stderr"], "two\n");
        let failed = sandbox.code(mcp, "print('before')\ndef f(): return 1 / 0\nf()");
        assert!(failed.tool.is_error() && failed.kept());
        let raised = &failed.data()["raised"];
        assert_eq!(
            (&raised["name"], &raised["value"]),
            (&json!("ZeroDivisionError"), &json!("division by zero"))
        );
        let traceback = raised["traceback"].as_str().expect("lines");
        assert!(traceback.contains("in f()") && !traceback.contains('\u{1b}'), "{traceback}");
        let kinds: Vec<_> = failed.data()["outputs"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| &one["type"])
            .collect();
        assert_eq!(kinds, ["stdout", "error"]);
        assert!(failed.tool.text().contains("ZeroDivisionError: division by zero"));
        // What a child writes comes as well.
        let child = sandbox.code(mcp, "import subprocess; subprocess.run(['echo', 'child'])");
        assert!(
            child.data()["stdout"].as_str().expect("text").contains("child"),
            "{}",
            child.tool.text()
        );
    });
}

fn without_a_kernel(home: &Home) {
    let mcp = home.mcp();
    let sandbox = Sandbox { id: mcp.create() };
    if mcp
        .sh(&sandbox.id, "ls /usr/share/jupyter/kernels /usr/local/share/jupyter/kernels")
        .exit_code
        == 0
    {
        println!("SKIP sandboxes without kernels: this host has kernels of its own");
        return;
    }
    for code in ["x = 1; print(x)", "print('x' in dir())"] {
        let ran = sandbox.code(&mcp, code).tool;
        assert_eq!(ran.ok()["stateful"], json!(false));
        assert!(ran.ok().get("context").is_none(), "{}", ran.text());
    }
    let named = sandbox.code_with(&mcp, "x", json!({"context": "python"}));
    assert_eq!(named.tool.code(), "not_found");
    let made = sandbox.contexts(&mcp, json!({"action": "create"}));
    assert_eq!(made.code(), "language_unavailable");
    assert!(made.text().contains("ipykernel"), "{}", made.text());
    mcp.end(home);
}
