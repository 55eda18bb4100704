//! A service as other machines see it: two network namespaces with a cable between them.

use std::process::{Child, Command, Stdio};

use crate::common::{Home, Serve, as_root, until};

as_root!(case_89_other_machines_see_nothing_or_need_a_key);

const SERVICE: &str = "10.213.7.1";

/// A machine with nothing but a network: a process that holds the namespace.
struct Machine(Child);

impl Machine {
    fn new() -> Option<Self> {
        let holder = Command::new("unshare").args(["--net", "sleep", "3600"]).spawn().ok()?;
        let machine = Self(holder);
        let own = std::fs::read_link("/proc/self/ns/net").expect("a namespace");
        until("a network of its own", || {
            let now = std::fs::read_link(format!("/proc/{}/ns/net", machine.0.id())).ok()?;
            (now != own).then_some(())
        });
        Some(machine)
    }

    fn net(&self) -> String {
        format!("--net=/proc/{}/ns/net", self.0.id())
    }

    fn run(&self, program: &str, arguments: &[&str]) -> std::process::Output {
        let mut command = Command::new("nsenter");
        command.arg(self.net()).arg(program).args(arguments).stdin(Stdio::null());
        command.output().expect("nsenter")
    }

    fn ip(&self, arguments: &[&str]) -> bool {
        self.run("ip", arguments).status.success()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Its end is all that is wanted; the namespace and the cable go with it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two machines with a cable between them.
fn cabled() -> Option<(Machine, Machine)> {
    let (one, other) = (Machine::new()?, Machine::new()?);
    let peer = other.0.id().to_string();
    let cable = ["link", "add", "one", "type", "veth", "peer", "name", "two", "netns", &peer];
    let done = one.ip(&["link", "set", "lo", "up"])
        && one.ip(&cable)
        && one.ip(&["address", "add", "10.213.7.1/24", "dev", "one"])
        && one.ip(&["link", "set", "one", "up"])
        && other.ip(&["address", "add", "10.213.7.2/24", "dev", "two"])
        && other.ip(&["link", "set", "two", "up"]);
    done.then_some((one, other))
}

/// The status of a request from the other machine: 000 where nobody answers.
fn asked(from: &Machine, url: &str, body: Option<&str>) -> (String, String) {
    let mut arguments = vec!["-s", "--max-time", "60", "-w", "\n%{http_code}", "--noproxy", "*"];
    if let Some(body) = body {
        arguments.extend(["-H", "content-type: application/json", "-d", body]);
    }
    arguments.push(url);
    let output = from.run("curl", &arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').expect("two parts");
    (status.to_owned(), body.to_owned())
}

fn case_89_other_machines_see_nothing_or_need_a_key(home: &Home) {
    let Some((one, other)) = cabled() else {
        println!("SKIP two machines with a cable between them: `ip` cannot make them here");
        return;
    };
    let call = |name: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{{}}}}}}"#
        )
    };
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let there =
        |serve: &Serve, path: &str| format!("http://{SERVICE}:{}{path}", serve.address.port());
    // As it starts by itself: nothing is there for others.
    let serve = home.serve_in(one.0.id(), &[], &[]);
    assert!(serve.address.ip().is_loopback());
    let (here, _) = asked(&one, &format!("http://{}/health", serve.address), None);
    assert_eq!(here, "200");
    for (path, body) in [("/health", None), ("/mcp", Some(list)), ("/v1/sandboxes", Some("{}"))] {
        assert_eq!(asked(&other, &there(&serve, path), body).0, "000", "{path}");
    }
    serve.end();
    // For all to see: without a key one looks around, and makes nothing.
    let serve = home.serve_in(one.0.id(), &["--bind", "0.0.0.0"], &[]);
    let (status, tools) = asked(&other, &there(&serve, "/mcp"), Some(list));
    assert!(status == "200" && tools.contains("create_sandbox"), "{status} {tools}");
    let (status, info) = asked(&other, &there(&serve, "/mcp"), Some(&call("get_service_info")));
    assert!(status == "200" && info.contains("\"isError\":false"), "{status} {info}");
    for tool in ["create_sandbox", "run_code", "run_command", "list_sandboxes", "get_usage"] {
        let (status, refused) = asked(&other, &there(&serve, "/mcp"), Some(&call(tool)));
        assert!(status == "401" && refused.contains("-32001"), "{tool}: {status} {refused}");
    }
    let (status, refused) = asked(&other, &there(&serve, "/v1/sandboxes"), Some("{}"));
    assert!(status == "401" && refused.contains("unauthorized"), "{status} {refused}");
    assert_eq!(asked(&other, &there(&serve, "/v1/usage"), None).0, "401");
    assert_eq!(asked(&other, &there(&serve, "/metrics"), None).0, "403");
    assert!(home.recorded().is_empty(), "something was made");
    serve.end();
}
