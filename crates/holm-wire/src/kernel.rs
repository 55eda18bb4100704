//! `holm.guest.v1`: contexts, in each of which a Jupyter kernel keeps variables from one piece of code
//! to the next.
//!
//! They are the guest's own, as commands in the background are: a context goes on when its caller goes
//! away or the service is started again. What a kernel says was written by a program of a user, so
//! everything here has a bound that whoever reads it can hold to.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Contexts of one sandbox.
pub const MOST_CONTEXTS: usize = 16;
/// Most bytes of one [`Answer`].
pub const MOST_ANSWER: usize = 16 << 20;
/// Bytes that are kept of each stream of one execution, half of them from its end.
pub const MOST_STREAM: usize = 1 << 20;
/// Bytes that are kept of all rich results of one execution.
pub const MOST_RICH: usize = 6 << 20;
/// Most outputs of one execution; what a stream writes after that many joins what it wrote before.
pub const MOST_OUTPUTS: usize = 1000;
/// Most forms of one output.
pub const MOST_FORMS: usize = 16;
/// Most characters of what a bridge says when it cannot do what it should.
pub const MOST_NOTE: usize = 2000;
/// Milliseconds in which a kernel must be ready.
pub const START_MS: u64 = 30_000;
/// Milliseconds that an interrupted kernel has to come to its end.
pub const YIELD_MS: u64 = 5_000;
/// Milliseconds after which a call that runs code has an answer, beyond the code's own time: that
/// of two starts, of an interrupt, and of what it takes to kill what does neither.
pub const GRACE_MS: u64 = 2 * START_MS + YIELD_MS + 25_000;

/// The forms of results that are passed on. A kernel's other forms are dropped.
pub const FORMS: [&str; 11] = [
    "text/plain",
    "text/html",
    "text/markdown",
    "text/latex",
    "image/svg+xml",
    "image/png",
    "image/jpeg",
    "application/pdf",
    "application/json",
    "application/javascript",
    "text/javascript",
];

/// Request of `CreateContext`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CreateRequest {
    /// The language's name.
    pub language: String,
    /// `sandbox` or `root`; empty means the usual one.
    pub user: String,
    /// Where the kernel starts; the configured directory where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables added to the sandbox's own.
    pub env: BTreeMap<String, String>,
}

/// Names a context.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Named {
    /// Its id.
    pub id: String,
}

/// How a context is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It has no kernel; the next code starts one.
    #[default]
    Empty,
    /// Its kernel waits for code.
    Idle,
    /// Its kernel starts or runs code.
    Busy,
}

/// A context.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Context {
    /// Its id, unique in its sandbox.
    pub id: String,
    /// Its language.
    pub language: String,
    /// The name of its kernel's specification, once it has had one.
    pub kernel: String,
    /// How it is.
    pub state: State,
    /// What code runs in that names no context.
    pub is_default: bool,
    /// Whose kernel it is.
    pub user: String,
    /// Where its kernel starts.
    pub cwd: String,
    /// Milliseconds since 1970 at which it was made, by the sandbox's clock.
    pub created_ms: u64,
    /// Pieces of code that it has run since it was made.
    pub executions: u64,
}

/// Answer of `ListContexts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct List {
    /// In the order in which they were made.
    pub contexts: Vec<Context>,
}

/// Request of `Execute`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExecuteRequest {
    /// In which context; empty means the usual one of language and user, which is made if need be.
    pub context: String,
    /// The language's name; of a context that is named it may be empty.
    pub language: String,
    /// As [`CreateRequest::user`]; says nothing where a context is named.
    pub user: String,
    /// The code.
    pub code: String,
    /// Milliseconds until it is interrupted, above 0. A kernel's start does not count.
    pub timeout_ms: u64,
}

/// Answer of `Execute`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The context.
    pub context: Context,
    /// Why a kernel was started for this code although the context had had one: its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_before: Option<End>,
    /// What came of the code.
    pub executed: Executed,
    /// Milliseconds that it took, without a kernel's start.
    pub duration_ms: u64,
}

/// How a kernel ended that should not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct End {
    /// Its exit code; 128 + signal after death by a signal.
    pub exit_code: i32,
    /// The signal's number, if one ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// How code ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It ran to its end.
    #[default]
    Ok,
    /// It raised an error.
    Error,
    /// It was interrupted at its time limit, or because its caller had gone, and yielded.
    Interrupted,
    /// The same, and it did not yield: the kernel was killed.
    Stuck,
    /// The kernel ended meanwhile.
    Died,
    /// Somebody restarted or deleted the context meanwhile.
    Stopped,
}

