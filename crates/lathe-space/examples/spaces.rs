//! Generates the shipped spaces and prints their sizes, times and memory.
//!
//! `cargo run --release -p lathe-space --example spaces [-- FILE.json …]`

use lathe_diagnostics::{Diagnostic, FileId};
use lathe_space::Space;
use lathe_space::formats::json;
use lathe_space::space::Generate;
use num_traits::ToPrimitive;
use rand::SeedableRng;
use std::time::Instant;

const SHIPPED: &[(&str, &str)] = &[
    ("conv", include_str!("../spaces/conv.json")),
    ("gemm", include_str!("../spaces/gemm.json")),
    ("ccsdt", include_str!("../spaces/ccsdt.json")),
    ("prl", include_str!("../spaces/prl.json")),
    ("ccsdt-4096", include_str!("../spaces/ccsdt-4096.json")),
    ("product", include_str!("../spaces/product.json")),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:12} {:>4} {:>12} {:>12} {:>10} {:>10} {:>10} {:>8} {:>9} {:>12}  groups",
        "space", "#", "size", "all", "fraction", "generate", "checks", "nodes", "bytes", "10^6 samples"
    );
    let files: Vec<String> = std::env::args().skip(1).collect();
    for (name, text) in SHIPPED.iter().filter(|_| files.is_empty()) {
        show(name, text)?;
    }
    for file in files {
        show(&file, &std::fs::read_to_string(&file)?)?;
    }
    Ok(())
}

fn show(name: &str, text: &str) -> Result<(), Diagnostic> {
    let def = json::parse(text, FileId(0))?.space;
    // The best of a few: the first one also pays for memory that the process did not have.
    let mut best = f64::INFINITY;
    let mut made = None;
    for _ in 0..5 {
        let start = Instant::now();
        made = Some(Space::generate(&def, &Generate::default())?);
        best = best.min(start.elapsed().as_secs_f64());
    }
    let Some(s) = made else { return Ok(()) };
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let start = Instant::now();
    let mut drawn = 0;
    for _ in 0..1_000_000 {
        drawn += s.draw(&mut rng).values().len();
    }
    let sampling = start.elapsed().as_secs_f64();
    let float = |v: &num_bigint::BigUint| v.to_f64().unwrap_or(f64::INFINITY);
    let groups: Vec<String> = s.groups().iter().map(|g| g.params.len().to_string()).collect();
    println!(
        "{:12} {:>4} {:>12.4e} {:>12.4e} {:>10.2e} {:>8.2}ms {:>10} {:>8} {:>9} {:>10.0}ms  {}",
        name,
        s.params().len(),
        float(s.size()),
        float(s.unconstrained()),
        float(s.size()) / float(s.unconstrained()),
        best * 1e3,
        s.checks(),
        s.nodes(),
        s.bytes(),
        sampling * 1e3 * f64::from(u8::from(drawn > 0)),
        groups.join(","),
    );
    Ok(())
}
