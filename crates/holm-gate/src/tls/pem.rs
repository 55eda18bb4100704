//! Certificates and keys as text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use zeroize::Zeroizing;

/// A block of such a text.
pub(crate) fn block(label: &str, der: &[u8]) -> Zeroizing<String> {
    let encoded = Zeroizing::new(BASE64.encode(der));
    let mut text = Zeroizing::new(String::with_capacity(encoded.len() * 66 / 64 + 80));
    for part in ["-----BEGIN ", label, "-----\n"] {
        text.push_str(part);
    }
    let mut rest = &**encoded;
    while !rest.is_empty() {
        // Base64 is ASCII, so every place is between characters.
        let (line, behind) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = behind;
    }
    for part in ["-----END ", label, "-----\n"] {
        text.push_str(part);
    }
    text
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    #[test]
    fn a_block_is_read_back() {
        for length in [0_u8, 1, 47, 48, 49, 200] {
            let der: Vec<u8> = (0..length).collect();
            let text = block("CERTIFICATE", &der);
            assert!(text.lines().all(|line| line.len() <= 64), "{}", *text);
            let read = CertificateDer::from_pem_slice(text.as_bytes()).expect("a block");
            assert_eq!(*read, *der);
        }
    }
}
