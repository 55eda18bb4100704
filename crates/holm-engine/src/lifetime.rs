//! How long a sandbox may live.

use std::time::Duration;

use crate::Error;

/// The rules for lifetimes; a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifetimeRules {
    /// Where the caller names none.
    pub default: Duration,
    /// The shortest.
    pub min: Duration,
    /// The longest, counted from the moment a sandbox is ready. Extensions end there too.
    pub max: Duration,
}

impl LifetimeRules {
    /// For a process that owns its sandboxes: from 1 s.
    pub const EMBEDDED: Self = Self {
        default: Duration::from_secs(15 * 60),
        min: Duration::from_secs(1),
        max: Duration::from_secs(24 * 3600),
    };

    /// For a service: from 1 min.
    pub const SERVICE: Self = Self { min: Duration::from_secs(60), ..Self::EMBEDDED };

    /// A lifetime for a new sandbox.
    ///
    /// # Errors
    /// When it is outside the allowed range, which the text names.
    pub fn check(&self, asked: Option<Duration>) -> Result<Duration, Error> {
        let asked = asked.unwrap_or(self.default);
        if asked < self.min || asked > self.max {
            return Err(self.refuse(&text(asked)));
        }
        Ok(asked)
    }

    /// An extension: it may not be nothing, nor alone more than the longest lifetime. Where it
    /// would lead past the ceiling, the expiry becomes the ceiling.
    ///
    /// # Errors
    /// When it is outside the allowed range, which the text names.
    pub fn check_extension(&self, asked: Duration) -> Result<Duration, Error> {
        self.check(Some(asked))
    }

    /// A lifetime given as a number of seconds; faces that read numbers use this, so that zero,
    /// negative, endless and absurd ones are refused the same way everywhere.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn from_seconds(&self, seconds: f64) -> Result<Duration, Error> {
        match Duration::try_from_secs_f64(seconds) {
            Ok(duration) => self.check(Some(duration)),
            Err(_out_of_range) => Err(self.refuse(&format!("{seconds} seconds"))),
        }
    }

    /// The same for minutes.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn from_minutes(&self, minutes: f64) -> Result<Duration, Error> {
        self.from_seconds(minutes * 60.0)
    }

    fn refuse(&self, asked: &str) -> Error {
        Error::invalid(format!(
            "a lifetime of {asked} is not allowed: it must be from {} to {} (a number of seconds \
             in timeout, of minutes in timeout_minutes and additional_minutes)",
            text(self.min),
            text(self.max)
        ))
        .suggest(format!("Leave it out for the default of {}.", text(self.default)))
    }
}

/// A duration for people: `90 seconds`, `15 minutes`, `24 hours`.
pub(crate) fn text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (count, unit) = match seconds {
        _ if duration.subsec_nanos() != 0 => return format!("{} seconds", duration.as_secs_f64()),
        0..120 => (seconds, "second"),
        _ if seconds.is_multiple_of(3600) && seconds >= 7200 => (seconds / 3600, "hour"),
        _ if seconds.is_multiple_of(60) => (seconds / 60, "minute"),
        _ => (seconds, "second"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: LifetimeRules, seconds: f64, want: Option<u64>) {
        let got = rules.from_seconds(seconds);
        if want.is_none() {
            let text = got.as_ref().map_err(|error| error.public.clone()).unwrap_err();
            assert!(text.contains("to 24 hours"), "{seconds}: {text}");
        }
        assert_eq!(got.ok().map(|duration| duration.as_secs()), want, "{seconds}");
    }

    #[test]
    fn case_63_lifetimes_outside_the_range_are_refused_with_the_range() {
        for (rules, floor) in [(LifetimeRules::EMBEDDED, 1), (LifetimeRules::SERVICE, 60)] {
            for bad in [0.0, -1.0, 0.5, 1e12, 86401.0, f64::NAN, f64::INFINITY, 86400.001] {
                check(rules, bad, None);
            }
            check(rules, 60.0, Some(60));
            check(rules, 86400.0, Some(86400));
            check(rules, 1.0, (floor == 1).then_some(1));
        }
        assert_eq!(LifetimeRules::EMBEDDED.check(None).unwrap(), Duration::from_secs(900));
    }

    #[test]
    fn durations_read_well() {
        for (seconds, want) in [
            (1, "1 second"),
            (90, "90 seconds"),
            (900, "15 minutes"),
            (86400, "24 hours"),
            (60, "60 seconds"),
            (3600, "60 minutes"),
        ] {
            assert_eq!(text(Duration::from_secs(seconds)), want);
        }
    }
}
