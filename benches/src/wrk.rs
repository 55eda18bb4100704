//! What the load generator `wrk` says.

use std::process::Command;

use crate::Result;
use crate::service::failed;

/// One run.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Requests a second.
    pub per_second: f64,
    /// The time within which 99 of 100 were answered, in milliseconds; 0 where it was not asked for.
    pub p99_ms: f64,
}

/// Runs it here with these arguments.
pub fn run(arguments: &[&str]) -> Result<Load> {
    let done = Command::new("wrk").args(arguments).output().map_err(failed("wrk"))?;
    if !done.status.success() {
        return Err(format!("wrk {arguments:?}: {}", String::from_utf8_lossy(&done.stderr)));
    }
    parse(&String::from_utf8_lossy(&done.stdout))
}

/// Reads its report; one with an error in it is none.
pub fn parse(text: &str) -> Result<Load> {
    if text.contains("Non-2xx") || text.contains("Socket errors") {
        return Err(format!("wrk had errors: {text}"));
    }
    let after =
        |start: &str| text.lines().find_map(|line| line.trim().strip_prefix(start)).map(str::trim);
    let per_second = after("Requests/sec:").and_then(|rate| rate.parse().ok());
    let per_second = per_second.ok_or(format!("wrk: {text}"))?;
    let p99_ms = after("99%").map_or(Ok(0.0), milliseconds)?;
    Ok(Load { per_second, p99_ms })
}

fn milliseconds(text: &str) -> Result<f64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "us" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        _ => return Err(format!("wrk: the time {text}")),
    };
    number
        .parse::<f64>()
        .map(|number| number * factor)
        .map_err(|error| format!("wrk: {error}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_report_is_read() {
        let text = "Running 1s test\n  Latency Distribution\n     50%  330.00us\n     99%    1.50ms\n  9 requests in 1.00s\nRequests/sec:  55412.33\n";
        let load = parse(text).expect("a report");
        assert_eq!((load.per_second, load.p99_ms), (55412.33, 1.5));
        assert!(parse("Requests/sec: 5\n  Socket errors: connect 1\n").is_err());
        assert!(parse("").is_err());
    }
}
