//! TLS and HTTP/2, of the API and of previews; and ports brought to this machine.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::Bed;
use crate::common::{Home, Serve, Value, as_root, as_rootless, finish, json, until, wait};

as_root!(
    case_43_http_2_and_1_side_by_side_with_tls,
    http_2_without_tls_for_who_knows,
    forwarded_ports_are_the_sandboxes,
);
as_rootless!(forwarded_ports_are_the_sandboxes);

/// A certificate for these names, and its key.
fn certificate(home: &Home, name: &str) -> (PathBuf, PathBuf) {
    let (certificate, key) = (home.dir.join("certificate.pem"), home.dir.join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "2", "-subj", &format!("/CN={name}"), "-addext"])
        .arg("subjectAltName=DNS:localhost,DNS:*.preview.test,IP:127.0.0.1")
        .arg("-out")
        .arg(certificate.with_extension("new"))
        .arg("-keyout")
        .arg(key.with_extension("new"))
        .output()
        .expect("openssl");
    assert!(made.status.success(), "{made:?}");
    for path in [&key, &certificate] {
        std::fs::rename(path.with_extension("new"), path).expect("renamed");
    }
    (certificate, key)
}

/// Status, version and body of what curl gets.
fn curl(arguments: &[&str]) -> (u16, String, String) {
    let mut command = Command::new("curl");
    command.args(["-s", "--noproxy", "*", "-w", "\n%{http_code} %{http_version}"]).args(arguments);
    let exit = finish(command, b"");
    assert_eq!(exit.code(), Some(0), "{arguments:?}: {}", exit.err());
    let out = exit.out();
    let (body, last) = out.rsplit_once('\n').expect("a last line");
    let (status, version) = last.split_once(' ').expect("two words");
    (status.parse().expect("a status"), version.to_owned(), body.to_owned())
}

/// A service with TLS, and a public preview of the program.
pub(super) struct Secure {
    pub serve: Serve,
    /// Its certificate's file.
    pub ca: PathBuf,
    /// The address of the preview, and the host in it.
    pub url: String,
    pub host: String,
}

pub(super) fn secure(home: &Home) -> Secure {
    let (certificate_file, key_file) = certificate(home, "first");
    let text = format!(
        "[server.tls]\ncertificate = '{}'\nkey = '{}'\n[previews]\ndomain = 'preview.test'\n",
        certificate_file.display(),
        key_file.display()
    );
    std::fs::write(home.data().join("config.toml"), text).expect("written");
    let serve = home.serve(&[], &[]);
    let api = format!("https://localhost:{}", serve.address.port());
    let ca = certificate_file.to_str().expect("text");
    let key = format!("x-api-key: {}", serve.key.as_deref().expect("a key"));
    let rest = |method: &str, path: &str, body: &Value| -> Value {
        let url = format!("{api}{path}");
        let body = body.to_string();
        let mut arguments = vec!["--cacert", ca, "-X", method, "-H", &key, &url];
        if body != "null" {
            arguments.extend(["-H", "content-type: application/json", "-d", &body]);
        }
        let (status, version, body) = curl(&arguments);
        assert!(status < 300 && version == "2", "{status} {version} {body}");
        serde_json::from_str(&body).expect("JSON")
    };
    let made = rest("POST", "/v1/sandboxes", &json!({}));
    let path = format!("/v1/sandboxes/{}", made["id"].as_str().expect("an id"));
    let file = json!({"path": "program.py", "content": super::PROGRAM});
    rest("PUT", &format!("{path}/files"), &file);
    let command = json!({"command": "exec python3 program.py 8080@127.0.0.1", "background": true});
    rest("POST", &format!("{path}/exec"), &command);
    let exposed = rest("POST", &format!("{path}/ports"), &json!({"port": 8080, "public": true}));
    let url = exposed["url"].as_str().expect("a URL").to_owned();
    assert!(url.starts_with("https://"), "{url}");
    let host = url.trim_start_matches("https://").trim_end_matches('/').to_owned();
    let resolve = format!("{host}:127.0.0.1");
    until("it serves", || {
        let x = format!("{url}x");
        (curl(&["--cacert", ca, "--resolve", &resolve, &x]).0 == 200).then_some(())
    });
    Secure { serve, ca: certificate_file, url, host }
}

