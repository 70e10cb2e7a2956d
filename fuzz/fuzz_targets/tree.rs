//! Tree text: parsed, verified, printed and parsed again.
#![no_main]

use lathe_diagnostics::FileId;
use lathe_ir::{text, verify};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let Ok(module) = text::parse_module(FileId(0), input) else { return };
    let _ = verify::verify(&module);
    let printed = text::print_module(&module);
    match text::parse_module(FileId(0), &printed) {
        Ok(again) => assert_eq!(text::print_module(&again), printed),
        Err(e) => panic!("printed text does not parse: {e:?}"),
    }
});
