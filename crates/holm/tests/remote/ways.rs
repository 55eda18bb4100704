//! Ways to a service: TLS with an authority of one's own, proxies.

use crate::common::{Home, as_root, json};
use crate::peer::{Authority, Pipe, Proxy};
use crate::{end, raw, service};

as_root!(
    tls_with_an_own_authority_through_a_proxy,
    tls_without_its_authority_is_refused,
    a_plain_service_through_a_proxy,
    this_machine_needs_no_proxy,
    a_proxy_that_is_not_there_is_said,
);

fn works(mcp: &crate::common::Mcp) {
    mcp.initialize("2025-11-25");
    let ran = mcp.call("run_code", json!({"code": "print(6*7)"}));
    assert_eq!(ran.ok()["stdout"], "42\n", "{}", mcp.stderr());
}

fn text(path: &std::path::Path) -> &str {
    path.to_str().expect("text")
}

fn tls_with_an_own_authority_through_a_proxy(home: &Home) {
    let service = public(home);
    let authority = Authority::new(&home.dir);
    let proxy = Proxy::new(authority.front(service.address));
    for variable in ["HOLM_CA_FILE", "SSL_CERT_FILE"] {
        let env = [(variable, text(&authority.file)), ("https_proxy", &*proxy.url())];
        let mcp = raw(home, "https://holm.test:8443", &env);
        works(&mcp);
        assert!(!mcp.stderr().contains("pass@word"), "{}", mcp.stderr());
        end(mcp);
    }
    let seen = proxy.seen();
    assert!(!seen.is_empty());
    for head in seen {
        assert!(head.starts_with("CONNECT holm.test:8443 HTTP/1.1\r\n"), "{head}");
        // Base64 of `user:pass@word`.
        assert!(head.contains("Proxy-Authorization: Basic dXNlcjpwYXNzQHdvcmQ="), "{head}");
        assert!(!head.contains(crate::TOKEN), "the proxy got the key: {head}");
    }
    service.end();
}

/// A service that answers to the name in the certificate.
fn public(home: &Home) -> crate::common::Serve {
    let env = [
        ("HOLM_AUTH_TOKEN", crate::TOKEN),
        ("HOLM_ALLOWED_ORIGINS", "https://holm.test:8443,http://holm.test"),
    ];
    home.serve(&[], &env)
}

fn tls_without_its_authority_is_refused(home: &Home) {
    let service = public(home);
    let authority = Authority::new(&home.dir);
    let proxy = Proxy::new(authority.front(service.address));
    // Not trusted, and trusted but for another name.
    let untrusted = [("https_proxy", &*proxy.url())];
    let other = [("https_proxy", &*proxy.url()), ("HOLM_CA_FILE", text(&authority.file))];
    for (url, env) in [("https://holm.test", &untrusted[..]), ("https://other.test", &other[..])] {
        let mcp = raw(home, url, env);
        let told = mcp.call("run_code", json!({"code": "print(1)"}));
        assert_eq!(told.code(), "unavailable", "{url}");
        assert!(told.text().contains("HOLM_CA_FILE"), "{}", told.text());
        end(mcp);
    }
    service.end();
}

fn a_plain_service_through_a_proxy(home: &Home) {
    let service = public(home);
    let proxy = Proxy::new(service.address);
    let mcp = raw(home, "http://holm.test/", &[("HTTP_PROXY", &proxy.url())]);
    works(&mcp);
    assert!(mcp.stderr().contains("unencrypted"), "{}", mcp.stderr());
    end(mcp);
    for head in proxy.seen() {
        assert!(head.contains(" http://holm.test/v1/mcp HTTP/1.1\r\n"), "{head}");
    }
    service.end();
}

fn this_machine_needs_no_proxy(home: &Home) {
    let service = service(home);
    let unused = Proxy::new(service.address);
    let url = format!("http://{}", service.address);
    let mcp = raw(home, &url, &[("HTTP_PROXY", &unused.url())]);
    works(&mcp);
    end(mcp);
    assert!(unused.seen().is_empty());
    service.end();
}

fn a_proxy_that_is_not_there_is_said(home: &Home) {
    let nowhere = Pipe::new(None);
    let env = [("HTTPS_PROXY", &*nowhere.url())];
    let mcp = raw(home, "https://holm.test", &env);
    let told = mcp.call("run_code", json!({"code": "print(1)"}));
    assert_eq!(told.code(), "unavailable");
    assert!(told.text().contains("proxy"), "{}", told.text());
    end(mcp);
}
