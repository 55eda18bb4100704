//! What code wrote and displayed, in order and bounded.

use std::collections::BTreeMap;

use holm_wire::kernel::{
    Executed, FORMS, Kind, MOST_OUTPUTS, MOST_RICH, MOST_STREAM, Output, Raised,
};
use serde_json::Value;

use super::message;
use super::text::{ceil, cut, floor, middle, without_colours};

/// Most bytes of an error's name and value, and of its traceback.
const MOST_NAME: usize = 16 << 10;
const MOST_TRACEBACK: usize = 64 << 10;

/// What has been kept of a stream.
#[derive(Debug, Default)]
struct Stream {
    /// Bytes of its beginning that are kept; they stay.
    head: usize,
    /// Bytes after that.
    tail: usize,
    total: u64,
}

/// Collects the outputs of one execution.
#[derive(Debug, Default)]
pub struct Outputs {
    list: Vec<Entry>,
    streams: [Stream; 2],
    rich: usize,
    dropped: u64,
    error: Option<Raised>,
    /// The next output replaces all before it.
    clear_later: bool,
}

#[derive(Debug, Default)]
struct Entry {
    output: Output,
    display_id: Option<String>,
    /// Bytes of its text that belong to the stream's beginning.
    head: usize,
}

fn number(kind: Kind) -> usize {
    usize::from(kind == Kind::Stderr)
}

impl Outputs {
    /// Text of a stream.
    pub fn write(&mut self, kind: Kind, text: &str) {
        if text.is_empty() {
            return;
        }
        self.clear_if_wanted();
        let stream = &mut self.streams[number(kind)];
        stream.total += text.len() as u64;
        let at = floor(text, (MOST_STREAM / 2).saturating_sub(stream.head));
        // Once something has been left for the end, nothing more joins the beginning.
        let at = if stream.tail > 0 { 0 } else { at };
        let (head, tail) = text.split_at(at);
        stream.head += head.len();
        stream.tail += tail.len();
        let place = self.place(kind);
        let entry = &mut self.list[place];
        entry.output.text.push_str(text);
        entry.head += head.len();
        self.trim(kind);
    }

    /// Text of a stream that nobody has: beginning and end of what is written around it stay.
    pub fn skip(&mut self, kind: Kind, bytes: u64) {
        let place = self.place(kind);
        let (stream, entry) = (&mut self.streams[number(kind)], &mut self.list[place]);
        let gone = entry.output.text.len() - entry.head;
        entry.output.text.truncate(entry.head);
        entry.output.cut += gone as u64 + bytes;
        stream.tail -= gone;
        stream.total += bytes;
        // Nothing joins the beginning any more.
        stream.head = MOST_STREAM / 2;
    }

    /// Where more text of a stream goes: to the last output, if that is this stream's.
    fn place(&mut self, kind: Kind) -> usize {
        let full = self.list.len() >= MOST_OUTPUTS;
        let last = self.list.len().wrapping_sub(1);
        let at = match self.list.last() {
            Some(entry) if entry.output.kind == kind => Some(last),
            _ if full => self.list.iter().rposition(|entry| entry.output.kind == kind),
            _ => None,
        };
        at.unwrap_or_else(|| {
            // Where there is no room at all, the last one that is no stream's makes it.
            if full {
                self.list.pop();
                self.dropped += 1;
            }
            let output = Output { kind, ..Output::default() };
            self.list.push(Entry { output, ..Entry::default() });
            self.list.len() - 1
        })
    }

    /// Cuts the oldest text after the beginning until the stream keeps to its bound.
    fn trim(&mut self, kind: Kind) {
        let stream = &mut self.streams[number(kind)];
        let most = MOST_STREAM / 2;
        for entry in &mut self.list {
            if stream.tail <= most {
                break;
            }
            if entry.output.kind != kind {
                continue;
            }
            let text = &mut entry.output.text;
            let over = (stream.tail - most).min(text.len() - entry.head);
            // Whole characters; a few bytes more than needed may go.
            let end = ceil(text, entry.head + over);
            let gone = end - entry.head;
            text.drain(entry.head..end);
            stream.tail -= gone;
            entry.output.cut += gone as u64;
        }
    }

