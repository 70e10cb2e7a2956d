//! Machines as data: what a strategy may ask of the machine that it is for.

use lathe_space::Value;

/// A CPU, as far as strategies and cost models need to know it. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// LLVM's name of the CPU, or `host`.
    pub name: String,
    /// Width of the widest vector registers.
    pub vector_bytes: u64,
    pub vector_registers: u64,
    pub fma: bool,
    pub l1_bytes: u64,
    pub l2_bytes: u64,
    /// Shared by all cores; 0 if there is none.
    pub l3_bytes: u64,
    /// Hardware threads this process may use.
    pub threads: u64,
}

impl Machine {
    /// The machine this runs on.
    pub fn host() -> Machine {
        let mut m = Machine {
            name: "host".to_string(),
            ..Machine::named("x86-64").unwrap_or_else(Machine::baseline)
        };
        m.threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        #[cfg(target_arch = "x86_64")]
        {
            let level = if std::arch::is_x86_feature_detected!("avx512f")
                && std::arch::is_x86_feature_detected!("avx512vl")
                && std::arch::is_x86_feature_detected!("avx512dq")
                && std::arch::is_x86_feature_detected!("avx512bw")
            {
                4
            } else if std::arch::is_x86_feature_detected!("avx2")
                && std::arch::is_x86_feature_detected!("fma")
            {
                3
            } else {
                1
            };
            m.set_level(level);
            let cpuid = raw_cpuid::CpuId::new();
            let from_intel_leaf = cpuid.get_cache_parameters().map(|ps| {
                ps.filter(|p| p.cache_type() != raw_cpuid::CacheType::Instruction)
                    .map(|p| {
                        let bytes = p.associativity()
                            * p.physical_line_partitions()
                            * p.coherency_line_size()
                            * p.sets();
                        (p.level(), bytes as u64)
                    })
                    .collect::<Vec<_>>()
            });
            for (level, bytes) in from_intel_leaf.unwrap_or_default() {
                match level {
                    1 => m.l1_bytes = bytes,
                    2 => m.l2_bytes = bytes,
                    3 => m.l3_bytes = bytes,
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
        m
    }

    /// A machine by LLVM's name of an x86-64 level (`x86-64-v3`), or `None`.
    pub fn named(name: &str) -> Option<Machine> {
        let level = match name {
            "x86-64" => 1,
            "x86-64-v2" => 2,
            "x86-64-v3" => 3,
            "x86-64-v4" => 4,
            _ => return None,
        };
        let mut m = Machine { name: name.to_string(), ..Machine::baseline() };
        m.set_level(level);
        Some(m)
    }

    fn baseline() -> Machine {
        Machine {
            name: "generic".to_string(),
            vector_bytes: 16,
            vector_registers: 16,
            fma: false,
            l1_bytes: 32 << 10,
            l2_bytes: 256 << 10,
            l3_bytes: 0,
            threads: 1,
        }
    }

    fn set_level(&mut self, level: u32) {
        (self.vector_bytes, self.vector_registers, self.fma) = match level {
            4 => (64, 32, true),
            3 => (32, 16, true),
            _ => (16, 16, false),
        };
    }

    /// A fact by the name that strategies use: `l1_bytes`, `l2_bytes`, `l3_bytes`, `threads`,
    /// `vector_bytes`, `vector_registers`, and `vector(f32)`: lanes of a type in one register.
    pub fn fact(&self, name: &str) -> Option<Value> {
        let element = name.strip_prefix("vector(").and_then(|n| n.strip_suffix(')'));
        let bytes = |ty: &str| match ty {
            "i8" | "u8" | "bool" => Some(1),
            "i16" | "u16" | "f16" | "bf16" => Some(2),
            "i32" | "u32" | "f32" => Some(4),
            "i64" | "u64" | "index" | "f64" => Some(8),
            _ => None,
        };
        if let Some(ty) = element {
            return Some(Value::Int(self.lanes(bytes(ty.trim())?) as i64));
        }
        let v = match name {
            "l1_bytes" => self.l1_bytes,
            "l2_bytes" => self.l2_bytes,
            "l3_bytes" => self.l3_bytes,
            "threads" => self.threads,
            "vector_bytes" => self.vector_bytes,
            "vector_registers" => self.vector_registers,
            _ => return None,
        };
        Some(Value::Int(v as i64))
    }

    /// `vector(T)`: lanes of a scalar of this size in one register.
    pub fn lanes(&self, scalar_bytes: u64) -> u64 {
        (self.vector_bytes / scalar_bytes.max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_caches_and_vectors() {
        let m = Machine::host();
        assert!(m.vector_bytes >= 16 && m.l1_bytes >= 8 << 10 && m.threads >= 1, "{m:?}");
        assert_eq!(m.lanes(4), m.vector_bytes / 4);
        assert_eq!(m.fact("vector(f32)"), Some(Value::Int(m.lanes(4) as i64)));
        assert_eq!(m.fact("threads"), Some(Value::Int(m.threads as i64)));
    }

    #[test]
    fn levels_are_named_as_llvm_names_them() {
        assert_eq!(Machine::named("x86-64-v3").map(|m| m.vector_bytes), Some(32));
        assert_eq!(Machine::named("m68k"), None);
    }
}
