//! Templates as they are printed.

use holm_template::Template;
use jiff::Timestamp;

/// Head of the list.
pub(super) const HEAD: [&str; 5] = ["NAME", "LAYERS", "SIZE", "CREATED", "SOURCE"];

pub(super) fn row(template: &Template) -> Vec<String> {
    vec![
        template.name.clone(),
        template.layers.len().to_string(),
        size(template.bytes),
        created(template),
        template.source.clone(),
    ]
}

pub(super) fn created(template: &Template) -> String {
    let seconds = i64::try_from(template.created).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).map_or_else(|_| "unknown".into(), |time| time.to_string())
}

/// Bytes for people.
pub(in crate::commands) fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut tenths = bytes / 100;
    for unit in ["kB", "MB", "GB"] {
        if tenths < 10_000 {
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
        tenths /= 1000;
    }
    format!("{}.{} TB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (bytes, want) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (999_999, "999.9 kB"),
            (1_000_000, "1.0 MB"),
            (12_345_678_901, "12.3 GB"),
            (2_000_000_000_000, "2.0 TB"),
        ] {
            assert_eq!(size(bytes), want);
        }
    }
}
