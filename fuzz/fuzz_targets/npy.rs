//! `.npy` files: an array or a diagnostic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(array) = lathe_runtime::npy::from_bytes(data) {
        let mut out = Vec::new();
        let _ = lathe_runtime::npy::write_to(&array, &mut out);
    }
});