/// What came of a piece of code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Executed {
    /// How it ended.
    pub status: Status,
    /// Its number in the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// In the order in which they came.
    #[serde(deserialize_with = "outputs")]
    pub outputs: Vec<Output>,
    /// Bytes written to standard output in all.
    pub stdout_bytes: u64,
    /// The same of standard error.
    pub stderr_bytes: u64,
    /// The error that it raised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Raised>,
    /// How the kernel ended, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// Outputs that found no place.
    pub outputs_dropped: u64,
    /// Ends of the kernel's own messages may be missing: it did not say that it was done.
    pub incomplete: bool,
}

/// What an output is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Text of standard output.
    #[default]
    Stdout,
    /// Text of standard error.
    Stderr,
    /// The value of the last expression.
    Result,
    /// What the code displayed.
    Display,
    /// The place of [`Executed::error`] among them.
    Error,
}

/// One output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Output {
    /// What it is.
    pub kind: Kind,
    /// A stream's text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Bytes of the stream that were cut from this text.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut: u64,
    /// Where in it they were.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_at: u64,
    /// A result's forms, by media type. Binary ones are base64.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "forms")]
    pub forms: BTreeMap<String, String>,
    /// Forms that had no room, and their bytes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "forms")]
    pub left_out: BTreeMap<String, u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// An error of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Raised {
    /// Its class.
    pub name: String,
    /// What it says.
    pub value: String,
    /// Where it happened, in lines, without colours.
    pub traceback: String,
}

/// Reads a list, and refuses one that is longer than any honest one before it takes memory.
fn outputs<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Output>, D::Error> {
    struct Bounded;
    impl<'de> Visitor<'de> for Bounded {
        type Value = Vec<Output>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(out, "at most {MOST_OUTPUTS} outputs")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
            let mut list = Vec::new();
            while let Some(one) = from.next_element()? {
                if list.len() == MOST_OUTPUTS {
                    return Err(A::Error::invalid_length(list.len() + 1, &self));
                }
                list.push(one);
            }
            Ok(list)
        }
    }
    from.deserialize_seq(Bounded)
}

/// The same of an output's forms.
fn forms<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    from: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    struct Bounded<T>(PhantomData<T>);
    impl<'de, T: DeserializeOwned> Visitor<'de> for Bounded<T> {
        type Value = BTreeMap<String, T>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(out, "at most {MOST_FORMS} forms")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((name, one)) = from.next_entry::<String, T>()? {
                if map.len() == MOST_FORMS {
                    return Err(A::Error::invalid_length(map.len() + 1, &self));
                }
                map.insert(name, one);
            }
            Ok(map)
        }
    }
    from.deserialize_map(Bounded(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_than_any_honest_list_is_not_read() {
        let check = |text: &str, fits: bool| {
            assert_eq!(serde_json::from_str::<Executed>(text).is_ok(), fits, "{text:.60}");
        };
        let list = |count: usize| format!("{{\"outputs\":[{}]}}", vec!["{}"; count].join(","));
        check("{}", true);
        check(&list(MOST_OUTPUTS), true);
        check(&list(MOST_OUTPUTS + 1), false);
        let forms = |count: usize| {
            let forms: Vec<_> = (0..count).map(|n| format!("\"{n}\":\"x\"")).collect();
            format!("{{\"outputs\":[{{\"forms\":{{{}}}}}]}}", forms.join(","))
        };
        check(&forms(MOST_FORMS), true);
        check(&forms(MOST_FORMS + 1), false);
    }

    #[test]
    fn an_answer_travels_whole() {
        let output = Output {
            kind: Kind::Display,
            forms: BTreeMap::from([("image/png".to_owned(), "aGk=".to_owned())]),
            left_out: BTreeMap::from([("text/html".to_owned(), 7_000_000)]),
            ..Output::default()
        };
        let end = Some(End { exit_code: 137, signal: Some(9) });
        let executed =
            Executed { status: Status::Died, outputs: vec![output], end, ..Executed::default() };
        let answer = Answer { executed, lost_before: end, ..Answer::default() };
        let text = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<Answer>(&text).unwrap(), answer);
    }
}
