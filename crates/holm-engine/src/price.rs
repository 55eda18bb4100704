//! What a second of a sandbox costs.

use holm_store::SizeName;

/// Prices by size, in micro-units (millionths of the currency's unit) per second. Zero by
/// default: who runs holm for themselves pays nobody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Prices {
    pub small: i64,
    pub medium: i64,
    pub large: i64,
}

impl Prices {
    /// The price of a size.
    #[must_use]
    pub fn get(&self, size: SizeName) -> i64 {
        match size {
            SizeName::Small => self.small,
            SizeName::Medium => self.medium,
            SizeName::Large => self.large,
        }
    }

    /// Whether nothing costs anything.
    #[must_use]
    pub fn are_zero(&self) -> bool {
        *self == Self::default()
    }
}
