//! What counts where several sources say something, and what is refused.

use std::path::PathBuf;

use super::*;
use crate::cli::ServiceArgs;

fn resolve(arguments: ServeArgs, pairs: &[(&str, &str)]) -> Result<ServeSettings, Failure> {
    // Nothing of this machine's own data directory.
    let pairs = pairs.iter().copied().chain([("HOLM_DATA_DIR", "/nonexistent")]);
    ServeSettings::resolve(arguments, &Environment::of(pairs))
}

fn bind(ip: &str) -> ServeArgs {
    ServeArgs { bind: Some(ip.parse().expect("an address")), ..ServeArgs::default() }
}

#[test]
fn flags_come_before_the_environment_before_defaults() {
    let pairs = [("HOLM_BIND", "127.0.0.2"), ("HOLM_PORT", "7")];
    assert_eq!(resolve(ServeArgs::default(), &[]).unwrap().address.to_string(), "127.0.0.1:9000");
    assert_eq!(resolve(ServeArgs::default(), &pairs).unwrap().address.to_string(), "127.0.0.2:7");
    let arguments = ServeArgs { port: Some(0), ..bind("::1") };
    assert_eq!(resolve(arguments, &pairs).unwrap().address.to_string(), "[::1]:0");
    for pair in [("HOLM_BIND", "localhost"), ("HOLM_PORT", "99999"), ("HOLM_MAX_SANDBOXES", "0")] {
        assert_eq!(resolve(ServeArgs::default(), &[pair]).unwrap_err().code, 2, "{pair:?}");
    }
}

#[test]
fn the_token_decides_who_is_let_in() {
    let check = |mode, pairs: &[(&str, &str)], expected: &str| {
        let arguments = ServeArgs { auth: mode, ..ServeArgs::default() };
        let settings = resolve(arguments, pairs).unwrap();
        let got = match settings.auth {
            Auth::Keys => "keys",
            Auth::Token(_, Some(_)) => "token",
            Auth::Token(_, None) => "closed",
            Auth::None => "open",
        };
        assert_eq!(got, expected, "{mode:?} {pairs:?}");
    };
    check(None, &[], "keys");
    check(None, &[("ABX_MCP_AUTH_TOKEN", "t")], "token");
    check(None, &[("HOLM_AUTH_TOKEN", "t")], "token");
    check(None, &[("ABX_MCP_AUTH_TOKEN", "")], "closed");
    check(None, &[("ABX_MCP_AUTH_TOKEN", " ")], "closed");
    check(None, &[("ABX_MCP_AUTH_TOKEN", "t"), ("HOLM_AUTH_TOKEN", "")], "token");
    check(Some(AuthMode::Token), &[("HOLM_AUTH_TOKEN", "")], "closed");
    check(Some(AuthMode::None), &[("ABX_MCP_AUTH_TOKEN", "t")], "open");
    check(Some(AuthMode::Keys), &[("ABX_MCP_AUTH_TOKEN", "t")], "keys");
    let arguments = ServeArgs { auth: Some(AuthMode::Token), ..ServeArgs::default() };
    assert_eq!(resolve(arguments, &[]).unwrap_err().code, 2);
    let settings = resolve(ServeArgs::default(), &[("HOLM_AUTH_TOKEN", "x-marker-x")]).unwrap();
    assert!(!format!("{settings:?}").contains("x-marker-x"));
}

#[test]
fn case_89_other_addresses_than_loopback_need_keys_or_a_token() {
    for ip in ["0.0.0.0", "192.0.2.1", "::", "2001:db8::1", "::ffff:192.0.2.1"] {
        assert!(resolve(bind(ip), &[]).is_ok(), "{ip}");
        assert_eq!(resolve(bind(ip), &[("HOLM_AUTH_TOKEN", " ")]).unwrap_err().code, 2, "{ip}");
        let open = ServeArgs { auth: Some(AuthMode::None), ..bind(ip) };
        assert_eq!(resolve(open, &[("HOLM_AUTH_TOKEN", "t")]).unwrap_err().code, 2, "{ip}");
        assert!(resolve(bind(ip), &[("HOLM_AUTH_TOKEN", "t")]).is_ok(), "{ip}");
    }
    for ip in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
        assert!(resolve(bind(ip), &[]).is_ok(), "{ip}");
    }
}

