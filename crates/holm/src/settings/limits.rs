//! What the settings of a service say about its engine: limits, sizes, prices.

use std::str::FromStr;
use std::time::Duration;

use holm_engine::{EngineSettings, LifetimeRules, Prices, Rate, Size, SizeName};

use super::layers::Layers;
use super::table::{self, Setting};
use super::{money, network, parse};
use crate::exit::Failure;

const COUNT: &str = "a whole number above 0";

/// A number of at least 1.
pub(super) fn count<T: FromStr + PartialOrd + From<u8>>(
    layers: &Layers<'_>,
    setting: &Setting,
) -> Result<T, Failure> {
    let read = |text: &str| text.parse().ok().filter(|count: &T| *count >= T::from(1));
    layers.read(setting, COUNT, read)
}

/// The same; another one where it is blank.
pub(super) fn count_or(
    layers: &Layers<'_>,
    setting: &Setting,
    other: usize,
) -> Result<usize, Failure> {
    let read = |text: &str| match text {
        "" => Some(other),
        text => text.parse().ok().filter(|count| *count > 0),
    };
    layers.read(setting, COUNT, read)
}

/// A duration above 0.
pub(super) fn duration(layers: &Layers<'_>, setting: &Setting) -> Result<Duration, Failure> {
    let what = "a duration such as 30s, 5m or 1h30m";
    layers.read(setting, what, |text| parse::duration(text).ok().filter(|time| !time.is_zero()))
}

/// A rate, whose number is for a time of `seconds`; 0 is any.
pub(super) fn rate(
    layers: &Layers<'_>,
    number: &Setting,
    seconds: f64,
    burst: &Setting,
) -> Result<Rate, Failure> {
    let read = |text: &str| text.parse::<u32>().ok();
    let number = layers.read(number, "a whole number", read)?;
    Ok(Rate { per_second: f64::from(number) / seconds, burst: count(layers, burst)? })
}

/// The engine's settings, as far as they may be set.
pub(super) fn engine(layers: &Layers<'_>) -> Result<EngineSettings, Failure> {
    let mut settings = EngineSettings::service();
    settings.max_sandboxes = count(layers, &table::MAX_PER_ACCOUNT)?;
    settings.max_sandboxes_here = count(layers, &table::MAX_HERE)?;
    settings.lifetime = lifetime(layers)?;
    settings.network = network::policy(layers)?;
    settings.exec_timeout = duration(layers, &table::EXEC_TIMEOUT)?;
    settings.code_timeout = duration(layers, &table::CODE_TIMEOUT)?;
    settings.key_rate = rate(layers, &table::KEY_RATE, 1.0, &table::KEY_BURST)?;
    settings.currency = layers.read(&table::CURRENCY, "1 to 16 letters", |text| {
        let good = (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphabetic());
        good.then(|| text.to_owned())
    })?;
    settings.prices = Prices {
        small: price(layers, &table::PRICE_SMALL)?,
        medium: price(layers, &table::PRICE_MEDIUM)?,
        large: price(layers, &table::PRICE_LARGE)?,
    };
    settings.paused_prices = Prices {
        small: price(layers, &table::PAUSED_PRICE_SMALL)?,
        medium: price(layers, &table::PAUSED_PRICE_MEDIUM)?,
        large: price(layers, &table::PAUSED_PRICE_LARGE)?,
    };
    settings.meter_interval = duration(layers, &table::METER_INTERVAL)?;
    settings.balance_grace = duration(layers, &table::BALANCE_GRACE)?;
    settings.low_balance =
        layers.read(&table::LOW_BALANCE, "an amount such as 2.50", money::read)?;
    settings.sizes.small = size(layers, SizeName::Small)?;
    settings.sizes.medium = size(layers, SizeName::Medium)?;
    settings.sizes.large = size(layers, SizeName::Large)?;
    Ok(settings)
}

fn lifetime(layers: &Layers<'_>) -> Result<LifetimeRules, Failure> {
    let min = duration(layers, &table::LIFETIME_MIN)?;
    let default = duration(layers, &table::LIFETIME)?;
    let max = duration(layers, &table::LIFETIME_MAX)?;
    let good = LifetimeRules::EMBEDDED.min <= min
        && (min..=max).contains(&default)
        && max <= LifetimeRules::SERVICE.max;
    if !good {
        return Err(Failure::usage(format!(
            "{} must be from {} (at least 1s) to {} (at most 24h)",
            table::LIFETIME.key,
            table::LIFETIME_MIN.key,
            table::LIFETIME_MAX.key
        )));
    }
    Ok(LifetimeRules { default, min, max })
}

fn price(layers: &Layers<'_>, setting: &Setting) -> Result<i64, Failure> {
    // A million units of money for a second: more is a mistake, and far from any overflow.
    let read =
        |text: &str| text.parse().ok().filter(|price| (0..=1_000_000_000_000).contains(price));
    layers.read(setting, "a whole number of millionths, 0 or more", read)
}

fn size(layers: &Layers<'_>, name: SizeName) -> Result<Size, Failure> {
    let (disk, inodes) = (table::DISK.of_size(name), table::INODES.of_size(name));
    let size = Size {
        vcpus: count(layers, &table::VCPUS.of_size(name))?,
        memory_mb: count(layers, &table::MEMORY.of_size(name))?,
        disk_mb: count(layers, &disk)?,
        disk_inodes: count(layers, &inodes)?,
        max_processes: count(layers, &table::PROCESSES.of_size(name))?,
    };
    let least = least_disk_mb(size.disk_inodes);
    if size.disk_mb < least {
        return Err(Failure::usage(format!(
            "{} is {}, but {} inodes alone need {least} MiB; raise it, or lower {}",
            disk.key, size.disk_mb, size.disk_inodes, inodes.key
        )));
    }
    Ok(size)
}

/// The smallest disk on which that many inodes have room: each takes 256 bytes, and the file
/// system's tables a quarter more.
fn least_disk_mb(inodes: u64) -> u64 {
    inodes.saturating_mul(320).div_ceil(1 << 20).saturating_add(8)
}
