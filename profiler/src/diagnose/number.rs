//! Numbers in the sentences of findings.

/// A share from 0 to 1: `41.2%`.
pub fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// A factor: `16.0x`.
pub fn times(factor: f64) -> String {
    if factor >= 99.95 { format!("{factor:.0}x") } else { format!("{factor:.1}x") }
}
