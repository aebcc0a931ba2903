//! Histograms with power-of-two buckets.

use serde::{Deserialize, Serialize};

use super::kind::Unit;
use super::labels::{Device, IoOp, LockKind};

/// What a histogram measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Size of bios queued to a device, in bytes.
    BioSize,
    /// Size of requests issued to a device, in bytes.
    RequestSize,
    /// Time from issue to completion of a request, in ns.
    RequestLatency,
    /// Time waited for a lock, in ns.
    LockWait,
    /// Pages that readers wanted when they met the page cache's readahead.
    ReadaheadWanted,
    /// Pages that readahead then asked for.
    ReadaheadIssued,
    /// Pages an allocation returned.
    PageAllocSize,
}

impl Measure {
    /// A heading for people.
    pub fn title(self) -> &'static str {
        match self {
            Measure::BioSize => "bio size",
            Measure::RequestSize => "request size",
            Measure::RequestLatency => "request latency",
            Measure::LockWait => "lock wait",
            Measure::ReadaheadWanted => "readahead wanted",
            Measure::ReadaheadIssued => "readahead issued",
            Measure::PageAllocSize => "allocation size",
        }
    }

    /// The unit of the measured values.
    pub fn unit(self) -> Unit {
        match self {
            Measure::BioSize | Measure::RequestSize => Unit::Bytes,
            Measure::RequestLatency | Measure::LockWait => Unit::Nanoseconds,
            Measure::ReadaheadWanted | Measure::ReadaheadIssued | Measure::PageAllocSize => Unit::Pages,
        }
    }
}

/// A log2 histogram: `buckets[0]` counts zeros, `buckets[i]` values from 2^(i-1) to 2^i - 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// What is measured.
    pub measure: Measure,
    /// Device it belongs to, where it belongs to one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub device: Option<Device>,
    /// Direction of the I/O.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub op: Option<IoOp>,
    /// Kind of lock.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lock_kind: Option<LockKind>,
    /// Number of values.
    pub count: u64,
    /// Sum of the values, exact.
    pub sum: u64,
    /// Counts by bucket, without trailing zeros.
    pub buckets: Vec<u64>,
}

impl Histogram {
    /// The bucket of `value`.
    pub fn bucket_of(value: u64) -> usize {
        (u64::BITS - value.leading_zeros()) as usize
    }

    /// The smallest value of a bucket.
    pub fn bucket_start(bucket: usize) -> u64 {
        if bucket == 0 { 0 } else { 1 << (bucket - 1).min(63) }
    }

    /// The mean, or `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The upper end of the bucket in which the quantile `q` (0 to 1) falls, or `None` without values.
    pub fn quantile_below(&self, q: f64) -> Option<u64> {
        quantile_below(&self.buckets, q)
    }
}

/// The same of the `buckets` of a [`Histogram`] alone.
pub fn quantile_below(buckets: &[u64], q: f64) -> Option<u64> {
    let total: u64 = buckets.iter().sum();
    if total == 0 {
        return None;
    }
    let rank = (q.clamp(0.0, 1.0) * total as f64).ceil().max(1.0) as u64;
    let mut seen = 0;
    for (bucket, count) in buckets.iter().enumerate() {
        seen += count;
        if seen >= rank {
            return Some(Histogram::bucket_start(bucket + 1).saturating_sub(u64::from(bucket < 64)));
        }
    }
    None
}
