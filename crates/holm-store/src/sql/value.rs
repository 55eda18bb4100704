//! Parameters and columns: the four types that both databases have alike. Times are microseconds
//! since 1970, ids and names of closed lists are texts, JSON is text.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    AccountId, AuditId, EndReason, EntryId, EntryKind, EventId, KeyId, NodeId, Outcome, SandboxId,
    SandboxState, SizeName, StoreError, rules,
};

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Value {
    /// Refuses what one of the databases cannot keep, so that both refuse the same.
    pub fn check(values: &[Self]) -> Result<(), StoreError> {
        rules::texts(values.iter().filter_map(|value| match value {
            Self::Text(text) => Some(&**text),
            _ => None,
        }))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Int(i64::from(number))
    }
}

impl From<u64> for Value {
    /// Numbers beyond the databases' are amounts of memory and the like that mean "no limit".
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<Timestamp> for Value {
    fn from(moment: Timestamp) -> Self {
        Self::Int(moment.as_microsecond())
    }
}

impl From<Duration> for Value {
    fn from(duration: Duration) -> Self {
        Self::Int(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&serde_json::Value> for Value {
    fn from(json: &serde_json::Value) -> Self {
        Self::Text(json.to_string())
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::Blob(bytes.to_vec())
    }
}

impl From<bool> for Value {
    /// As a number, which both databases have.
    fn from(yes: bool) -> Self {
        Self::Int(yes.into())
    }
}

impl From<[u8; 32]> for Value {
    fn from(bytes: [u8; 32]) -> Self {
        Self::Blob(bytes.to_vec())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

macro_rules! texts {
    ($($name:ident)*) => {$(
        impl From<$name> for Value {
            fn from(value: $name) -> Self {
                Self::Text(value.to_string())
            }
        }
    )*};
}

texts! {
    AccountId AuditId EntryId EventId KeyId NodeId SandboxId
    EndReason EntryKind Outcome SandboxState SizeName
}
