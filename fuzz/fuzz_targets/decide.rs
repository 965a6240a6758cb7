#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| reqwest_safe_retry_fuzz::decide::check(data));
