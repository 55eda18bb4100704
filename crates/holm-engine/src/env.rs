//! Rules for environment variables.

use std::collections::BTreeMap;

use crate::Error;

/// Most bytes of one `name=value`: the kernel takes 128 KiB with the closing NUL.
pub const MAX_ENTRY: usize = (128 << 10) - 1;
/// Most bytes of all of them.
pub const MAX_TOTAL: usize = 4 << 20;
/// Most variables.
const MAX_COUNT: usize = 10_000;

/// Where there is no network, package managers try again for up to a minute before they say so.
const NO_RETRIES: &[(&str, &str)] = &[
    ("CARGO_NET_RETRY", "0"),
    // One, because only then pip says what is wrong.
    ("PIP_RETRIES", "1"),
    ("UV_HTTP_RETRIES", "0"),
    ("npm_config_fetch_retries", "0"),
];

/// Adds what makes programs fail at once without a network. What the caller set stays; npm takes
/// its variables in either case.
pub(crate) fn without_network(mut env: BTreeMap<String, String>) -> BTreeMap<String, String> {
    for (name, value) in NO_RETRIES {
        if !env.keys().any(|known| known.eq_ignore_ascii_case(name)) {
            env.insert((*name).to_owned(), (*value).to_owned());
        }
    }
    env
}

/// Where programs look for the certificates that they trust; those of most languages trust others
/// than the system's by themselves.
pub(crate) const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
const TRUST: &[&str] = &[
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
];

/// Adds what makes programs trust the certificates of a file, of which the gate's is one. What the
/// caller set stays.
pub(crate) fn trust(env: &mut BTreeMap<String, String>, bundle: &str) {
    for name in TRUST {
        env.entry((*name).to_owned()).or_insert_with(|| bundle.to_owned());
    }
}

/// True for what every shell takes for the name of a variable; also for an empty text.
pub(crate) fn is_identifier(name: &str) -> bool {
    let plain = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    name.bytes().all(plain) && !name.starts_with(|first: char| first.is_ascii_digit())
}

/// Refuses variables that could not reach a command unchanged.
pub(crate) fn check(env: &BTreeMap<String, String>) -> Result<(), Error> {
    let mut total = 0;
    for (name, value) in env {
        let shown = crate::text::shorten(name, 60);
        if name.is_empty() {
            return Err(Error::invalid("env holds a variable with an empty name"));
        }
        // A program may have others, but shells drop them, each kind of shell others.
        if !is_identifier(name) {
            return Err(Error::invalid(format!(
                "env: {shown:?} is no name that reaches every program; a name has letters a-z and \
                 A-Z, digits and `_`, and does not begin with a digit"
            )));
        }
        if value.contains('\0') {
            return Err(Error::invalid(format!("env: the value of {shown} holds NUL")));
        }
        let size = name.len() + 1 + value.len();
        if size > MAX_ENTRY {
            return Err(Error::new(
                crate::ErrorKind::TooLarge,
                format!("env: {shown} has {size} bytes; a variable may have {MAX_ENTRY}"),
            )
            .suggest("Write large values to a file with write_file."));
        }
        total += size + 1;
    }
    if total > MAX_TOTAL || env.len() > MAX_COUNT {
        return Err(Error::new(
            crate::ErrorKind::TooLarge,
            format!(
                "env has {} variables with {total} bytes; {MAX_COUNT} and {MAX_TOTAL} are allowed",
                env.len()
            ),
        )
        .suggest("Write large values to a file with write_file."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(name: &str, value: &str, want: Option<&str>) {
        let got = check(&BTreeMap::from([(name.to_owned(), value.to_owned())]));
        match (got, want) {
            (Ok(()), None) => {}
            (Err(error), Some(part)) => assert!(error.public.contains(part), "{error}"),
            (got, want) => panic!("{name:?}: {got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn case_108_wrong_or_too_large_variables_are_refused_clearly() {
        check_one("naive_9", "€ and é→", None);
        check_one("_", "", None);
        check_one("A", &"x".repeat(MAX_ENTRY - 2), None);
        check_one("A", &"x".repeat(MAX_ENTRY - 1), Some("a variable may have"));
        check_one("", "x", Some("empty name"));
        for name in ["A=B", "A\0", "naïve €", "9", "9A", "A-B", "a.b", "A B", "//x:_token"] {
            check_one(name, "x", Some("no name that reaches every program"));
        }
        check_one("A", "x\0y", Some("NUL"));
    }

    #[test]
    fn case_110_retries_are_off_unless_the_caller_sets_them() {
        let told = without_network(BTreeMap::new());
        assert_eq!((told.len(), told["PIP_RETRIES"].as_str()), (NO_RETRIES.len(), "1"));
        let own = [("NPM_CONFIG_FETCH_RETRIES", "3"), ("PIP_RETRIES", "7"), ("A", "b")];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let told = without_network(own);
        assert_eq!(told["PIP_RETRIES"], "7");
        assert_eq!(told["NPM_CONFIG_FETCH_RETRIES"], "3");
        assert!(!told.contains_key("npm_config_fetch_retries"), "{told:?}");
        assert_eq!((told["A"].as_str(), told.len()), ("b", NO_RETRIES.len() + 1));
    }

    #[test]
    fn case_108_two_hundred_variables_of_10_kb_fit_and_4_mib_is_the_end() {
        let many = |count: usize| -> BTreeMap<_, _> {
            (0..count).map(|n| (format!("V{n}"), "x".repeat(10 << 10))).collect()
        };
        assert!(check(&many(200)).is_ok());
        assert!(check(&many(410)).is_err());
    }
}