#[test]
fn origins_are_a_list_of_origins() {
    let check = |value: &str, expected: Option<&[&str]>| {
        let settings = resolve(ServeArgs::default(), &[("ABX_MCP_ALLOWED_ORIGINS", value)]);
        let got = settings.ok().map(|settings| settings.allowed_origins);
        let expected = expected.map(|list| list.iter().map(ToString::to_string).collect());
        assert_eq!(got, expected, "{value}");
    };
    check("", Some(&[]));
    check("https://a.example", Some(&["https://a.example"]));
    check("https://a.example, http://b:1,", Some(&["https://a.example", "http://b:1"]));
    check("a.example", None);
    check("https://a.example/", None);
    check("*", None);
}

#[test]
fn missing_layers_are_allowed_by_name() {
    use Layer::{CpuLimit, Landlock, MemoryLimit, OwnIdRange};
    let check = |value: &str, expected: Option<&[Layer]>| {
        let settings = resolve(ServeArgs::default(), &[("HOLM_ALLOW_MISSING", value)]);
        let got = settings.ok().map(|settings| settings.allow_missing);
        assert_eq!(got.as_deref(), expected, "{value}");
    };
    check("", Some(&[]));
    check("landlock", Some(&[Landlock]));
    check("cpu_limit, memory_limit,,cpu_limit", Some(&[MemoryLimit, CpuLimit]));
    check("own_id_range,landlock,memory_limit,cpu_limit", Some(&Layer::EXCUSABLE));
    check("seccomp", None);
    check("memory limit", None);
    check("all", None);
    let file = File::of("layers", "[sandboxes]\nallow_missing = ['cpu_limit', 'own_id_range']");
    let service = || ServiceArgs { config: Some(file.0.clone()), ..ServiceArgs::default() };
    let settings = resolve(ServeArgs { service: service(), ..ServeArgs::default() }, &[]).unwrap();
    assert_eq!(settings.allow_missing, [OwnIdRange, CpuLimit]);
    let allow_missing = Some("landlock".to_owned());
    let arguments = ServeArgs { service: service(), allow_missing, ..ServeArgs::default() };
    let settings = resolve(arguments, &[("HOLM_ALLOW_MISSING", "cpu_limit")]).unwrap();
    assert_eq!(settings.allow_missing, [Landlock]);
}

/// A settings file for one test.
struct File(PathBuf);

impl File {
    fn of(name: &str, text: &str) -> Self {
        let name = format!("holm-settings-{}-{name}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("a file");
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).expect("it is there");
    }
}

#[test]
fn the_file_comes_after_the_environment_and_before_defaults() {
    let file = File::of(
        "order",
        "[server]\nport = 7000\nbind = '::1'\n[sandboxes]\nmax_per_account = 3\n\
         [billing]\nsmall = 14\ncurrency = 'EUR'\n[sizes.small]\nmemory_mb = 512\n\
         [sessions]\nidle = '5m'\n",
    );
    let service = ServiceArgs { config: Some(file.0.clone()), ..ServiceArgs::default() };
    let arguments = ServeArgs { service, max_sandboxes: Some(9), ..ServeArgs::default() };
    let settings = resolve(arguments, &[("HOLM_PORT", "7001")]).unwrap();
    assert_eq!(settings.address.to_string(), "[::1]:7001");
    assert_eq!(settings.engine.max_sandboxes, 9);
    assert_eq!((settings.engine.prices.small, settings.engine.prices.large), (14, 0));
    assert_eq!(settings.engine.currency, "EUR");
    assert_eq!(settings.engine.sizes.small.memory_mb, 512);
    assert_eq!(settings.engine.sizes.small.vcpus, 2);
    assert_eq!(settings.sessions_idle.as_secs(), 300);
    let from = |key: &str| {
        let found = settings.in_force.iter().find(|setting| setting.key == key);
        found.map(|found| (found.value.as_str(), found.from.as_str())).expect(key)
    };
    let path = file.0.display().to_string();
    assert_eq!(from("server.port"), ("7001", "HOLM_PORT"));
    assert_eq!(from("server.bind"), ("::1", path.as_str()));
    assert_eq!(from("sandboxes.max_per_account"), ("9", "--max-sandboxes"));
    assert_eq!(from("sessions.max"), ("100", "default"));
    assert_eq!(from("server.auth"), ("keys", "default"));
}

