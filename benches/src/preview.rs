//! Previews beside nginx: both are reverse proxies, with kept connections, in front of the same
//! program with the same settings; here it runs in a sandbox, there on the host.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::Result;
use crate::service::{Service, failed};
use crate::table::Table;
use crate::workspace::Workspace;
use crate::wrk::{self, Load};

/// Rounds; every way has its turn in each.
const ROUNDS: usize = 3;
/// One client with this many connections, for this long.
const LOAD: [&str; 4] = ["-t1", "-c32", "-d4s", "--latency"];
/// Where the program in the sandbox listens.
const INSIDE: u16 = 8000;

/// Adds the rows of previews.
pub fn measure(holm: &Path, at: &Workspace, table: &mut Table) -> Result<()> {
    let mut service = Service::start(holm, at, 20)?;
    let made = service.ask("POST", "/v1/sandboxes", b"{}")?;
    let id = made["id"].as_str().ok_or(format!("no id in {made}"))?.to_owned();
    let path = format!("/v1/sandboxes/{id}");
    let config = program(INSIDE, "/tmp");
    service.ask("PUT", &format!("{path}/files/raw?path=nginx.conf"), config.as_bytes())?;
    let start = "mkdir -p /tmp/t && setsid nginx -c /workspace/nginx.conf >log 2>&1 </dev/null & \
        for i in $(seq 500); do curl -so /dev/null http://127.0.0.1:8000/ && exit 0; sleep 0.02; done; cat log; exit 1";
    let ran = service.ask(
        "POST",
        &format!("{path}/exec"),
        json!({"command": start}).to_string().as_bytes(),
    )?;
    if ran["exit_code"] != json!(0) {
        return Err(format!("nginx in the sandbox: {ran}"));
    }
    let beside = Beside::start(at)?;
    let ports = format!("{path}/ports");
    let mut expose = |public: bool| {
        let asked = json!({"port": INSIDE, "public": public}).to_string();
        let shown = service.ask("POST", &ports, asked.as_bytes())?;
        let text = |key: &str| shown[key].as_str().map(str::to_owned);
        let url = text("url").ok_or(format!("no url in {shown}"))?;
        Ok::<_, String>((url.split('/').nth(2).unwrap_or_default().to_owned(), text("token")))
    };
    let (mut direct, mut nginx, mut public, mut private) =
        (Way::default(), Way::default(), Way::default(), Way::default());
    for _ in 0..ROUNDS {
        direct.add(&[], &format!("http://127.0.0.1:{}/", beside.program))?;
        nginx.add(&[], &format!("http://127.0.0.1:{}/", beside.proxy))?;
        let (host, _) = expose(true)?;
        let address = format!("http://127.0.0.1:{}/", host.rsplit(':').next().unwrap_or_default());
        let host = format!("Host: {host}");
        public.add(&["-H", &host], &address)?;
        let (_, token) = expose(false)?;
        let token =
            format!("x-holm-preview-token: {}", token.ok_or("no token of a private preview")?);
        private.add(&["-H", &host, "-H", &token], &address)?;
    }
    beside.end()?;
    service.end()?;
    let rates = |way: &Way| way.0.iter().map(|load| load.per_second).collect::<Vec<_>>();
    let tails = |way: &Way| way.0.iter().map(|load| load.p99_ms).collect::<Vec<_>>();
    let peer = table.rate(
        "Requests to a small page, 32 connections",
        "nginx as reverse proxy",
        "per second",
        &rates(&nginx),
        &[],
    );
    table.rate("", "holm preview, public", "per second", &rates(&public), &[&peer]);
    table.rate("", "holm preview, private, by token", "per second", &rates(&private), &[&peer]);
    table.rate("", "the program itself, on the host", "per second", &rates(&direct), &[&peer]);
    let peer = table.rate(
        "99 of 100 of them are answered within",
        "nginx as reverse proxy",
        "ms",
        &tails(&nginx),
        &[],
    );
    table.rate("", "holm preview, public", "ms", &tails(&public), &[&peer]);
    table.rate("", "holm preview, private, by token", "ms", &tails(&private), &[&peer]);
    Ok(())
}

#[derive(Default)]
struct Way(Vec<Load>);

impl Way {
    fn add(&mut self, headers: &[&str], url: &str) -> Result<()> {
        let arguments = [&LOAD[..], headers, &[url]].concat();
        self.0.push(wrk::run(&arguments)?);
        Ok(())
    }
}

/// What both kinds of nginx have.
fn frame(inside: &str, temporary: &str) -> String {
    format!(
        "worker_processes 1;\ndaemon off;\npid {temporary}/nginx.pid;\nerror_log {temporary}/nginx.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n access_log off;\n keepalive_requests 100000000;\n client_body_temp_path {temporary}/t;\n\
         proxy_temp_path {temporary}/t;\n fastcgi_temp_path {temporary}/t;\n uwsgi_temp_path {temporary}/t;\n\
         scgi_temp_path {temporary}/t;\n{inside}\n}}\n"
    )
}

/// A program that serves a small page.
fn program(port: u16, temporary: &str) -> String {
    let server = format!(
        "server {{ listen 127.0.0.1:{port}; location / {{ default_type text/plain; return 200 'hello\\n'; }} }}"
    );
    frame(&server, temporary)
}

/// The program and a reverse proxy in front of it, on the host.
struct Beside {
    program: u16,
    proxy: u16,
    children: Vec<Child>,
}

impl Beside {
    fn start(at: &Workspace) -> Result<Self> {
        let (program_port, proxy_port) = (free()?, free()?);
        let mut this = Self { program: program_port, proxy: proxy_port, children: Vec::new() };
        let proxy = format!(
            "upstream program {{ server 127.0.0.1:{program_port}; keepalive 64; keepalive_requests 100000000; }}\n\
             server {{ listen 127.0.0.1:{proxy_port}; location / {{ proxy_pass http://program; proxy_http_version 1.1;\n\
             proxy_set_header Connection ''; proxy_set_header Host $host;\n\
             proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme; }} }}"
        );
        for (name, port) in [("program", program_port), ("proxy", proxy_port)] {
            let dir = at.root.join(name);
            std::fs::create_dir_all(dir.join("t")).map_err(failed(name))?;
            let text = dir.to_string_lossy();
            let config =
                if name == "program" { program(port, &text) } else { frame(&proxy, &text) };
            let file = dir.join("nginx.conf");
            std::fs::write(&file, config).map_err(failed(name))?;
            let mut nginx = Command::new("nginx");
            nginx.arg("-e").arg(dir.join("nginx.log")).arg("-c").arg(&file).stdin(Stdio::null());
            this.children.push(nginx.spawn().map_err(failed("nginx"))?);
            this.wait(port)?;
        }
        Ok(this)
    }

    fn wait(&mut self, port: u16) -> Result<()> {
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            for child in &mut self.children {
                if let Ok(Some(status)) = child.try_wait() {
                    return Err(format!("nginx ended with {status}"));
                }
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> Result<()> {
        for mut child in self.children.drain(..) {
            let pid = child.id().to_string();
            // The master ends its worker.
            Command::new("kill").args(["-TERM", &pid]).status().map_err(failed("kill"))?;
            child.wait().map_err(failed("nginx"))?;
        }
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // There is an error to tell of already.
        let _ = self.stop();
    }
}

fn free() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed("a port"))?;
    listener.local_addr().map(|address| address.port()).map_err(failed("a port"))
}