    /// Something displayed, or the value of the last expression.
    pub fn display(&mut self, kind: Kind, shown: message::Display, dropped: u64) {
        self.clear_if_wanted();
        let mut output = Output { kind, ..Output::default() };
        if dropped > 0 {
            output.left_out.insert("application/octet-stream".to_owned(), dropped);
        }
        self.fill(&mut output, shown.data);
        if self.list.len() >= MOST_OUTPUTS
            || (output.forms.is_empty() && output.left_out.is_empty())
        {
            self.rich -= size(&output);
            self.dropped += u64::from(self.list.len() >= MOST_OUTPUTS);
            return;
        }
        let display_id = shown.transient.display_id.map(|id| cut(id, 200));
        self.list.push(Entry { output, display_id, head: 0 });
    }

    /// The same again, in its place.
    pub fn update(&mut self, shown: message::Display) {
        let Some(id) = &shown.transient.display_id else { return };
        let same = |entry: &Entry| entry.display_id.as_ref() == Some(id);
        let Some(at) = self.list.iter().position(same) else { return };
        self.rich -= size(&self.list[at].output);
        let mut output = Output { kind: self.list[at].output.kind, ..Output::default() };
        self.fill(&mut output, shown.data);
        self.list[at].output = output;
    }

    fn fill(&mut self, output: &mut Output, data: BTreeMap<String, Value>) {
        for name in FORMS {
            let Some(value) = data.get(name) else { continue };
            let text = text(value);
            if text.len() > MOST_RICH - self.rich {
                output.left_out.insert(name.to_owned(), text.len() as u64);
            } else {
                self.rich += text.len();
                output.forms.insert(name.to_owned(), text);
            }
        }
    }

    /// An error that the code raised.
    pub fn raise(&mut self, raised: message::Raised) {
        self.clear_if_wanted();
        let traceback = without_colours(&raised.traceback.join("\n"));
        self.error = Some(Raised {
            name: cut(raised.ename, MOST_NAME),
            value: cut(raised.evalue, MOST_NAME),
            traceback: middle(traceback, MOST_TRACEBACK),
        });
        self.list.retain(|entry| entry.output.kind != Kind::Error);
        let output = Output { kind: Kind::Error, ..Output::default() };
        if self.list.len() < MOST_OUTPUTS {
            self.list.push(Entry { output, ..Entry::default() });
        }
    }

    /// The code takes back what it has shown.
    pub fn clear(&mut self, wait: bool) {
        self.clear_later = true;
        if !wait {
            self.clear_if_wanted();
        }
    }

    fn clear_if_wanted(&mut self) {
        if std::mem::take(&mut self.clear_later) {
            let totals = [self.streams[0].total, self.streams[1].total];
            *self = Self { dropped: self.dropped, ..Self::default() };
            self.streams[0].total = totals[0];
            self.streams[1].total = totals[1];
        }
    }

    /// All of it.
    pub fn finish(self, mut executed: Executed) -> Executed {
        executed.stdout_bytes = self.streams[0].total;
        executed.stderr_bytes = self.streams[1].total;
        executed.error = self.error;
        executed.outputs_dropped = self.dropped;
        let with_place = |entry: Entry| {
            let cut_at = if entry.output.cut > 0 { entry.head as u64 } else { 0 };
            Output { cut_at, ..entry.output }
        };
        executed.outputs = self.list.into_iter().map(with_place).collect();
        executed
    }
}

fn size(output: &Output) -> usize {
    output.forms.values().map(String::len).sum()
}

