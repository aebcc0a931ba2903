//! The messages of pprof's `profile.proto`
//! (<https://github.com/google/pprof/blob/main/proto/profile.proto>), field numbers as published.
//!
//! Two fields keep their raw bytes, which are the same on the wire: samples and locations are decoded one at
//! a time, so that a hostile file cannot blow up into many times its size, and strings need not be UTF-8.

use prost::Message;
use prost::bytes::Bytes;

/// A whole profile.
#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    /// What each entry of a sample's `value` means.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    /// [`Sample`]s, each still encoded.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub sample: Vec<Bytes>,
    /// Binaries, kernel modules and the kernel.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    /// [`Location`]s, each still encoded.
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub location: Vec<Bytes>,
    /// Functions.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// Every string; index 0 is the empty one.
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub string_table: Vec<Bytes>,
    /// Start of the measurement, ns since the epoch.
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    /// Length of the measurement in ns.
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    /// What `period` counts.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    /// Distance between two samples.
    #[prost(int64, tag = "12")]
    pub period: i64,
    /// Free text (string indices).
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    /// Name of the sample type to show first (string index).
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

/// Name and unit of a value (string indices).
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ValueType {
    /// Name.
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    /// Unit.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// A stack with its values.
#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    /// Ids of the locations, innermost first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// One value for each sample type.
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    /// Whose stack it is.
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

/// A label: a string or a number.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Label {
    /// Key (string index).
    #[prost(int64, tag = "1")]
    pub key: i64,
    /// Value, when it is a string (string index).
    #[prost(int64, tag = "2")]
    pub str: i64,
    /// Value, when it is a number.
    #[prost(int64, tag = "3")]
    pub num: i64,
    /// Unit of the number (string index).
    #[prost(int64, tag = "4")]
    pub num_unit: i64,
}

/// A binary and the addresses it covers.
#[derive(Clone, PartialEq, Message)]
pub struct Mapping {
    /// Id, not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// First address.
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    /// Address after the last.
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    /// File (string index).
    #[prost(int64, tag = "5")]
    pub filename: i64,
    /// Whether the functions are resolved already.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
}

/// A place in the code.
#[derive(Clone, PartialEq, Message)]
pub struct Location {
    /// Id, not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Mapping it lies in, 0 if unknown.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// Instruction address, 0 if unknown.
    #[prost(uint64, tag = "3")]
    pub address: u64,
    /// The function, after the functions that were inlined into it, innermost first.
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

/// A function at a location.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Line {
    /// The function.
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Function {
    /// Id, not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Name (string index).
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// Name as the symbol table has it (string index).
    #[prost(int64, tag = "3")]
    pub system_name: i64,
}
