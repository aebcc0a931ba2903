//! Numbers for people.

use crate::profile::Unit;

/// Three significant digits, enough to compare by eye.
fn three_digits(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    // 999.5 would show as 1000.
    for next in units {
        if value < step - 0.5 {
            break;
        }
        value /= step;
        unit = next;
    }
    format!("{} {unit}", three_digits(value))
}

/// Bytes in powers of 1024: `64.0 KiB`.
pub(crate) fn bytes(value: f64) -> String {
    if value < 1023.5 {
        return format!("{value:.0} B");
    }
    scaled(value / 1024.0, 1024.0, &["KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// A time given in ns: `1.20 ms`.
pub(crate) fn duration(ns: f64) -> String {
    if ns < 999.5 {
        return format!("{ns:.0} ns");
    }
    scaled(ns / 1000.0, 1000.0, &["us", "ms", "s"])
}

/// A plain number with a decimal prefix where it is long: `1.20 M`.
pub(crate) fn number(value: f64) -> String {
    if value >= 9999.5 {
        return scaled(value / 1000.0, 1000.0, &["k", "M", "G", "T"]);
    }
    if value.fract() == 0.0 || value >= 99.95 { format!("{value:.0}") } else { three_digits(value) }
}

/// A weight in its unit: `64.0 KiB`, `1.20 ms`, `12.3 M pages`.
pub(crate) fn weight(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => bytes(value),
        Unit::Nanoseconds => duration(value),
        Unit::Samples | Unit::Events | Unit::Pages => format!("{} {}", number(value), unit.name()),
    }
}

/// A weight a second: `87.0 MiB/s`, `1.20 M pages/s`; of time, the mean number of waiters.
pub(crate) fn rate(per_second: f64, unit: Unit) -> String {
    match unit {
        // ns a second has no unit: it says how many waited at any time.
        Unit::Nanoseconds => format!("{} waiting", three_digits(per_second / 1e9)),
        _ => format!("{}/s", weight(per_second, unit)),
    }
}

/// The lower end of a histogram's bucket, short: `4K`, `1.02us`, `16`.
pub(crate) fn bucket(value: u64, unit: Unit) -> String {
    if unit == Unit::Nanoseconds {
        return duration(value as f64).replace(' ', "");
    }
    let (mut value, mut prefixes) = (value, ["", "K", "M", "G", "T", "P", "E"].iter());
    let mut prefix = prefixes.next().copied().unwrap_or_default();
    for next in prefixes {
        if value < 1024 || value % 1024 != 0 {
            break;
        }
        value /= 1024;
        prefix = next;
    }
    format!("{value}{prefix}")
}

/// With separators: `2,680,333`.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(4096.0), "4.00 KiB");
        assert_eq!(bytes(65_536.0), "64.0 KiB");
        assert_eq!(bytes(1_048_575.0), "1.00 MiB");
        assert_eq!(duration(999.4), "999 ns");
        assert_eq!(duration(999.6), "1.00 us");
        assert_eq!(duration(1_234_567.0), "1.23 ms");
        assert_eq!(duration(7.2e12), "7200 s");
        assert_eq!(number(0.5), "0.50");
        assert_eq!(number(9999.0), "9999");
        assert_eq!(number(12_345.0), "12.3 k");
        assert_eq!(weight(3.0, Unit::Pages), "3 pages");
        assert_eq!(rate(2.5e9, Unit::Nanoseconds), "2.50 waiting");
        assert_eq!(rate(91_226_112.0, Unit::Bytes), "87.0 MiB/s");
        assert_eq!(grouped(2_680_333), "2,680,333");
        assert_eq!(grouped(12), "12");
    }

    #[test]
    fn bucket_starts_are_exact() {
        assert_eq!(bucket(0, Unit::Bytes), "0");
        assert_eq!(bucket(512, Unit::Bytes), "512");
        assert_eq!(bucket(65_536, Unit::Bytes), "64K");
        assert_eq!(bucket(1 << 63, Unit::Pages), "8E");
        assert_eq!(bucket(1024, Unit::Nanoseconds), "1.02us");
    }
}
