//! `.lathe` source: whatever the bytes are, the front end answers with a program or with diagnostics.
#![no_main]

use lathe_diagnostics::SourceMap;

struct NoFiles;

impl lathe_lang::Resolver for NoFiles {
    fn load(&mut self, _: &str, name: &str) -> Result<(String, String), String> {
        Err(format!("no file {name}"))
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = lathe_lang::load(&mut SourceMap::new(), "fuzz.lathe", text, &mut NoFiles);
        if let Ok(once) = lathe_lang::format(text) {
            assert_eq!(lathe_lang::format(&once).as_deref(), Ok(once.as_str()), "formatting twice changes something");
        }
    }
});
