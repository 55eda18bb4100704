//! Putting credentials in: in the headers that are named for them and nowhere else.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, general_purpose};
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use zeroize::Zeroizing;

use super::injection::Injection;

/// The longest value that a header gets.
const LONGEST: usize = 32 * 1024;

/// With or without padding.
const BASE64: GeneralPurpose = {
    let any = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(&STANDARD, any)
};

/// The values with credentials in them would be too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a header with its secret is longer than {LONGEST} bytes")]
pub(crate) struct TooLong;

/// Replaces the placeholders of these credentials; how many values changed.
pub(crate) fn replace(headers: &mut HeaderMap, by: &[&Injection]) -> Result<usize, TooLong> {
    let mut changed = 0;
    for (name, value) in headers.iter_mut() {
        let by: Vec<&Injection> = by.iter().filter(|it| it.is_in(name)).copied().collect();
        if by.is_empty() {
            continue;
        }
        let new = match basic(value.as_bytes()) {
            Some(decoded) => substitute(&decoded, &by)?.map(|new| {
                let encoded = Zeroizing::new(general_purpose::STANDARD.encode(&*new));
                Zeroizing::new([b"Basic ", encoded.as_bytes()].concat())
            }),
            None => substitute(value.as_bytes(), &by)?,
        };
        if let Some(new) = new {
            if new.len() > LONGEST {
                return Err(TooLong);
            }
            // What a secret may consist of was checked, so this is a value.
            let mut new = HeaderValue::from_bytes(&new).map_err(|_| TooLong)?;
            new.set_sensitive(true);
            *value = new;
            changed += 1;
        }
    }
    Ok(changed)
}

/// User and password of the scheme Basic.
fn basic(value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (scheme, encoded) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    BASE64.decode(encoded.trim_ascii()).ok().map(Zeroizing::new)
}

/// The text with each placeholder replaced, if there is one. In one pass, so that a secret that looks
/// like another one's placeholder stays as it is; the longest placeholder counts.
fn substitute(text: &[u8], by: &[&Injection]) -> Result<Option<Zeroizing<Vec<u8>>>, TooLong> {
    // Room for all of it, so that no copy is left behind by growing.
    let mut new: Option<Zeroizing<Vec<u8>>> = None;
    let mut copied = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = text.get(at..).unwrap_or_default();
        let here = by.iter().filter(|it| rest.starts_with(it.placeholder()));
        let Some(found) = here.max_by_key(|it| it.placeholder().len()) else {
            at += 1;
            continue;
        };
        let new = new.get_or_insert_with(|| Zeroizing::new(Vec::with_capacity(LONGEST)));
        let before = text.get(copied..at).unwrap_or_default();
        if new.len() + before.len() + found.secret().len() > LONGEST {
            return Err(TooLong);
        }
        new.extend_from_slice(before);
        new.extend_from_slice(found.secret());
        at += found.placeholder().len();
        copied = at;
    }
    if let Some(new) = &mut new {
        let behind = text.get(copied..).unwrap_or_default();
        if new.len() + behind.len() > LONGEST {
            return Err(TooLong);
        }
        new.extend_from_slice(behind);
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::super::secret::Secret;
    use super::*;

    fn injection(placeholder: &str, secret: &str, headers: &[&str]) -> Injection {
        let hosts = vec!["api.example".parse().expect("a rule")];
        let headers: Vec<String> = headers.iter().map(|text| (*text).to_owned()).collect();
        Injection::new(hosts, placeholder.into(), Secret::new(secret), &headers, false)
            .expect("an injection")
    }

    fn replaced(by: &[Injection], name: &str, value: &str) -> Result<String, TooLong> {
        let mut headers = HeaderMap::new();
        let name = HeaderName::try_from(name).expect("a name");
        headers.insert(name.clone(), HeaderValue::from_str(value).expect("a value"));
        replace(&mut headers, &by.iter().collect::<Vec<_>>())?;
        Ok(headers[&name].to_str().expect("text").to_owned())
    }

    #[test]
    fn placeholders_are_replaced_in_named_headers() {
        let by = [
            injection("holm-first", "FIRST", &[]),
            injection("holm-first-longer", "LONGER holm-first", &[]),
            injection("holm-other", "OTHER", &["x-token"]),
        ];
        let check = |name: &str, value: &str, expected: &str| {
            assert_eq!(replaced(&by, name, value).as_deref(), Ok(expected), "{name}: {value}");
        };
        check("authorization", "holm-first", "FIRST");
        check("Authorization", "Bearer holm-first", "Bearer FIRST");
        check("x-api-key", "a holm-first b holm-first", "a FIRST b FIRST");
        check("authorization", "token holm-first-longer", "token LONGER holm-first");
        check("x-token", "holm-other", "OTHER");
        // Other headers, other cases, parts of it.
        check("cookie", "holm-first", "holm-first");
        check("x-token", "holm-first", "holm-first");
        check("authorization", "holm-other", "holm-other");
        check("authorization", "Bearer HOLM-FIRST", "Bearer HOLM-FIRST");
        check("authorization", "Bearer holm-firs", "Bearer holm-firs");
        check("authorization", "", "");
    }

    #[test]
    fn placeholders_in_basic_are_replaced() {
        let by = [injection("holm-first", "FIRST", &[])];
        let check = |value: &str, expected: &str| {
            assert_eq!(replaced(&by, "authorization", value).as_deref(), Ok(expected), "{value}");
        };
        // user:holm-first, holm-first: and x:holm-first without padding
        check("Basic dXNlcjpob2xtLWZpcnN0", "Basic dXNlcjpGSVJTVA==");
        check("basic aG9sbS1maXJzdDo=", "Basic RklSU1Q6");
        check("BASIC aG9sbS1maXJzdDo", "Basic RklSU1Q6");
        check("Basic dXNlcjpwYXNz", "Basic dXNlcjpwYXNz");
        check("Basic !!!", "Basic !!!");
        check("Basic holm-first", "Basic FIRST");
        check("Bearer aG9sbS1maXJzdDo=", "Bearer aG9sbS1maXJzdDo=");
    }

    #[test]
    fn a_value_has_a_bound() {
        let by = [injection("holm-first", &"s".repeat(8000), &[])];
        assert!(replaced(&by, "authorization", &"holm-first".repeat(4)).is_ok());
        assert_eq!(replaced(&by, "authorization", &"holm-first".repeat(5)), Err(TooLong));
        let long = format!("holm-first{}", "a".repeat(LONGEST));
        assert_eq!(replaced(&by, "authorization", &long), Err(TooLong));
    }
}
