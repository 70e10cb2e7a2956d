//! What a result depends on.

use lathe_space::Values;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A processor, as far as it decides what is fast.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The model, as the processor names itself.
    pub name: String,
    /// Width of its widest vectors.
    pub vector_bytes: u64,
}

impl Device {
    /// The processor this runs on.
    pub fn host() -> Device {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|l| {
            let (name, value) = l.split_once(':')?;
            (name.trim() == "model name" && !value.trim().is_empty()).then(|| value.trim().to_string())
        });
        #[cfg(target_arch = "x86_64")]
        let vector_bytes = if std::arch::is_x86_feature_detected!("avx512f") {
            64
        } else if std::arch::is_x86_feature_detected!("avx") {
            32
        } else {
            16
        };
        #[cfg(not(target_arch = "x86_64"))]
        let vector_bytes = 16;
        Device { name: model.unwrap_or_else(|| std::env::consts::ARCH.to_string()), vector_bytes }
    }
}

/// Everything that a result depends on. Two results are comparable if their keys are equal; the two names are
/// for people and decide nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The kernel's or file's name.
    pub program: String,
    /// Of what is computed: the kernel's tree, or the program's source and scripts.
    pub program_hash: String,
    /// The strategy's name; empty for programs that are tuned by scripts.
    pub strategy: String,
    /// Of the strategy with everything that it calls.
    pub strategy_hash: String,
    /// Of the definition of the parameters: names, ranges, constraints.
    pub space_hash: String,
    /// Sizes, and other constants of the program.
    pub sizes: Values,
    /// Element types by array.
    pub types: BTreeMap<String, String>,
    pub device: Device,
    pub threads: u64,
    /// The compiler with its version and the options that change its code.
    pub compiler: String,
    /// What is minimised, for example `seconds`.
    pub objective: String,
    /// Of the contents of inputs that were given; empty where they were made up, or are the program's own. It is not
    /// written where it is empty, so that keys of before keep their digests.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub data: String,
}

impl Key {
    /// The key as a short text: equal keys, and only they, have equal digests.
    pub fn digest(&self) -> String {
        let nameless = Key { program: String::new(), strategy: String::new(), ..self.clone() };
        // Maps are sorted, so equal keys print alike; a key holds nothing that JSON cannot say.
        let text = serde_json::to_string(&nameless).unwrap_or_default();
        blake3::hash(text.as_bytes()).to_hex()[..32].to_string()
    }

    /// The parts in which two keys differ, by name.
    pub fn differences(&self, other: &Key) -> Vec<&'static str> {
        let parts = [
            ("program", self.program_hash == other.program_hash),
            ("strategy", self.strategy_hash == other.strategy_hash),
            ("parameters", self.space_hash == other.space_hash),
            ("sizes", self.sizes == other.sizes),
            ("types", self.types == other.types),
            ("device", self.device == other.device),
            ("threads", self.threads == other.threads),
            ("compiler", self.compiler == other.compiler),
            ("objective", self.objective == other.objective),
            ("data", self.data == other.data),
        ];
        parts.into_iter().filter(|p| !p.1).map(|p| p.0).collect()
    }
}

/// The hash of several texts, in order; `["ab", "c"]` and `["a", "bc"]` differ.
pub fn hash_of(texts: &[&str]) -> String {
    let mut h = blake3::Hasher::new();
    for t in texts {
        h.update(&(t.len() as u64).to_le_bytes());
        h.update(t.as_bytes());
    }
    h.finalize().to_hex()[..32].to_string()
}

/// The hash of a content.
pub fn hash_of_bytes(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..32].to_string()
}

/// The hash of what a file holds, as [`hash_of_bytes`] has it, without the file in memory.
///
/// # Errors
/// What the system says.
pub fn hash_of_file(file: std::fs::File) -> std::io::Result<String> {
    let mut h = blake3::Hasher::new();
    h.update_reader(file)?;
    Ok(h.finalize().to_hex()[..32].to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_space::Value;

    #[test]
    fn every_part_but_the_names_makes_another_key() {
        let base = Key::default();
        let sizes = [("N".to_string(), Value::Int(8))].into();
        let types = [("A".to_string(), "f32".to_string())].into();
        let others = [
            Key { program_hash: "x".into(), ..base.clone() },
            Key { strategy_hash: "x".into(), ..base.clone() },
            Key { space_hash: "x".into(), ..base.clone() },
            Key { sizes, ..base.clone() },
            Key { types, ..base.clone() },
            Key { device: Device { name: "x".into(), vector_bytes: 0 }, ..base.clone() },
            Key { device: Device { name: String::new(), vector_bytes: 64 }, ..base.clone() },
            Key { threads: 2, ..base.clone() },
            Key { compiler: "x".into(), ..base.clone() },
            Key { objective: "x".into(), ..base.clone() },
            Key { data: "x".into(), ..base.clone() },
        ];
        for (i, k) in others.iter().enumerate() {
            assert_ne!(k.digest(), base.digest(), "{k:?}");
            assert_eq!(k.differences(&base).len(), 1, "{k:?}");
            assert!(others.iter().skip(i + 1).all(|o| o.digest() != k.digest()));
        }
        let named = Key { program: "gemm".into(), strategy: "tiled".into(), ..base.clone() };
        assert_eq!(named.digest(), base.digest());
        assert_ne!(hash_of(&["ab", "c"]), hash_of(&["a", "bc"]));
    }
}
