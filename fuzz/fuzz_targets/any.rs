//! One binary for all readers: the environment variable `READER` names the one that gets the inputs.
#![no_main]

// Seeds are written by the test that has these readers, too.
#[allow(dead_code)]
#[path = "../../crates/lathe/tests/it/readers/readers.rs"]
mod readers;

use std::sync::OnceLock;

static READ: OnceLock<fn(&[u8]) -> bool> = OnceLock::new();

fn chosen() -> fn(&[u8]) -> bool {
    let name = std::env::var("READER").unwrap_or_default();
    let found = readers::ALL.iter().find(|r| r.name == name);
    found.map(|r| r.read).unwrap_or_else(|| {
        let names: Vec<&str> = readers::ALL.iter().map(|r| r.name).collect();
        eprintln!("READER is one of {}", names.join(", "));
        std::process::exit(2)
    })
}

libfuzzer_sys::fuzz_target!(init: { READ.get_or_init(chosen); }, |data: &[u8]| {
    READ.get_or_init(chosen)(data);
});
