//! What can be wrong with a pprof file, and how large it may be.

/// Most bytes a file may have once decompressed. Minutes of a busy machine take a tenth of it.
pub const MAX_BYTES: usize = 128 << 20;
/// Most entries (samples, locations, strings, ...) of a file.
pub const MAX_ENTRIES: usize = 8 << 20;
/// Most bytes of one sample or location.
pub const MAX_ENTRY_BYTES: usize = 1 << 20;
/// Most frames of one stack.
pub const MAX_DEPTH: usize = 16 << 10;
/// Most frames of all stacks together.
pub const MAX_FRAMES: usize = 256 << 20;

/// Why a pprof file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PprofError {
    /// The compression is damaged.
    #[error("the gzip data of the pprof file is damaged: {0}")]
    Gzip(#[source] std::io::Error),
    /// It is too large, perhaps on purpose.
    #[error("the pprof file is larger than {} MiB when decompressed, the most that is read", MAX_BYTES >> 20)]
    TooLarge,
    /// It has too many entries.
    #[error("the pprof file has more than {MAX_ENTRIES} entries, the most that is read")]
    TooManyEntries,
    /// A sample or a location is too large.
    #[error("{what} {index} of the pprof file is larger than {MAX_ENTRY_BYTES} bytes")]
    EntryTooLarge {
        /// `sample` or `location`.
        what: &'static str,
        /// Which one, from 0.
        index: usize,
    },
    /// A stack is too deep.
    #[error("sample {sample} of the pprof file has more than {MAX_DEPTH} frames")]
    TooDeep {
        /// Which sample, from 0.
        sample: usize,
    },
    /// The stacks are too many and too deep.
    #[error("the stacks of the pprof file have more than {MAX_FRAMES} frames together")]
    TooManyFrames,
    /// It is not a protocol buffer of the expected form.
    #[error("not a pprof file, or a damaged one: {0}")]
    Protobuf(#[from] prost::DecodeError),
    /// Nothing says what the samples mean.
    #[error("not a pprof file: it names no sample types")]
    NoSampleTypes,
    /// A string is not in the string table.
    #[error("the pprof file uses string {index} of {len}")]
    String {
        /// The index.
        index: i64,
        /// Strings there are.
        len: usize,
    },
    /// An id is 0 or used twice.
    #[error("the pprof file has a {what} with the id {id}, which is 0 or already taken")]
    Id {
        /// `mapping`, `location` or `function`.
        what: &'static str,
        /// The id.
        id: u64,
    },
    /// A sample refers to a location that does not exist.
    #[error("sample {sample} of the pprof file refers to location {id}, which does not exist")]
    Location {
        /// Which sample, from 0.
        sample: usize,
        /// Id of the location.
        id: u64,
    },
    /// A location refers to a function that does not exist.
    #[error("location {location} of the pprof file refers to function {id}, which does not exist")]
    Function {
        /// Id of the location.
        location: u64,
        /// Id of the function.
        id: u64,
    },
    /// A location refers to a mapping that does not exist.
    #[error("location {location} of the pprof file refers to mapping {id}, which does not exist")]
    Mapping {
        /// Id of the location.
        location: u64,
        /// Id of the mapping.
        id: u64,
    },
    /// A sample has more or fewer values than there are sample types.
    #[error("sample {sample} of the pprof file has {found} values for {expected} sample types")]
    Values {
        /// Which sample, from 0.
        sample: usize,
        /// Values it has.
        found: usize,
        /// Sample types there are.
        expected: usize,
    },
    /// A value is negative, as in the difference of two profiles.
    #[error("sample {sample} of the pprof file has the negative value {value}; differences cannot be read")]
    Negative {
        /// Which sample, from 0.
        sample: usize,
        /// The value.
        value: i64,
    },
}
