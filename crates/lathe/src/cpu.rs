//! Whether code for a named CPU runs on this machine.
//!
//! `--cpu` may name any CPU to emit code for; code that is run here must not hold an instruction that this machine
//! lacks, which would end the process without a word.

use crate::codes;
use lathe_diagnostics::Diagnostic;

/// Refuses to run code for a CPU that has vector instructions that this machine lacks. Names that are unknown here
/// are left to the engine, which says which ones it knows.
///
/// # Errors
/// `E0910`, with what is missing.
pub fn runs_here(name: &str) -> Result<(), Diagnostic> {
    let missing: Vec<&str> = needs(name).iter().filter(|n| !has(n)).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!("code for `{name}` does not run here: this machine lacks {}", missing.join(", "));
    Err(Diagnostic::error(codes::UNAVAILABLE, text)
        .help("leave --cpu out to run; `lathe emit --cpu` writes code for any CPU"))
}

/// The extensions of x86-64 that generated code may use, by LLVM's names of CPUs.
fn needs(name: &str) -> &'static [&'static str] {
    match name {
        "x86-64-v2" => &["sse4.2"],
        "sandybridge" | "ivybridge" => &["sse4.2", "avx"],
        "x86-64-v3" | "haswell" | "broadwell" | "skylake" | "znver1" | "znver2" | "znver3" => {
            &["avx2", "fma"]
        }
        "alderlake" => &["avx2", "fma", "avxvnni"],
        "x86-64-v4" | "skylake-avx512" => &["avx2", "fma", "avx512"],
        "cascadelake" => &["avx2", "fma", "avx512", "avx512vnni"],
        "cooperlake" => &["avx2", "fma", "avx512", "avx512vnni", "avx512bf16"],
        "icelake-client" | "icelake-server" | "tigerlake" => {
            &["avx2", "fma", "avx512", "avx512vnni", "avx512vbmi2"]
        }
        "znver4" => &["avx2", "fma", "avx512", "avx512vnni", "avx512vbmi2", "avx512bf16"],
        "znver5" => &["avx2", "fma", "avx512", "avx512vnni", "avx512vbmi2", "avx512bf16", "avxvnni"],
        "sapphirerapids" | "emeraldrapids" | "graniterapids" => {
            &["avx2", "fma", "avx512", "avx512vnni", "avx512vbmi2", "avx512bf16", "avxvnni", "avx512fp16"]
        }
        _ => &[],
    }
}

#[cfg(target_arch = "x86_64")]
fn has(feature: &str) -> bool {
    use std::arch::is_x86_feature_detected as detected;
    match feature {
        "sse4.2" => detected!("sse4.2"),
        "avx" => detected!("avx"),
        "avx2" => detected!("avx2") && detected!("bmi2") && detected!("f16c"),
        "fma" => detected!("fma"),
        "avx512" => {
            detected!("avx512f")
                && detected!("avx512bw")
                && detected!("avx512cd")
                && detected!("avx512dq")
                && detected!("avx512vl")
        }
        "avx512vnni" => detected!("avx512vnni"),
        "avx512vbmi2" => detected!("avx512vbmi") && detected!("avx512vbmi2"),
        "avx512bf16" => detected!("avx512bf16"),
        "avx512fp16" => detected!("avx512fp16"),
        "avxvnni" => detected!("avxvnni"),
        _ => false,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn has(_: &str) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood() {
        assert!(runs_here("x86-64").is_ok() && runs_here("no such name").is_ok());
        let widest = runs_here("sapphirerapids");
        assert_eq!(widest.is_ok(), needs("sapphirerapids").iter().all(|n| has(n)));
        for name in ["x86-64-v4", "znver5", "graniterapids"] {
            assert!(!needs(name).is_empty() && needs(name).iter().all(|n| !n.is_empty()), "{name}");
        }
    }
}
