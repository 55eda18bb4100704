//! One rule: a name, what is below a name, or a network, and the ports for which it counts.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::cidr::Cidr;
use super::error::PolicyError;
use super::name::HostName;

/// Most characters of a rule: the longest name, its star and two ports fit.
pub const MAX_RULE: usize = 280;

/// One line of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What it is about.
    pub target: Target,
    /// For which ports; all without.
    pub ports: Option<RangeInclusive<u16>>,
}

/// What a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One name.
    Name(HostName),
    /// Everything below a name, not the name itself.
    Suffix(HostName),
    /// A network or one address.
    Net(Cidr),
}

impl Rule {
    /// True for a rule about an address.
    #[must_use]
    pub fn is_net(&self) -> bool {
        matches!(self.target, Target::Net(_))
    }

    /// True where the rule counts for this port.
    #[must_use]
    pub fn covers_port(&self, port: u16) -> bool {
        self.ports.as_ref().is_none_or(|ports| ports.contains(&port))
    }

    /// True for a rule about an address that holds this one.
    #[must_use]
    pub fn covers_address(&self, address: IpAddr) -> bool {
        matches!(&self.target, Target::Net(net) if net.contains(address))
    }

    /// True for a rule about a name that holds this one.
    #[must_use]
    pub fn covers_name(&self, name: &HostName) -> bool {
        match &self.target {
            Target::Name(own) => own == name,
            Target::Suffix(suffix) => name.is_below(suffix),
            Target::Net(_) => false,
        }
    }
}

impl FromStr for Rule {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let wrong = |reason: String| PolicyError::rule(text, reason);
        if text.len() > MAX_RULE {
            return Err(wrong(format!("longer than {MAX_RULE} characters")));
        }
        let (target, ports) = split(text);
        let ports = ports.map(parse_ports).transpose().map_err(|text| wrong(text.to_owned()))?;
        let target = parse_target(target).map_err(wrong)?;
        Ok(Self { target, ports })
    }
}

/// Target and ports. A colon belongs to ports only where it cannot be part of an address.
fn split(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((target, ports)) if !target.contains(':') || target.contains(']') => {
            // `[2001:db8::` is an address cut in two.
            if text.contains('[') && !target.contains(']') {
                (text, None)
            } else {
                (target, Some(ports))
            }
        }
        _ => (text, None),
    }
}

fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, &'static str> {
    const FORM: &str = "ports are 1 to 65535, one (`:443`) or a range (`:5432-5440`)";
    let port = |text: &str| {
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|port| is_plain && *port > 0).ok_or(FORM)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    if first > last {
        return Err("the first port of a range is the smaller one");
    }
    Ok(first..=last)
}

fn parse_target(text: &str) -> Result<Target, String> {
    if text == "*" {
        return Err("too wide; name hosts, or for a policy use mode `open`, or 0.0.0.0/0 and [::]/0 with ports".to_owned());
    }
    if let Some(suffix) = text.strip_prefix("*.") {
        return suffix
            .parse()
            .map(Target::Suffix)
            .map_err(|error: super::NotAName| error.to_string());
    }
    if text.contains('*') {
        return Err("a star stands only at the beginning, as in `*.example.com`".to_owned());
    }
    let is_address = text.contains(['/', ':', '[']) || text.parse::<IpAddr>().is_ok();
    if is_address {
        return text
            .parse()
            .map(Target::Net)
            .map_err(|error: super::NotANetwork| error.to_string());
    }
    text.parse().map(Target::Name).map_err(|error: super::NotAName| error.to_string())
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Name(name) => write!(f, "{name}")?,
            Target::Suffix(name) => write!(f, "*.{name}")?,
            Target::Net(net) => write!(f, "{net}")?,
        }
        match &self.ports {
            None => Ok(()),
            Some(ports) if ports.start() == ports.end() => write!(f, ":{}", ports.start()),
            Some(ports) => write!(f, ":{}-{}", ports.start(), ports.end()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_written() {
        let check = |text: &str, expected: &str| {
            let rule = text.parse::<Rule>().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(rule.to_string(), expected);
            assert_eq!(rule.to_string().parse::<Rule>().as_ref(), Ok(&rule), "{text}");
        };
        check("Example.com", "example.com");
        check("*.Example.com.:443", "*.example.com:443");
        check("203.0.113.0/24:5432-5440", "203.0.113.0/24:5432-5440");
        check("203.0.113.7:80-80", "203.0.113.7:80");
        check("[2001:db8::]/32", "[2001:db8::]/32");
        check("[2001:db8::]/32:443", "[2001:db8::]/32:443");
        check("[2001:db8::1]:443", "[2001:db8::1]:443");
        check("2001:db8::/32", "[2001:db8::]/32");
        check("2001:db8::1:443", "[2001:db8::1:443]");
        check("[::]/0:1-65535", "[::]/0:1-65535");
    }

    #[test]
    fn wrong_rules_say_what_to_write() {
        let check = |text: &str, reason: &str| {
            let error = text.parse::<Rule>().expect_err(text).to_string();
            let shown = crate::text::shown(text, 80);
            assert_eq!(error, format!("network rule `{shown}`: {reason}"));
        };
        let ports = "ports are 1 to 65535, one (`:443`) or a range (`:5432-5440`)";
        for text in ["a.example:", "a.example:0", "a.example:65536", "a.example:+1", "a.example:1-"]
        {
            check(text, ports);
        }
        check("a.example:9-1", "the first port of a range is the smaller one");
        check(
            "*",
            "too wide; name hosts, or for a policy use mode `open`, or 0.0.0.0/0 and [::]/0 with ports",
        );
        check(
            "*:443",
            "too wide; name hosts, or for a policy use mode `open`, or 0.0.0.0/0 and [::]/0 with ports",
        );
        check("a.*.example", "a star stands only at the beginning, as in `*.example.com`");
        check("", "a name has 1 to 253 characters");
        check("*.", "a name has 1 to 253 characters");
        let number =
            "this is a number, not a name; write addresses as 203.0.113.7 or [2001:db8::7]";
        check("2130706433", number);
        check("0x7f.1:80", number);
        let form = "a name has letters, digits, `-`, `_` and dots; write other scripts as `xn--…`";
        check("a b", form);
        check("a\r\nb", form);
        check("https://a.example", "ports are 1 to 65535, one (`:443`) or a range (`:5432-5440`)");
        check("203.0.113.5/24", "the address has bits beyond the prefix; write 203.0.113.0/24");
        check(&"a".repeat(281), "longer than 280 characters");
    }
}
