#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let _ = profiler::import::read_as("perf report", text);
});
