//! serde helpers for proto3 JSON: bytes as base64, 64-bit integers as strings.

/// `bytes` fields: standard base64 with padding on output; on input both alphabets, padded or not.
pub mod bytes {
    use base64::Engine as _;
    use base64::alphabet;
    use base64::engine::DecodePaddingMode;
    use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    const LENIENT: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    const DECODE: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
    const DECODE_URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

    /// Writes bytes as a base64 string.
    pub fn serialize<S: Serializer>(value: &[u8], out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&STANDARD.encode(value))
    }

    /// Reads a base64 string.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        decode(&text).map_err(D::Error::custom)
    }

    /// Decodes base64 of either alphabet, padded or not.
    ///
    /// # Errors
    /// When the text is no base64.
    pub fn decode(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
        let url_safe = text.bytes().any(|b| b == b'-' || b == b'_');
        let engine = if url_safe { &DECODE_URL } else { &DECODE };
        engine.decode(text.as_bytes())
    }

    /// The same for optional fields (`#[serde(default, with = …)]`).
    pub mod option {
        use serde::{Deserialize, Deserializer, Serializer};

        /// Writes the bytes or `null`.
        pub fn serialize<S: Serializer>(
            value: &Option<Vec<u8>>,
            out: S,
        ) -> Result<S::Ok, S::Error> {
            match value {
                Some(bytes) => super::serialize(bytes, out),
                None => out.serialize_none(),
            }
        }

        /// Reads a base64 string or `null`.
        pub fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Vec<u8>>, D::Error> {
            #[derive(Deserialize)]
            struct Wrap(#[serde(with = "super")] Vec<u8>);
            Ok(Option::<Wrap>::deserialize(from)?.map(|w| w.0))
        }
    }
}

/// `int64` fields: a string on output, a string or a number on input.
pub mod int64 {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    /// Writes the number as a string.
    pub fn serialize<S: Serializer>(value: &i64, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(value)
    }

    /// Reads a string or a number.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(i64),
            Text(String),
        }
        match Either::deserialize(from)? {
            Either::Number(n) => Ok(n),
            Either::Text(t) => t.parse().map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Both {
        #[serde(with = "super::bytes")]
        data: Vec<u8>,
        #[serde(with = "super::int64")]
        size: i64,
    }

    fn check(json: &str, data: &[u8], size: i64) {
        let got: Both = serde_json::from_str(json).expect(json);
        assert_eq!(got, Both { data: data.to_vec(), size });
    }

    #[test]
    fn proto_json_forms_are_read() {
        check(r#"{"data":"/+8=","size":"7"}"#, &[0xff, 0xef], 7);
        check(r#"{"data":"_-8","size":7}"#, &[0xff, 0xef], 7);
        check(r#"{"data":"","size":"-1"}"#, &[], -1);
    }

    #[test]
    fn proto_json_forms_are_written() {
        let text = serde_json::to_string(&Both { data: vec![0xff, 0xef], size: 7 }).unwrap();
        assert_eq!(text, r#"{"data":"/+8=","size":"7"}"#);
    }
}