#[test]
fn defaults_are_those_of_the_engine() {
    let settings = resolve(ServeArgs::default(), &[]).unwrap();
    let key_rate = Rate { per_second: 1000.0, burst: 2000 };
    let (got, own) = (settings.engine, EngineSettings { key_rate, ..EngineSettings::service() });
    assert_eq!(format!("{got:?}"), format!("{own:?}"));
    assert_eq!(settings.template, own.default_template);
}

#[test]
fn every_setting_is_in_force_once_and_secrets_are_masked() {
    let pairs = [("HOLM_AUTH_TOKEN", "x-marker"), ("HOLM_DATABASE", "postgres://u:x-marker@h/d")];
    let settings = resolve(ServeArgs::default(), &pairs).unwrap();
    let mut keys: Vec<String> = settings.in_force.iter().map(|found| found.key.clone()).collect();
    let mut all: Vec<String> = table::all().iter().map(|all| all.key.to_string()).collect();
    keys.sort();
    all.sort();
    assert_eq!(keys, all);
    assert!(!format!("{settings:?}").contains("x-marker"));
}

#[test]
fn a_disk_has_room_for_its_inodes() {
    for (name, text, fits) in [
        ("disk-default", "", true),
        ("disk-small", "disk_mb = 100", false),
        ("disk-both", "disk_mb = 100\ndisk_inodes = 100000", true),
        ("disk-many", "disk_inodes = 40000000", false),
    ] {
        let file = File::of(name, &format!("[sizes.small]\n{text}"));
        let service = ServiceArgs { config: Some(file.0.clone()), ..ServiceArgs::default() };
        match resolve(ServeArgs { service, ..ServeArgs::default() }, &[]) {
            Ok(_) => assert!(fits, "{name}"),
            Err(failure) => {
                assert!(!fits, "{name}");
                let text = failure.message;
                assert!(text.contains("sizes.small.disk_mb"), "{text}");
                assert!(text.contains("sizes.small.disk_inodes"), "{text}");
            }
        }
    }
}

#[test]
fn wrong_values_name_their_source() {
    let check = |text: &str, part: &str| {
        let file = File::of(&part.replace([' ', '`'], "-"), text);
        let service = ServiceArgs { config: Some(file.0.clone()), ..ServiceArgs::default() };
        let arguments = ServeArgs { service, ..ServeArgs::default() };
        let failure = resolve(arguments, &[]).unwrap_err();
        assert_eq!(failure.code, 2, "{text}");
        let path = file.0.display().to_string();
        assert!(failure.message.contains(part), "{text}: {failure:?}");
        assert!(failure.message.contains(&path), "{text}: {failure:?}");
    };
    check("[server]\nport = 70000", "server.port in");
    check("[sandboxes]\nmax_per_account = 0", "a whole number above 0, not `0`");
    check("[billing]\nsmall = -1", "billing.small in");
    check("[billing]\nsmall = 0.5", "not `0.5`");
    check("[billing]\ngrace = 'soon'", "a duration such as");
    check("[sandboxes]\nallow_missing = ['seccomp']", "cpu_limit, not `seccomp`");
    check("[server]\nauth = 'maybe'", "keys, token or none");
    let file = File::of("lifetimes", "[sandboxes]\nlifetime = '2d'");
    let service = ServiceArgs { config: Some(file.0.clone()), ..ServiceArgs::default() };
    let arguments = ServeArgs { service, ..ServeArgs::default() };
    assert_eq!(resolve(arguments, &[]).unwrap_err().code, 2);
    let service = ServiceArgs { config: Some("/nonexistent/x".into()), ..ServiceArgs::default() };
    let arguments = ServeArgs { service, ..ServeArgs::default() };
    assert!(resolve(arguments, &[]).unwrap_err().message.contains("there is no settings file"));
}

#[test]
fn places_of_the_gate_are_shared_where_there_are_accounts() {
    assert!(!resolve(ServeArgs::default(), &[]).unwrap().uplink.has_one_owner);
    let environment = Environment::default();
    assert!(network::of_host(&environment).unwrap().has_one_owner);
}
