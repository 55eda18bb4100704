//! The authority of an installation: the sandboxes of this machine trust it, nobody else does. With it
//! the gate speaks for the hosts that credentials are bound to. It is limited to servers, to names
//! (no address), and to signing certificates that sign nothing.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints, PKCS_ECDSA_P256_SHA256, SanType, SerialNumber,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::file::{self, Wrong};
use super::pem;
use crate::policy::HostName;

/// How long an authority holds.
const YEARS: i32 = 10;
/// How long a certificate of a host holds, at least; it is made anew after half of it.
pub(crate) const DAYS: u16 = 6;

/// The authority of an installation.
pub struct Ca {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// An authority that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the gate's authority {}: {reason}", path.display())]
pub struct CaError {
    path: PathBuf,
    reason: Reason,
}

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error(transparent)]
    File(#[from] Wrong),
    #[error("it has no key and certificate that belong together; remove it, and a new one is made")]
    Content,
    #[error("{0}")]
    Making(#[from] rcgen::Error),
}

impl Ca {
    /// The authority of this directory, made if there is none yet.
    ///
    /// # Errors
    /// When its file cannot be read or written, is open to others, or holds something else.
    pub fn load_or_create(directory: &Path) -> Result<Self, CaError> {
        let path = directory.join(file::NAME);
        file::load_or_make(directory, make)
            .and_then(|text| Self::read(&text))
            .map_err(|reason| CaError { path, reason })
    }

    /// What sandboxes must trust.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate
    }

    fn read(text: &str) -> Result<Self, Reason> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes());
        let key = key.map_err(|_| Reason::Content)?;
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ECDSA_P256_SHA256)
            .map_err(|_| Reason::Content)?;
        let certificate = CertificateDer::from_pem_slice(text.as_bytes());
        let certificate = certificate.map_err(|_| Reason::Content)?;
        // The name of the authority is made of its key, so this finds a certificate of another one.
        let name = name_of(&key);
        let holds = |part: &[u8]| certificate.windows(part.len()).any(|window| window == part);
        if !holds(name.as_bytes()) || !holds(key.public_key_raw()) {
            return Err(Reason::Content);
        }
        let issuer = Issuer::new(params(&key), key);
        Ok(Self { certificate: pem::block("CERTIFICATE", &certificate).to_string(), issuer })
    }

    /// A certificate for one host, and its key.
    pub(crate) fn issue(
        &self,
        host: &HostName,
    ) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        hold(&mut params, i32::from(DAYS) * 2);
        params.serial_number = Some(serial()?);
        params.subject_alt_names = vec![SanType::DnsName(host.as_str().try_into()?)];
        params.distinguished_name = named("holm egress gate");
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok((certificate.into(), key.into()))
    }
}

impl fmt::Debug for Ca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ca")
    }
}

/// A new authority, as the text of its file.
fn make() -> Result<Zeroizing<String>, Reason> {
    let key = KeyPair::generate()?;
    let mut params = params(&key);
    params.serial_number = Some(serial()?);
    let certificate = params.self_signed(&key)?;
    let private = Zeroizing::new(key.serialize_der());
    let mut text = pem::block("PRIVATE KEY", &private);
    text.push_str(&pem::block("CERTIFICATE", certificate.der()));
    Ok(text)
}

/// All of it but its number and its times follows from the key.
fn params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    hold(&mut params, YEARS * 365);
    params.distinguished_name = named(&name_of(key));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let addresses = [
        CidrSubnet::from_addr_prefix(Ipv4Addr::UNSPECIFIED.into(), 0),
        CidrSubnet::from_addr_prefix(Ipv6Addr::UNSPECIFIED.into(), 0),
    ];
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: Vec::new(),
        excluded_subtrees: addresses.into_iter().map(GeneralSubtree::IpAddress).collect(),
    });
    params
}

/// Two installations have two names, so that a client that trusts both takes the right one.
fn name_of(key: &KeyPair) -> String {
    let hash = Sha256::digest(key.public_key_raw());
    let hex: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("holm egress gate {hex}")
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::OrganizationName, "holm");
    names.push(DnType::CommonName, name);
    names
}

/// Holds from yesterday, for clocks that are behind, to so many days from now.
fn hold(params: &mut CertificateParams, days: i32) {
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let after = |days: i32| {
        let day = today.saturating_add(jiff::Span::new().days(days));
        // Months and days are never negative.
        let part = |number: i8| number.unsigned_abs();
        rcgen::date_time_ymd(day.year().into(), part(day.month()), part(day.day()))
    };
    params.not_before = after(-1);
    params.not_after = after(days);
}

/// Twenty bytes at most, the first of which leaves it positive.
fn serial() -> Result<SerialNumber, rcgen::Error> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|_| rcgen::Error::RingUnspecified)?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}
