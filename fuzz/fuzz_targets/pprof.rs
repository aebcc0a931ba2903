#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = profiler::profile::pprof::decode(data);
});