/// A form's text: JSON stays JSON, and lines may come as a list.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) if lines.iter().all(Value::is_string) && !lines.is_empty() => {
            lines.iter().filter_map(Value::as_str).collect()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(data: Value, id: Option<&str>) -> message::Display {
        serde_json::from_value(json!({"data": data, "transient": {"display_id": id}})).unwrap()
    }

    fn texts(outputs: Outputs) -> Vec<(Kind, String)> {
        let done = outputs.finish(Executed::default());
        done.outputs
            .into_iter()
            .map(|output| {
                (output.kind, output.forms.into_values().collect::<String>() + &output.text)
            })
            .collect()
    }

    #[test]
    fn order_is_kept_and_neighbours_join() {
        let mut outputs = Outputs::default();
        outputs.write(Kind::Stdout, "a");
        outputs.write(Kind::Stdout, "b");
        outputs.write(Kind::Stderr, "c");
        outputs.display(Kind::Display, shown(json!({"text/plain": "d", "x/y": "no"}), None), 0);
        outputs.write(Kind::Stdout, "e");
        outputs.display(Kind::Display, shown(json!({"x/y": "no"}), None), 0);
        let want =
            [(Kind::Stdout, "ab"), (Kind::Stderr, "c"), (Kind::Display, "d"), (Kind::Stdout, "e")];
        assert_eq!(texts(outputs), want.map(|(kind, text)| (kind, text.to_owned())));
    }

    #[test]
    fn streams_keep_beginning_and_end() {
        let mut outputs = Outputs::default();
        outputs.write(Kind::Stderr, "first");
        for number in 0..300_000 {
            outputs.write(Kind::Stdout, &format!("é{number}\n"));
        }
        let done = outputs.finish(Executed::default());
        let kept: usize = done.outputs.iter().map(|output| output.text.len()).sum();
        assert!(kept <= MOST_STREAM + 5, "{kept}");
        let [_, text] = &done.outputs[..] else { panic!("two") };
        assert!(text.cut_at <= MOST_STREAM as u64 / 2);
        assert!(text.text.starts_with("é0\n") && text.text.ends_with("é299999\n"));
        assert_eq!(text.cut + text.text.len() as u64, done.stdout_bytes);
    }

    #[test]
    fn what_nobody_has_is_between_beginning_and_end() {
        let mut outputs = Outputs::default();
        outputs.write(Kind::Stdout, "a");
        outputs.skip(Kind::Stdout, 7);
        outputs.write(Kind::Stdout, "z");
        let done = outputs.finish(Executed::default());
        let one = &done.outputs[0];
        assert_eq!((&*one.text, one.cut, one.cut_at, done.stdout_bytes), ("az", 7, 1, 9));
    }

    #[test]
    fn many_small_ones_are_bounded_and_what_is_last_is_kept() {
        let mut outputs = Outputs::default();
        for number in 0..3 * MOST_OUTPUTS {
            outputs.write(Kind::Stdout, &format!("{number} "));
            outputs.write(Kind::Stderr, "x");
            outputs.display(Kind::Display, shown(json!({"text/plain": "y"}), None), 0);
        }
        let done = outputs.finish(Executed::default());
        assert!(done.outputs.len() <= MOST_OUTPUTS);
        assert!(done.outputs_dropped > 0);
        let all: String = done.outputs.iter().map(|output| &*output.text).collect();
        assert!(all.contains("2999 "), "text goes on");
        // None was shown before the bound was met.
        let mut outputs = Outputs::default();
        for _ in 0..MOST_OUTPUTS {
            outputs.display(Kind::Display, shown(json!({"text/plain": "y"}), None), 0);
        }
        outputs.write(Kind::Stdout, "text");
        let done = texts(outputs);
        assert_eq!((done.len(), &*done[MOST_OUTPUTS - 1].1), (MOST_OUTPUTS, "text"));
    }

    #[test]
    fn rich_results_have_a_bound_together() {
        let mut outputs = Outputs::default();
        let big = "x".repeat(MOST_RICH / 2 + 1);
        let png = json!({"text/plain": "p", "image/png": big});
        outputs.display(Kind::Display, shown(png.clone(), Some("one")), 0);
        outputs.display(Kind::Result, shown(png.clone(), None), 0);
        outputs.update(shown(png, Some("one")));
        outputs.update(shown(json!({"text/plain": "q"}), Some("two")));
        let done = outputs.finish(Executed::default());
        let [one, two] = &done.outputs[..] else { panic!("two") };
        assert_eq!((one.forms.len(), one.left_out.len()), (2, 0));
        assert_eq!(two.left_out["image/png"], big.len() as u64);
        assert_eq!(two.forms["text/plain"], "p");
    }

    #[test]
    fn what_is_cleared_is_gone() {
        let mut outputs = Outputs::default();
        outputs.write(Kind::Stdout, "one");
        outputs.clear(true);
        outputs.write(Kind::Stdout, "two");
        outputs.clear(true);
        assert_eq!(texts(outputs), [(Kind::Stdout, "two".to_owned())]);
    }

    #[test]
    fn tracebacks_are_plain() {
        let mut outputs = Outputs::default();
        let raised = json!({"ename": "E", "evalue": "v", "traceback": ["x", "\u{1b}[31my"]});
        outputs.raise(serde_json::from_value(raised).unwrap());
        let done = outputs.finish(Executed::default());
        assert_eq!(done.error.unwrap().traceback, "x\ny");
    }
}
