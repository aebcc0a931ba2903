#![no_main]

//! Whatever it is recognised as.

use profiler::import::{Options, read};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = read(&mut &*data, "data", &Options::default(), &|_, _| {});
});
