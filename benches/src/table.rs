//! Medians, 95th percentiles and ratios.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

/// The times of one thing.
#[derive(Debug, Clone)]
pub struct Row {
    name: String,
    median: f64,
    p95: f64,
    samples: usize,
}

impl Row {
    /// Sums up `times`; an empty list gives zeros.
    pub fn new(name: &str, times: &[Duration]) -> Self {
        let mut ms: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        ms.sort_by(f64::total_cmp);
        let at = |share: usize| ms.get((ms.len() * share / 100).min(ms.len().saturating_sub(1)));
        let (median, p95) = (at(50).copied().unwrap_or(0.0), at(95).copied().unwrap_or(0.0));
        Self { name: name.to_owned(), median, p95, samples: ms.len() }
    }
}

/// How much of something there was in a second, or how long it took: a number with a unit.
#[derive(Debug, Clone)]
pub struct Rate {
    name: String,
    value: f64,
    unit: String,
    /// Peer and this one's value over the peer's.
    ratios: Vec<(String, f64)>,
    title: String,
}

/// What is printed in the end.
#[derive(Debug, Default)]
pub struct Table {
    lines: Vec<Line>,
    rates: Vec<Rate>,
    facts: Vec<(String, String)>,
}

#[derive(Debug)]
struct Line {
    title: String,
    row: Row,
    /// Peer and this row's median over the peer's.
    ratios: Vec<(String, f64)>,
}

impl Table {
    /// Adds a row, compared with `peers` by their medians; `title` starts a group.
    pub fn add(&mut self, title: &str, row: Row, peers: &[&Row]) {
        let ratios = peers.iter().map(|peer| (peer.name.clone(), row.median / peer.median));
        let ratios = ratios.collect();
        self.lines.push(Line { title: title.to_owned(), row, ratios });
    }

    /// Adds the median of numbers, compared with those of `peers`; `title` starts a group.
    pub fn rate(
        &mut self,
        title: &str,
        name: &str,
        unit: &str,
        values: &[f64],
        peers: &[&Rate],
    ) -> Rate {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let value = values.get(values.len() / 2).copied().unwrap_or(0.0);
        let ratios = peers.iter().map(|peer| (peer.name.clone(), value / peer.value)).collect();
        let rate = Rate {
            name: name.to_owned(),
            value,
            unit: unit.to_owned(),
            ratios,
            title: title.to_owned(),
        };
        self.rates.push(rate.clone());
        rate
    }

    /// Adds a fact that is not a series of times.
    pub fn fact(&mut self, name: &str, value: &str) {
        self.facts.push((name.to_owned(), value.to_owned()));
    }

    /// Adds how much longer one median is than another.
    pub fn difference(&mut self, name: &str, row: &Row, base: &Row) {
        self.fact(name, &format!("{:+.2} ms", row.median - base.median));
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for Line { title, row, ratios } in &self.lines {
            if !title.is_empty() {
                let _ = writeln!(out, "\n{title:<40} {:>9} {:>9} {:>5}", "median", "p95", "n");
            }
            let _ = write!(out, "  {:<38} {:>6.2} ms {:>6.2} ms", row.name, row.median, row.p95);
            let _ = write!(out, " {:>5}", row.samples);
            for (peer, ratio) in ratios {
                let _ = write!(out, "   {ratio:.2} × {}", peer.split(',').next().unwrap_or(peer));
            }
            out.push('\n');
        }
        for Rate { name, value, unit, ratios, title } in &self.rates {
            if !title.is_empty() {
                let _ = writeln!(out, "\n{title}");
            }
            let _ = write!(out, "  {name:<38} {value:>10.2} {unit:<10}");
            for (peer, ratio) in ratios {
                let _ = write!(out, "   {ratio:.2} × {}", peer.split(',').next().unwrap_or(peer));
            }
            out.push('\n');
        }
        out.push('\n');
        for (name, value) in &self.facts {
            let _ = writeln!(out, "  {name:<46} {value}");
        }
        out
    }

    /// For programs.
    pub fn json(&self) -> String {
        let rows: Vec<Value> = (self.lines.iter())
            .map(|Line { row, ratios, .. }| {
                let ratios: serde_json::Map<String, Value> =
                    ratios.iter().map(|(peer, ratio)| (peer.clone(), json!(ratio))).collect();
                json!({"name": row.name, "median_ms": row.median, "p95_ms": row.p95,
                       "samples": row.samples, "ratios": ratios})
            })
            .collect();
        let facts: serde_json::Map<String, Value> =
            self.facts.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let rates: Vec<Value> = (self.rates.iter())
            .map(|Rate { name, value, unit, ratios, title }| {
                let ratios: serde_json::Map<String, Value> =
                    ratios.iter().map(|(peer, ratio)| (peer.clone(), json!(ratio))).collect();
                json!({"group": title, "name": name, "value": value, "unit": unit, "ratios": ratios})
            })
            .collect();
        json!({"rows": rows, "rates": rates, "facts": facts}).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles_are_of_the_sorted_times() {
        let times: Vec<Duration> = [3, 1, 2, 100].map(Duration::from_millis).to_vec();
        let row = Row::new("x", &times);
        assert_eq!((row.median, row.p95, row.samples), (3.0, 100.0, 4));
        assert_eq!(Row::new("none", &[]).samples, 0);
        let mut table = Table::default();
        let direct = table.rate("group", "direct", "MiB/s", &[30.0, 10.0, 20.0], &[]);
        table.rate("", "gate", "MiB/s", &[15.0], &[&direct]);
        assert!(table.text().contains("0.75 × direct"), "{}", table.text());
    }
}
