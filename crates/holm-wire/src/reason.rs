//! Why a call failed, for programs: what Connect's codes are too coarse for.
//!
//! It travels as an error detail, as the protocol has them: a message `holm.guest.v1.Reason` with
//! one text field (`string reason = 1`), in protobuf and base64. Clients that do not know it pass
//! over it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::encoding::bytes;

/// The kind of detail.
const TYPE: &str = "holm.guest.v1.Reason";
/// Field 1, a text.
const FIELD: u8 = 0x0a;

/// What there was too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Bytes or inodes of the sandbox's disk.
    DiskFull,
    /// Room in one file: a limit of the file system or of the process.
    TooLarge,
}

impl Reason {
    const ALL: [Self; 2] = [Self::DiskFull, Self::TooLarge];

    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DiskFull => "disk_full",
            Self::TooLarge => "too_large",
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Detail {
    r#type: String,
    #[serde(with = "bytes")]
    value: Vec<u8>,
}

/// Writes the list of details.
///
/// # Errors
/// As the serializer.
pub(crate) fn serialize<S: Serializer>(reason: &Option<Reason>, out: S) -> Result<S::Ok, S::Error> {
    let detail = reason.map(|reason| {
        let name = reason.name().as_bytes();
        let length = u8::try_from(name.len()).unwrap_or(0);
        let value = [&[FIELD, length], name].concat();
        Detail { r#type: TYPE.to_owned(), value }
    });
    out.collect_seq(detail)
}

/// Finds the reason among the details. What is no list of details, or not known, is no reason: it
/// must not hide the error that it belongs to.
///
/// # Errors
/// When the input is not JSON.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Reason>, D::Error> {
    let details = serde_json::Value::deserialize(from)?;
    let known = |detail: &serde_json::Value| {
        let detail = Detail::deserialize(detail).ok().filter(|detail| detail.r#type == TYPE)?;
        let (field, rest) = detail.value.split_first()?;
        let (length, name) = rest.split_first()?;
        let whole = *field == FIELD && usize::from(*length) == name.len();
        Reason::ALL.into_iter().find(|reason| whole && reason.name().as_bytes() == name)
    };
    Ok(details.as_array().and_then(|list| list.iter().find_map(known)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::{Code, Error};

    #[test]
    fn a_reason_travels_as_an_error_detail() {
        let error = Error::new(Code::ResourceExhausted, "x");
        assert_eq!(
            serde_json::to_string(&error).unwrap(),
            r#"{"code":"resource_exhausted","message":"x"}"#
        );
        for reason in Reason::ALL {
            let error = error.clone().because(reason);
            let text = serde_json::to_string(&error).unwrap();
            assert_eq!(serde_json::from_str::<Error>(&text).unwrap(), error, "{text}");
        }
        let text = serde_json::to_string(&error.because(Reason::DiskFull)).unwrap();
        // Field 1 with nine bytes: what any protobuf library reads.
        let want = r#"[{"type":"holm.guest.v1.Reason","value":"CglkaXNrX2Z1bGw="}]"#;
        assert!(text.ends_with(&format!(r#""details":{want}}}"#)), "{text}");
    }

    #[test]
    fn details_of_others_and_broken_ones_are_passed_over() {
        let check = |details: &str, want: Option<Reason>| {
            let text = format!(r#"{{"code":"not_found","message":"m","details":{details}}}"#);
            let error: Error = serde_json::from_str(&text).unwrap();
            assert_eq!((error.message.as_str(), error.reason), ("m", want), "{details}");
        };
        let ours = r#"{"type":"holm.guest.v1.Reason","value":"Cgl0b29fbGFyZ2U","debug":{"a":1}}"#;
        check(&format!("[{ours}]"), Some(Reason::TooLarge));
        check(&format!(r#"[7,{{"type":"x.Y","value":"AA"}},{ours}]"#), Some(Reason::TooLarge));
        check("[]", None);
        check("null", None);
        check("7", None);
        check(r#"[{"type":"holm.guest.v1.Reason","value":"%%%"}]"#, None);
        check(r#"[{"type":"holm.guest.v1.Reason","value":""}]"#, None);
        check(r#"[{"type":"holm.guest.v1.Reason","value":"Cv8"}]"#, None);
        check(r#"[{"type":"holm.guest.v1.Reason","value":"CgR3aGF0"}]"#, None);
        check(r#"[{"type":"x.Y","value":"CglkaXNrX2Z1bGw"}]"#, None);
    }
}