fn case_43_http_2_and_1_side_by_side_with_tls(home: &Home) {
    let Secure { serve, ca, url, host } = secure(home);
    let (host, ca, port) = (&*host, ca.to_str().expect("text"), serve.address.port());
    let resolve = format!("{host}:127.0.0.1");
    let get = |more: &[&str], path: &str| {
        let url = format!("{url}{path}");
        let mut arguments = vec!["--cacert", ca, "--resolve", &resolve, &url];
        arguments.extend(more);
        curl(&arguments)
    };
    assert_eq!(get(&[], "x"), (200, "2".into(), "hello GET /x".into()));
    assert_eq!(get(&["--http1.1"], "x"), (200, "1.1".into(), "hello GET /x".into()));
    let seen = get(&["-H", "cookie: a=1", "-H", "te: trailers"], "headers").2;
    let seen: Value = serde_json::from_str(&seen).expect("JSON");
    let seen = seen["headers"].to_string().to_lowercase();
    for wanted in [host, "[\"x-forwarded-proto\",\"https\"]", "[\"cookie\",\"a=1\"]"] {
        assert!(seen.contains(wanted), "{wanted}: {seen}");
    }
    // Bodies and events over HTTP/2.
    assert!(get(&["--data-binary", "@/proc/self/exe"], "echo").0 == 200);
    let mut events = Command::new("curl")
        .args(["-sN", "--cacert", ca, "--resolve", &resolve, &format!("{url}sse")])
        .stdout(Stdio::piped())
        .spawn()
        .expect("curl");
    let mut lines = BufReader::new(events.stdout.take().expect("piped")).lines();
    let wanted = lines.any(|line| line.expect("text") == "data: 2");
    assert!(wanted, "events come one by one");
    events.kill().expect("it is our child");
    events.wait().expect("it is our child");
    // What a browser does for a WebSocket where it is not offered over HTTP/2.
    let upgraded = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "printf 'GET /ws HTTP/1.1\\r\\nhost: {host}\\r\\nconnection: upgrade\\r\\nupgrade: \
             websocket\\r\\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\
             sec-websocket-version: 13\\r\\n\\r\\n\\210\\200\\1\\2\\3\\4' | openssl s_client -quiet \
             -connect 127.0.0.1:{port} -alpn http/1.1 -CAfile {ca} 2>/dev/null"
        ))
        .output()
        .expect("sh");
    let said = String::from_utf8_lossy(&upgraded.stdout);
    assert!(said.starts_with("HTTP/1.1 101") && said.contains("first"), "{said}");
    // A certificate that is changed is in force without a restart.
    certificate(home, "second");
    until("it is the new one", || {
        let asked = format!("openssl s_client -connect 127.0.0.1:{port} </dev/null 2>/dev/null");
        let asked = Command::new("sh").args(["-c", &asked]).output().expect("sh");
        String::from_utf8_lossy(&asked.stdout).contains("CN = second").then_some(())
    });
    assert_eq!(get(&[], "x").0, 200);
    serve.end();
}

fn http_2_without_tls_for_who_knows(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.public(8080);
    let url = format!("http://{}/x", shown.host);
    let resolve = format!("{}:127.0.0.1", shown.host);
    let second = ["--http2-prior-knowledge", "--resolve", &resolve, &url];
    assert_eq!(curl(&second), (200, "2".into(), "hello GET /x".into()));
    let health = format!("http://localhost:{}/health", serve.address.port());
    let answer = curl(&["--http2-prior-knowledge", &health]);
    assert_eq!((answer.0, &*answer.1), (200, "2"));
    // Who begins like it and goes on otherwise gets no further.
    let mut stream = TcpStream::connect(serve.address).expect("it listens");
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n").expect("sent");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains(" 200 "), "{rest:?}");
    serve.end();
}

fn forwarded_ports_are_the_sandboxes(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let start = |sandbox: &str, ports: &[&str]| {
        let mut command = home.command();
        command
            .arg("forward")
            .arg(sandbox)
            .args(ports)
            .env("HOLM_URL", format!("http://{}", serve.address))
            .env("HOLM_API_KEY", serve.key.as_deref().expect("a key"));
        command
    };
    let mut child = start(&bed.id, &["0:8080", "0:8081"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("holm forward starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || -> u16 {
        let line = lines.next().expect("a line").expect("text");
        assert!(line.contains(&bed.id), "{line}");
        let rest = line.strip_prefix("localhost:").expect("where");
        rest.split(' ').next().expect("a port").parse().expect("a number")
    };
    let (open, closed) = (next(), next());
    let ask = |port: u16| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream
            .write_all(b"GET /y HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .expect("it reads");
        super::rest_of(stream)
    };
    // What goes there is nobody's but the program's.
    assert!(ask(open).ends_with("hello GET /y"));
    assert_eq!(ask(closed), "", "nothing listens there");
    assert!(ask(open).ends_with("hello GET /y"));
    // Foreign keys have no way in, and there is none without an upgrade.
    let path = format!("/v1/sandboxes/{}/tunnel?port=8080", bed.id);
    let plain = serve.ask("POST", &path, &[], "");
    assert_eq!(plain.status, 400, "{plain:?}");
    let other = serve.with_key(home.tenant("other"));
    let upgrade = [("upgrade", "holm-tunnel")];
    let foreign = other.ask("POST", &path, &upgrade, "");
    assert_eq!(foreign.status, 404, "{foreign:?}");
    let never = finish(start("sbx_0123456789abcdef01", &["0:1"]), b"");
    assert_eq!(never.code(), Some(1));
    assert!(never.err().contains("there is no sandbox"), "{}", never.err());
    // It ends with the sandbox, and says so.
    bed.destroy();
    drop(TcpStream::connect(("127.0.0.1", open)));
    let status = wait(&mut child);
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("is gone"), "{said}");
    let mut quiet = start(&Bed::new(&serve).id, &["0:8080"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("holm forward starts");
    let mut line = String::new();
    BufReader::new(quiet.stdout.take().expect("piped")).read_line(&mut line).expect("text");
    let pid = i32::try_from(quiet.id()).expect("a process id");
    kill_process(Pid::from_raw(pid).expect("not zero"), Signal::INT).expect("it is our child");
    assert_eq!(wait(&mut quiet).code(), Some(0));
    serve.end();
}
