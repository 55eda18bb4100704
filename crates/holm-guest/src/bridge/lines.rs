//! What guest and bridge say to each other: lines, each with a letter and JSON.

use holm_wire::kernel::{End, Executed, MOST_ANSWER, MOST_NOTE};
use serde::{Deserialize, Serialize};

/// Code to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// The code.
    pub code: String,
    /// Milliseconds until it is interrupted.
    pub timeout_ms: u64,
}

/// From guest to bridge.
#[derive(Debug, PartialEq, Eq)]
pub enum Order {
    /// Run this.
    Run(Run),
    /// Stop what runs.
    Interrupt,
}

/// From bridge to guest.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// The kernel of this name is there.
    Ready(String),
    /// There is none of that language.
    Missing(String),
    /// There is one, and it did not start.
    Failed(String),
    /// The kernel had ended before the code came.
    Gone(End),
    /// What came of the code: an [`Executed`] as JSON.
    Executed(Vec<u8>),
}

impl Order {
    /// Its line.
    pub fn line(&self) -> Vec<u8> {
        match self {
            Self::Run(run) => line(b'R', &json(run)),
            Self::Interrupt => line(b'I', b""),
        }
    }

    /// Reads a line; what is no order stops nothing and runs nothing.
    pub fn read(line: &[u8]) -> Self {
        match line.split_first() {
            Some((b'R', rest)) => Self::Run(serde_json::from_slice(rest).unwrap_or_default()),
            _ => Self::Interrupt,
        }
    }
}

impl Said {
    /// What came of code, in as many bytes as an answer may have.
    pub fn executed(mut executed: Executed) -> Self {
        let mut bytes = json(&executed);
        // Text may grow by six in JSON. What is too long then is left out, and said to be.
        if bytes.len() > MOST_ANSWER - (64 << 10) {
            for output in &mut executed.outputs {
                output.cut += output.text.len() as u64;
                (output.text, output.cut_at) = (String::new(), 0);
            }
            bytes = json(&executed);
        }
        if bytes.len() > MOST_ANSWER - (64 << 10) {
            executed.outputs_dropped += executed.outputs.len() as u64;
            executed.outputs.clear();
            bytes = json(&executed);
        }
        Self::Executed(bytes)
    }

    /// Its line.
    pub fn line(&self) -> Vec<u8> {
        let text = |text: &String| json(&text.chars().take(MOST_NOTE).collect::<String>());
        match self {
            Self::Ready(name) => line(b'R', &text(name)),
            Self::Missing(why) => line(b'M', &text(why)),
            Self::Failed(why) => line(b'F', &text(why)),
            Self::Gone(end) => line(b'G', &json(end)),
            Self::Executed(bytes) => line(b'E', bytes),
        }
    }

    /// Reads a line; `None` where it is none of these.
    pub fn read(line: &[u8]) -> Option<Self> {
        let (letter, rest) = line.split_first()?;
        let text = || serde_json::from_slice::<String>(rest).ok();
        match letter {
            b'R' => text().map(Self::Ready),
            b'M' => text().map(Self::Missing),
            b'F' => text().map(Self::Failed),
            b'G' => serde_json::from_slice(rest).ok().map(Self::Gone),
            b'E' => {
                // Whole JSON, of whatever form: who reads it judges that.
                let _: serde::de::IgnoredAny = serde_json::from_slice(rest).ok()?;
                Some(Self::Executed(rest.to_vec()))
            }
            _ => None,
        }
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn line(letter: u8, json: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(json.len() + 2);
    line.push(letter);
    line.extend_from_slice(json);
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use holm_wire::kernel::Output;

    use super::*;

    #[test]
    fn lines_come_back_as_they_went() {
        let order = Order::Run(Run { code: "a\n\"b\"".to_owned(), timeout_ms: 5 });
        for order in [order, Order::Interrupt] {
            let line = order.line();
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert_eq!(Order::read(&line[..line.len() - 1]), order);
        }
        for said in [
            Said::Ready("python3".to_owned()),
            Said::Missing("m".to_owned()),
            Said::Failed("f\n".to_owned()),
            Said::Gone(End { exit_code: 3, signal: None }),
            Said::executed(Executed::default()),
        ] {
            let line = said.line();
            assert_eq!(Said::read(&line[..line.len() - 1]), Some(said));
        }
        for bad in ["", "X{}", "E{", "R5", "garbage"] {
            assert_eq!(Said::read(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn an_answer_that_would_be_too_long_is_cut() {
        let output = Output { text: "\u{1}".repeat(3 << 20), ..Output::default() };
        let Said::Executed(bytes) =
            Said::executed(Executed { outputs: vec![output], ..Executed::default() })
        else {
            panic!("it is what came of code")
        };
        assert!(bytes.len() < MOST_ANSWER);
        let back: Executed = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((back.outputs[0].cut, &*back.outputs[0].text), (3 << 20, ""));
    }
}
