#![no_main]
#![allow(dead_code)]

#[path = "../../crates/lathe/tests/it/readers/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    readers::form(data);
});
