//! The host machine, as far as the processor tells.

use crate::Machine;

/// The features that machine files may need.
#[cfg(test)]
pub const KNOWN: &[&str] = &[
    "sse4.2",
    "avx",
    "avx2",
    "fma",
    "avx512",
    "avx512vnni",
    "avx512vbmi2",
    "avx512bf16",
    "avx512fp16",
    "avxvnni",
    "neon",
    "sve",
];

/// Whether the host processor has a feature that machine files name; `false` for those of others.
#[cfg(target_arch = "x86_64")]
pub fn has(feature: &str) -> bool {
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

/// As above.
#[cfg(target_arch = "aarch64")]
pub fn has(feature: &str) -> bool {
    use std::arch::is_aarch64_feature_detected as detected;
    match feature {
        "neon" => detected!("neon"),
        "sve" => detected!("sve"),
        _ => false,
    }
}

/// As above.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn has(_: &str) -> bool {
    false
}

/// The file that describes the host processor best.
pub fn kind() -> Option<&'static str> {
    let kinds: &[&str] = match std::env::consts::ARCH {
        "x86_64" => &["x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64"],
        // How long vectors that scale are, no one tells.
        "aarch64" => &["aarch64"],
        _ => &[],
    };
    kinds.iter().copied().find(|k| Machine::named(k).is_some_and(|m| m.lacking_here().is_empty()))
}

/// How many threads the process may use.
pub fn threads() -> u64 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u64)
}

/// Bytes per cycle that one core of AMD's gets from memory: 21 GB/s at 3.1 GHz were measured on a server with Zen 3.
#[cfg(target_arch = "x86_64")]
const OF_AMD: u64 = 7;

/// Caches, vector units, and the way to memory.
pub fn fill_in(m: &mut Machine) {
    #[cfg(not(target_arch = "x86_64"))]
    let _ = m;
    #[cfg(target_arch = "x86_64")]
    {
        caches(m);
        m.vector_units = vector_units(m.vector_bytes);
        if vendor() == "AuthenticAMD" {
            m.core_bytes_per_cycle = OF_AMD;
        }
    }
}

/// Servers of Intel start two multiply-adds of 512 bits per cycle, processors of AMD since Zen 5 as well; before, two
/// halves made one. Of 256 bits all of Intel do, and those of AMD since Zen 2. Of others nothing is assumed.
#[cfg(target_arch = "x86_64")]
fn vector_units(vector_bytes: u64) -> u64 {
    let cpuid = raw_cpuid::CpuId::new();
    let family = cpuid.get_feature_info().map_or(0, |f| f.family_id());
    let model = cpuid.get_feature_info().map_or(0, |f| f.model_id());
    match vendor().as_str() {
        "GenuineIntel" if vector_bytes == 32 && has("fma") => 2,
        "AuthenticAMD" if vector_bytes == 32 && has("fma") && (family > 0x17 || model >= 0x30) => 2,
        // With floats of 16 bits in them, these are servers.
        "GenuineIntel" if vector_bytes == 64 && (has("avx512bf16") || has("avx512fp16")) => 2,
        "AuthenticAMD" if vector_bytes == 64 && family >= 0x1a => 2,
        _ => 1,
    }
}

#[cfg(target_arch = "x86_64")]
fn vendor() -> String {
    raw_cpuid::CpuId::new().get_vendor_info().map(|v| v.as_str().to_string()).unwrap_or_default()
}

#[cfg(target_arch = "x86_64")]
fn caches(m: &mut Machine) {
    let cpuid = raw_cpuid::CpuId::new();
    for p in cpuid.get_cache_parameters().into_iter().flatten() {
        let bytes = p.associativity() * p.physical_line_partitions() * p.coherency_line_size() * p.sets();
        if p.cache_type() == raw_cpuid::CacheType::Instruction {
            continue;
        }
        match p.level() {
            // Both, since their quotient tells how many sets there are.
            1 => (m.l1_bytes, m.l1_ways) = (bytes as u64, p.associativity() as u64),
            2 => m.l2_bytes = bytes as u64,
            3 => m.l3_bytes = bytes as u64,
            _ => {}
        }
    }
    if let Some(l1) = cpuid.get_l1_cache_and_tlb_info() {
        m.l1_bytes = u64::from(l1.dcache_size()) * 1024;
    }
    if let Some(l2) = cpuid.get_l2_l3_cache_and_tlb_info() {
        m.l2_bytes = u64::from(l2.l2cache_size()) * 1024;
        // That of the whole package, of which a processor may have a part.
        if m.l3_bytes == 0 {
            m.l3_bytes = u64::from(l2.l3cache_size()) * 512 * 1024;
        }
    }
}
