//! The arguments of one tool call: taken one by one, each judged with a message that names the
//! argument and what is allowed, so that a model can mend its call.
//!
//! The schema shows one spelling of each argument. Others that models know from similar tools are
//! accepted; two spellings at once are fine as long as they say the same. Null counts as left out.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use holm_engine::EgressPolicy;
use serde_json::{Map, Value};

use super::jsonrpc::shortened;
use super::outcome::ToolError;

/// The arguments that are still to be taken.
#[derive(Debug)]
pub struct Args {
    rest: Map<String, Value>,
    known: Vec<&'static str>,
}

/// A value together with the spelling under which it came.
type Spelled = (&'static str, Value);

impl Args {
    /// The `arguments` of a call.
    ///
    /// # Errors
    /// When they are no object.
    pub fn new(arguments: Option<Value>) -> Result<Self, ToolError> {
        let rest = match arguments {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(map)) => map,
            Some(other) => {
                return Err(refuse("arguments", "an object with the tool's arguments", &other));
            }
        };
        Ok(Self { rest, known: Vec::new() })
    }

    /// Every argument has been taken: what is left over is unknown.
    ///
    /// # Errors
    /// When something is left over.
    pub fn finish(&mut self) -> Result<(), ToolError> {
        let unknown: Vec<String> =
            self.rest.keys().map(|name| format!("`{}`", shortened(name))).take(10).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let known: Vec<String> = self.known.iter().map(|name| format!("`{name}`")).collect();
        let known = match known.len() {
            0 => "this tool takes none".to_owned(),
            _ => format!("known are {}", known.join(", ")),
        };
        let noun = if unknown.len() == 1 { "argument" } else { "arguments" };
        Err(ToolError::invalid(format!("unknown {noun} {}; {known}", unknown.join(", "))))
    }

    fn pull(&mut self, name: &'static str) -> Option<Spelled> {
        match self.rest.remove(name) {
            None | Some(Value::Null) => None,
            Some(value) => Some((name, value)),
        }
    }

    /// Takes `name`, or one of the hidden spellings.
    fn take(
        &mut self,
        name: &'static str,
        hidden: &[&'static str],
    ) -> Result<Option<Spelled>, ToolError> {
        self.known.push(name);
        let mut found = self.pull(name);
        for spelling in hidden {
            let Some(other) = self.pull(spelling) else { continue };
            match &found {
                None => found = Some(other),
                Some((first, value)) if *value != other.1 => return Err(differ(first, spelling)),
                Some(_) => {}
            }
        }
        Ok(found)
    }

    /// A string that may be left out.
    ///
    /// # Errors
    /// When it is no string.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, ToolError> {
        match self.take(name, &[])? {
            None => Ok(None),
            Some((_, Value::String(text))) => Ok(Some(text)),
            Some((name, other)) => Err(refuse(name, "a string", &other)),
        }
    }

    /// A string that may be left out but not blank, without NUL.
    ///
    /// # Errors
    /// When it is no such string.
    pub fn word(&mut self, name: &'static str) -> Result<Option<String>, ToolError> {
        let text = self.text(name)?;
        match &text {
            Some(text) if text.trim().is_empty() => {
                Err(ToolError::invalid(format!("`{name}` must not be blank; leave it out instead")))
            }
            Some(text) if text.contains('\0') => {
                Err(ToolError::invalid(format!("`{name}` must not hold a NUL character")))
            }
            _ => Ok(text),
        }
    }

    /// A string that must be there; it may be empty.
    ///
    /// # Errors
    /// When it is missing or no string.
    pub fn required_text(&mut self, name: &'static str) -> Result<String, ToolError> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    /// A string that must be there, not blank, without NUL.
    ///
    /// # Errors
    /// When it is missing or no such string.
    pub fn required_word(&mut self, name: &'static str) -> Result<String, ToolError> {
        self.word(name)?.ok_or_else(|| missing(name))
    }

    /// One of some words; `hidden` maps further spellings of a word to it.
    ///
    /// # Errors
    /// When it is another word.
    pub fn choice(
        &mut self,
        name: &'static str,
        allowed: &[&'static str],
        hidden: &[(&str, &'static str)],
    ) -> Result<Option<&'static str>, ToolError> {
        let Some((name, value)) = self.take(name, &[])? else { return Ok(None) };
        let word = value.as_str().unwrap_or_default();
        let listed = allowed.iter().find(|known| **known == word).copied();
        let spelled = hidden.iter().find(|(alias, _)| *alias == word).map(|(_, known)| *known);
        match listed.or(spelled) {
            Some(known) => Ok(Some(known)),
            None => {
                let allowed: Vec<String> =
                    allowed.iter().map(|word| format!("\"{word}\"")).collect();
                Err(refuse(name, &format!("one of {}", allowed.join(", ")), &value))
            }
        }
    }

    /// A whole number in `range`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn integer(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, ToolError> {
        match self.take(name, &[])? {
            None => Ok(None),
            Some((name, value)) => whole(name, &value, &range).map(Some),
        }
    }

    /// A whole number that is accepted without being shown.
    ///
    /// # Errors
    /// When it is something else.
    pub fn hidden_integer(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, ToolError> {
        self.pull(name).map(|(name, value)| whole(name, &value, &range)).transpose()
    }

    /// What a sandbox may reach: as its schema says, or in the short text form.
    ///
    /// # Errors
    /// When it is no policy.
    pub fn network(&mut self, name: &'static str) -> Result<Option<EgressPolicy>, ToolError> {
        let Some((name, value)) = self.take(name, &[])? else { return Ok(None) };
        let policy = EgressPolicy::parse_json(&value);
        policy.map(Some).map_err(|error| ToolError::invalid(format!("`{name}`: {error}")))
    }

    /// The same where it must be there.
    ///
    /// # Errors
    /// When it is missing or no policy.
    pub fn required_network(&mut self, name: &'static str) -> Result<EgressPolicy, ToolError> {
        self.network(name)?.ok_or_else(|| missing(name))
    }

    /// A list of strings; empty where it is left out.
    ///
    /// # Errors
    /// When it is something else.
    pub fn words(&mut self, name: &'static str) -> Result<Vec<String>, ToolError> {
        let Some((name, value)) = self.take(name, &[])? else { return Ok(Vec::new()) };
        let wrong = || refuse(name, "a list of strings", &value);
        let list = value.as_array().ok_or_else(wrong)?;
        let word = |item: &Value| item.as_str().map(str::to_owned).ok_or_else(wrong);
        list.iter().map(word).collect()
    }

    /// True or false.
    ///
    /// # Errors
    /// When it is something else.
    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>, ToolError> {
        match self.take(name, &[])? {
            None => Ok(None),
            Some((_, Value::Bool(value))) => Ok(Some(value)),
            Some((name, other)) => Err(refuse(name, "true or false", &other)),
        }
    }

    /// A span of time under its shown name (in units of `unit`), or as `timeout` in seconds.
    ///
    /// # Errors
    /// When one of them is no whole number in its range, or they differ.
    pub fn span(
        &mut self,
        name: &'static str,
        unit: Duration,
        range: RangeInclusive<u64>,
    ) -> Result<Option<Duration>, ToolError> {
        const SECONDS: &str = "timeout";
        self.known.push(name);
        let longest = unit.saturating_mul(u32::try_from(*range.end()).unwrap_or(u32::MAX));
        let shown = match self.pull(name) {
            None => None,
            Some((name, value)) => {
                let units = whole(name, &value, &range)?;
                Some(unit.saturating_mul(u32::try_from(units).unwrap_or(u32::MAX)))
            }
        };
        let seconds = match self.pull(SECONDS) {
            None => None,
            Some((name, value)) => {
                Some(Duration::from_secs(whole(name, &value, &(1..=longest.as_secs()))?))
            }
        };
        match (shown, seconds) {
            (Some(one), Some(other)) if one != other => Err(differ(name, SECONDS)),
            (one, other) => Ok(one.or(other)),
        }
    }

    /// Names with texts. `hidden` are further spellings of the argument.
    ///
    /// # Errors
    /// When it is no object, or a value is no string.
    pub fn strings_by_name(
        &mut self,
        name: &'static str,
        hidden: &[&'static str],
    ) -> Result<BTreeMap<String, String>, ToolError> {
        let map = match self.take(name, hidden)? {
            None => return Ok(BTreeMap::new()),
            Some((_, Value::Object(map))) => map,
            Some((name, other)) => {
                return Err(refuse(name, "an object whose values are strings", &other));
            }
        };
        map.into_iter()
            .map(|(key, value)| match value {
                Value::String(text) => Ok((key, text)),
                other => Err(refuse(&format!("{name}.{}", shortened(&key)), "a string", &other)),
            })
            .collect()
    }

    /// Takes an argument that changes nothing here, and says whether it was given.
    pub fn ignored(&mut self, name: &'static str) -> bool {
        self.pull(name).is_some()
    }

    /// Permission bits as octal text.
    ///
    /// # Errors
    /// When it is something else.
    pub fn mode(&mut self, name: &'static str) -> Result<Option<u32>, ToolError> {
        let Some((name, value)) = self.take(name, &[])? else { return Ok(None) };
        let digits = value.as_str().map(|text| text.strip_prefix("0o").unwrap_or(text));
        digits
            .filter(|digits| (3..=4).contains(&digits.len()))
            .and_then(|digits| u32::from_str_radix(digits, 8).ok())
            .map(|mode| Some(mode & 0o7777))
            .ok_or_else(|| {
                refuse(name, "octal permission bits as a string, such as \"0755\"", &value)
            })
    }
}

fn whole(name: &str, value: &Value, range: &RangeInclusive<u64>) -> Result<u64, ToolError> {
    // 60.0 is a whole number too: some clients know no other kind.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole and within 0..2^53 just before"
    )]
    let number = value.as_u64().or_else(|| {
        value
            .as_f64()
            .filter(|number| number.fract() == 0.0 && (0.0..9e15).contains(number))
            .map(|number| number as u64)
    });
    number.filter(|number| range.contains(number)).ok_or_else(|| {
        refuse(name, &format!("a whole number from {} to {}", range.start(), range.end()), value)
    })
}

fn refuse(name: &str, allowed: &str, got: &Value) -> ToolError {
    ToolError::invalid(format!("`{name}` must be {allowed}; got {}", preview(got)))
}

fn missing(name: &str) -> ToolError {
    ToolError::invalid(format!("`{name}` is required"))
}

fn differ(one: &str, other: &str) -> ToolError {
    ToolError::invalid(format!(
        "`{one}` and `{other}` are two spellings of the same argument and differ; give one of them"
    ))
}

fn preview(value: &Value) -> String {
    match value {
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => format!("{:?}", shortened(text)),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
