//! Machines as data: what strategies, cost models and engines may ask of the machine that code is for.
//!
//! A machine is a file of `machines/` or of a user: its levels ([`Model`]: who runs what, which memories there are,
//! how much fits), facts about it ([`Machine`]), and what compilers call it ([`Code`]). A file may be based on another.

pub mod codes;
mod costs;
mod file;
mod host;
mod levels;
pub mod model;

pub use codes::CODES;
pub use costs::Costs;
pub use file::{Code, FORMAT};
pub use host::has;
pub use model::Model;

use file::{Fact, File, SHIPPED, place_of};
use lathe_diagnostics::Diagnostic;
use lathe_space::Value;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Blocks that a cluster may have on every NVIDIA device of an architecture (`sm_90a`): 8 from compute capability 9.0 on,
/// 1 where there are no clusters.
pub fn cluster_blocks(arch: &str) -> i64 {
    let number = arch.strip_prefix("sm_").map(|n| n.trim_end_matches(char::is_alphabetic));
    match number.and_then(|n| n.parse::<u32>().ok()) {
        Some(n) if n >= 90 => 8,
        _ => 1,
    }
}

/// What lanes that are masked off cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masks {
    /// Nothing: the machine has registers for them.
    Cheap,
    /// Loads and stores of their own, and blends.
    Dear,
    /// Lanes go one by one.
    None,
}

/// A machine, as far as strategies and cost models need to know it. Sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// That of its file, or of a processor in it, or `host`.
    pub name: String,
    /// How to find it again: its name, or the path of its file.
    pub origin: String,
    /// What compilers call it.
    pub code: Code,
    /// Width of the widest vector registers.
    pub vector_bytes: u64,
    pub vector_registers: u64,
    pub fma: bool,
    pub masks: Masks,
    pub l1_bytes: u64,
    /// Lines of the first cache that may have the same place.
    pub l1_ways: u64,
    pub l2_bytes: u64,
    /// Shared by all cores; 0 if there is none.
    pub l3_bytes: u64,
    pub line_bytes: u64,
    /// Cycles from a multiply-add to one that needs its result.
    pub fma_latency: u64,
    /// Multiply-adds of whole vectors that a core starts per cycle.
    pub vector_units: u64,
    /// Bytes per cycle that one core gets from memory, and all cores together.
    pub core_bytes_per_cycle: u64,
    pub memory_bytes_per_cycle: u64,
    /// Hardware threads this process may use.
    pub threads: u64,
    pub costs: Costs,
    /// Further facts, by name.
    pub more: BTreeMap<String, Value>,
}

/// The type of a fact.
enum Kind {
    /// Of bytes and rates: at least so many.
    Amount(i64),
    /// Of things that there are.
    Count,
    Bool,
    Masks,
}

/// The most bytes that anything has.
pub(crate) const MOST: i64 = 1 << 50;

impl Kind {
    /// Whether a fact has the type; otherwise what it must be.
    fn check(&self, fact: &Fact) -> Result<(), String> {
        let (right, what) = match (self, fact) {
            (Kind::Amount(least), Fact::Int(n)) => ((*least..=MOST).contains(n), format!("{least} to 2^50")),
            (Kind::Count, Fact::Int(n)) => ((1..=1 << 24).contains(n), "1 to 2^24".to_string()),
            (Kind::Amount(_) | Kind::Count, _) => (false, "a whole number".to_string()),
            (Kind::Bool, fact) => (matches!(fact, Fact::Bool(_)), "`true` or `false`".to_string()),
            (Kind::Masks, fact) => (masks(fact).is_some(), "\"cheap\", \"dear\" or \"none\"".to_string()),
        };
        if right { Ok(()) } else { Err(what) }
    }
}

fn masks(fact: &Fact) -> Option<Masks> {
    let Fact::Word(word) = fact else { return None };
    let all = [("cheap", Masks::Cheap), ("dear", Masks::Dear), ("none", Masks::None)];
    all.into_iter().find(|m| m.0 == word).map(|m| m.1)
}

/// The facts that files may state, and their types. A machine need not have a second or third cache.
const FACTS: &[(&str, Kind)] = &[
    ("vector_bytes", Kind::Amount(1)),
    ("vector_registers", Kind::Count),
    ("fma", Kind::Bool),
    ("masks", Kind::Masks),
    ("l1_bytes", Kind::Amount(1)),
    ("l1_ways", Kind::Count),
    ("l2_bytes", Kind::Amount(0)),
    ("l3_bytes", Kind::Amount(0)),
    ("line_bytes", Kind::Amount(1)),
    ("fma_latency", Kind::Count),
    ("vector_units", Kind::Count),
    ("core_bytes_per_cycle", Kind::Count),
    ("memory_bytes_per_cycle", Kind::Count),
    ("threads", Kind::Count),
    // Of devices: memory that the threads of a block share, registers of a thread, threads of a block, and so on.
    ("shared_bytes", Kind::Amount(1)),
    ("register_bytes", Kind::Amount(1)),
    ("block_threads", Kind::Count),
    ("warp_lanes", Kind::Count),
    ("local_bytes", Kind::Amount(1)),
    ("work_items", Kind::Count),
    ("multiprocessors", Kind::Count),
    ("multiprocessor_shared_bytes", Kind::Amount(1)),
    ("multiprocessor_threads", Kind::Count),
    ("multiprocessor_registers", Kind::Count),
    ("memory_bytes", Kind::Amount(1)),
    // Ceilings.
    ("copy_gbytes_per_s", Kind::Amount(1)),
    ("f32_gflops", Kind::Amount(1)),
];

/// Whether a name may stand for a number in limits: a fact that is one, whether or not it is known, or a file's own.
pub(crate) fn is_number(name: &str, own: &BTreeMap<String, Fact>) -> bool {
    let lanes = name.strip_prefix("vector(").and_then(|n| n.strip_suffix(')'));
    let known = |f: &&(&str, Kind)| f.0 == name && matches!(f.1, Kind::Amount(_) | Kind::Count);
    lanes.is_some_and(|ty| lathe_ir::Type::element_named(ty.trim()).is_some())
        || FACTS.iter().any(|f| known(&f))
        || matches!(own.get(name), Some(Fact::Int(1..)))
}

impl Machine {
    /// The machine this runs on: the file of its kind, with what the processor tells.
    pub fn host() -> Machine {
        // The processor stays the same; how many threads the process may use can change.
        static KNOWN: OnceLock<Machine> = OnceLock::new();
        let known = KNOWN.get_or_init(|| {
            let mut m = host::kind().and_then(Machine::named).unwrap_or_else(Machine::unknown);
            (m.name, m.origin) = ("host".to_string(), "host".to_string());
            host::fill_in(&mut m);
            m
        });
        Machine { threads: host::threads(), ..known.clone() }
    }

    /// A machine that comes with Lathe, or a processor that one of their files names (`x86-64-v3`, `znver4`).
    pub fn named(name: &str) -> Option<Machine> {
        if let Some(file) = File::shipped(name) {
            return Machine::of(&file.ok()?, "").ok();
        }
        let by_processor = |(of, _): &(&str, &str)| {
            let file = File::shipped(of)?.ok()?;
            let needs = file.processors.get(name)?;
            let mut m = Machine::of(&file, "").ok()?;
            (m.name, m.origin) = (name.to_string(), name.to_string());
            m.code.cpu = name.to_string();
            m.code.needs.extend(needs.iter().cloned());
            Some(m)
        };
        SHIPPED.iter().find_map(by_processor)
    }

    /// As [`Machine::named`].
    ///
    /// # Errors
    /// `E0703` with the names that there are.
    pub fn find(name: &str) -> Result<Machine, Diagnostic> {
        Machine::named(name).ok_or_else(|| {
            Diagnostic::error(codes::MACHINE, format!("unknown processor `{}`", name.escape_debug()))
                .help(format!("known: {}; use a file for any other", Machine::names().join(", ")))
        })
    }

    /// Every machine that programs run on by themselves, and every processor, in alphabetical order.
    pub fn names() -> Vec<String> {
        let files = SHIPPED.iter().filter_map(|s| File::shipped(s.0)?.ok());
        let mut out: Vec<String> = files
            .filter(|f| f.code.as_ref().is_some_and(|c| !c.triple.is_empty()))
            .flat_map(|f| f.processors.into_keys().chain([f.name]).collect::<Vec<_>>())
            .collect();
        out.sort();
        out
    }

    /// Reads a machine file.
    ///
    /// # Errors
    /// `E1201` where the text is not a machine of this or an older version, `E1202` where it contradicts itself.
    pub fn parse(text: &str) -> Result<Machine, Diagnostic> {
        Machine::of(&File::read(text)?.on_base(0)?, text)
    }

    fn unknown() -> Machine {
        Machine {
            name: "generic".to_string(),
            origin: "generic".to_string(),
            code: Code::default(),
            vector_bytes: 16,
            vector_registers: 16,
            fma: false,
            masks: Masks::None,
            l1_bytes: 32 << 10,
            l1_ways: 8,
            l2_bytes: 256 << 10,
            l3_bytes: 0,
            line_bytes: 64,
            fma_latency: 4,
            vector_units: 1,
            core_bytes_per_cycle: 14,
            memory_bytes_per_cycle: 56,
            threads: 1,
            costs: Costs::default(),
            more: BTreeMap::new(),
        }
    }

    /// A file with what it takes from its base, and the text that it was read from, for places in messages.
    fn of(file: &File, text: &str) -> Result<Machine, Diagnostic> {
        Model::of(file)?;
        let mut m = Machine {
            name: file.name.clone(),
            origin: file.name.clone(),
            code: file.code.clone().unwrap_or_default(),
            ..Machine::unknown()
        };
        let fail = |text: String| {
            Diagnostic::error(codes::MODEL, format!("machine `{}`: {text}", file.name.escape_debug()))
        };
        for (name, fact) in &file.facts {
            let Some((_, kind)) = FACTS.iter().find(|f| f.0 == name) else {
                let known: Vec<&str> = FACTS.iter().map(|f| f.0).collect();
                let place = place_of(text, "facts", name);
                return Err(fail(format!("{place}there is no fact `{}`", name.escape_debug()))
                    .help(format!("known facts: {}; put others under `[extra]`", known.join(", "))));
            };
            if let Err(what) = kind.check(fact) {
                return Err(fail(format!("{}the fact `{name}` is {what}", place_of(text, "facts", name))));
            }
            match fact {
                Fact::Int(n) => m.set(name, n.unsigned_abs()),
                Fact::Bool(b) => m.fma = *b,
                Fact::Word(_) => m.masks = masks(fact).unwrap_or(m.masks),
            }
        }
        m.costs = Costs::with(m.masks);
        for (name, cost) in &file.costs {
            let place = || place_of(text, "costs", name);
            if m.costs.get(name).is_none() {
                return Err(fail(format!("{}there is no cost `{}`", place(), name.escape_debug()))
                    .help(format!("known costs: {}", Costs::NAMES.join(", "))));
            }
            if !costs::RANGE.contains(cost) {
                return Err(fail(format!("{}the cost `{name}` is a number from 0.001 to 10^9", place())));
            }
            m.costs.set(name, *cost);
        }
        let of = |name: &str, what: &str| Err(fail(format!("{}{what}", place_of(text, "facts", name))));
        if !m.vector_bytes.is_power_of_two() || m.vector_bytes > 4096 {
            return of(
                "vector_bytes",
                "the number of bytes in a vector must be a power of two, at most 4096",
            );
        }
        if !m.line_bytes.is_power_of_two() || m.l1_bytes < m.line_bytes.saturating_mul(m.l1_ways) {
            return of(
                "l1_bytes",
                "the first cache has fewer bytes than its `l1_ways` lines of a power of two of `line_bytes`",
            );
        }
        if m.code.vscale != 0 && u64::from(m.code.vscale) * 16 != m.vector_bytes {
            return of("vector_bytes", "`vscale` times 16 bytes is not `vector_bytes`");
        }
        for (name, fact) in &file.extra {
            let word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if FACTS.iter().any(|f| f.0 == name)
                || Costs::NAMES.contains(&name.as_str())
                || name == "cheap_masks"
                || !word
            {
                let place = place_of(text, "extra", name);
                return Err(fail(format!(
                    "{place}`{}` is no name of a fact under `[extra]`",
                    name.escape_debug()
                ))
                .help("what Lathe knows belongs under `[facts]`"));
            }
            m.more.insert(name.clone(), fact.value());
        }
        Ok(m)
    }

    fn set(&mut self, name: &str, n: u64) {
        let field = match name {
            "vector_bytes" => &mut self.vector_bytes,
            "vector_registers" => &mut self.vector_registers,
            "l1_bytes" => &mut self.l1_bytes,
            "l1_ways" => &mut self.l1_ways,
            "l2_bytes" => &mut self.l2_bytes,
            "l3_bytes" => &mut self.l3_bytes,
            "line_bytes" => &mut self.line_bytes,
            "fma_latency" => &mut self.fma_latency,
            "vector_units" => &mut self.vector_units,
            "core_bytes_per_cycle" => &mut self.core_bytes_per_cycle,
            "memory_bytes_per_cycle" => &mut self.memory_bytes_per_cycle,
            "threads" => &mut self.threads,
            _ => {
                self.more.insert(name.to_string(), Value::Int(n as i64));
                return;
            }
        };
        *field = n;
    }

    /// A fact by the name that strategies use: those of the fields, `cheap_masks`, `vector(f32)` (lanes of a type in
    /// one register), costs, and further ones of the machine's file.
    pub fn fact(&self, name: &str) -> Option<Value> {
        let element = name.strip_prefix("vector(").and_then(|n| n.strip_suffix(')'));
        if let Some(ty) = element {
            let ty = lathe_ir::Type::element_named(ty.trim())?;
            // The parts of complex numbers lie in vectors of their own.
            let bytes = ty.complex_part().map_or(ty.bytes(), lathe_ir::Scalar::bytes);
            return Some(Value::Int(self.lanes(bytes) as i64));
        }
        let v = match name {
            "l1_bytes" => self.l1_bytes,
            "l1_ways" => self.l1_ways,
            "l2_bytes" => self.l2_bytes,
            "l3_bytes" => self.l3_bytes,
            "line_bytes" => self.line_bytes,
            "threads" => self.threads,
            "vector_bytes" => self.vector_bytes,
            "vector_registers" => self.vector_registers,
            "fma_latency" => self.fma_latency,
            "vector_units" => self.vector_units,
            "core_bytes_per_cycle" => self.core_bytes_per_cycle,
            "memory_bytes_per_cycle" => self.memory_bytes_per_cycle,
            "fma" => return Some(Value::Bool(self.fma)),
            "cheap_masks" => return Some(Value::Bool(self.masks == Masks::Cheap)),
            _ => return self.more.get(name).cloned().or_else(|| self.costs.get(name).map(Value::Float)),
        };
        Some(Value::Int(v as i64))
    }

    /// `vector(T)`: lanes of a scalar of this size in one register.
    pub fn lanes(&self, scalar_bytes: u64) -> u64 {
        (self.vector_bytes / scalar_bytes.max(1)).max(1)
    }

    /// What code for this machine needs and the host machine lacks.
    pub fn lacking_here(&self) -> Vec<&str> {
        let foreign = !self.code.arch.is_empty() && self.code.arch != std::env::consts::ARCH;
        let arch = foreign.then_some(self.code.arch.as_str());
        arch.into_iter().chain(self.code.needs.iter().map(String::as_str).filter(|n| !has(n))).collect()
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
        assert_eq!(m.fact("cheap_masks"), Some(Value::Bool(m.masks == Masks::Cheap)));
        assert!(m.lacking_here().is_empty(), "{m:?}");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn sets_of_the_first_cache_of_the_host_are_a_power_of_two() {
        // What a line's address chooses them by are some of its bits: bytes and ways are of the same cache.
        let m = Machine::host();
        let sets = m.l1_bytes / (m.l1_ways * m.line_bytes);
        assert!(sets.is_power_of_two(), "{} bytes, {} ways, {sets} sets", m.l1_bytes, m.l1_ways);
    }

    #[test]
    fn every_file_is_a_machine_and_its_name_is_that_of_the_file() {
        assert!(SHIPPED.len() >= 20);
        for (name, text) in SHIPPED {
            let m = Machine::parse(text).unwrap_or_else(|d| panic!("{name}: {d}"));
            assert_eq!(m.name, *name);
            assert_eq!(Machine::find(name), Ok(m));
            // What code for it needs is something that can be asked for.
            let file = File::shipped(name).unwrap().unwrap();
            let needs = file.code.iter().flat_map(|c| &c.needs).chain(file.processors.values().flatten());
            for n in needs {
                assert!(host::KNOWN.contains(&n.as_str()), "{name} needs `{n}`");
            }
        }
    }

    #[test]
    fn levels_and_processors_are_named_as_llvm_names_them() {
        let of = |n: &str| Machine::named(n).map(|m| (m.vector_bytes, m.vector_registers, m.fma, m.masks));
        assert_eq!(of("x86-64"), Some((16, 16, false, Masks::None)));
        assert_eq!(of("x86-64-v3"), Some((32, 16, true, Masks::Dear)));
        assert_eq!(of("x86-64-v4"), Some((64, 32, true, Masks::Cheap)));
        assert_eq!(of("haswell"), of("x86-64-v3"));
        assert_eq!(of("znver5"), of("x86-64-v4"));
        assert_eq!(of("aarch64"), Some((16, 32, true, Masks::None)));
        assert_eq!(of("m68k"), None);
        let wide = Machine::named("sapphirerapids").unwrap();
        assert_eq!((wide.code.cpu.as_str(), wide.code.arch.as_str()), ("sapphirerapids", "x86_64"));
        assert!(wide.code.needs.contains(&"avx512fp16".to_string()));
        let d = Machine::find("m68k").unwrap_err();
        assert!(d.code == codes::MACHINE && d.help.unwrap().contains("x86-64-v3"));
    }

    #[test]
    fn devices_have_their_limits() {
        let facts = |m: &str, n: &str| Machine::named(m).unwrap().fact(n);
        assert_eq!(facts("h200", "shared_bytes"), Some(Value::Int(232_448)));
        assert_eq!(facts("h200", "block_threads"), Some(Value::Int(1024)));
        assert_eq!(facts("cuda", "shared_bytes"), Some(Value::Int(49_152)));
        assert_eq!(facts("mi250x", "warp_lanes"), Some(Value::Int(64)));
        assert_eq!(facts("opencl", "work_items"), None);
    }

    #[test]
    fn a_user_adds_a_machine_by_a_file() {
        let text = r#"
            format = 1
            name = "mine"
            base = "x86-64-v3"
            [facts]
            l2_bytes = 2097152
            threads = 8
            [costs]
            gather = 1.25
            masked_memory = 2
            [extra]
            turbo = true
        "#;
        let m = Machine::parse(text).unwrap();
        assert_eq!((m.vector_bytes, m.l2_bytes, m.threads), (32, 2 << 20, 8));
        assert_eq!(m.fact("turbo"), Some(Value::Bool(true)));
        let usual = Machine::find("x86-64-v3").unwrap().costs;
        assert_eq!((usual.gather, usual.masked_arithmetic, usual.masked_memory), (2.8, 1.2, 3.0));
        assert_eq!(m.costs, Costs { gather: 1.25, masked_memory: 2.0, ..usual });
        assert_eq!(m.fact("gather"), Some(Value::Float(1.25)));
        assert_eq!(m.code.cpu, "x86-64-v3");
        let levels = Model::parse(text).unwrap();
        assert_eq!((levels.name.as_str(), levels.layers()), ("mine", 7));
    }

    #[test]
    fn bad_files_are_refused_with_the_reason() {
        let with = |rest: &str| format!("format = 1\nname = \"m\"\nbase = \"cpu\"\n{rest}");
        assert!(Machine::parse(&with("")).is_ok());
        for (text, code, words) in [
            (with("colour = 3"), codes::FORM, "colour"),
            (with("[costs]\ncolour = 3"), codes::MODEL, "line 5"),
            (with("[costs]\ngather = 0"), codes::MODEL, "line 5"),
            (with("[costs]\ngather = nan"), codes::MODEL, "gather"),
            (with("[costs]\ngather = \"dear\""), codes::FORM, "line 5"),
            (with("[extra]\ngather = 3"), codes::MODEL, "gather"),
            (with("[facts]\nl1_byte = 3"), codes::MODEL, "l1_byte"),
            (with("[facts]\nl1_bytes = -3"), codes::MODEL, "l1_bytes"),
            (with("[facts]\nl1_bytes = \"many\""), codes::MODEL, "l1_bytes"),
            (with("[facts]\nfma = 1"), codes::MODEL, "fma"),
            (with("[facts]\nmasks = \"free\""), codes::MODEL, "masks"),
            (with("[facts]\nfma_latency = 0"), codes::MODEL, "fma_latency"),
            (with("[facts]\nvector_units = 0"), codes::MODEL, "vector_units"),
            (with("[facts]\ncore_bytes_per_cycle = 0"), codes::MODEL, "core_bytes_per_cycle"),
            (with("[facts]\nmemory_bytes_per_cycle = \"many\""), codes::MODEL, "memory_bytes_per_cycle"),
            (with("[facts]\nthreads = 0"), codes::MODEL, "threads"),
            (with("[facts]\nl1_ways = 0"), codes::MODEL, "l1_ways"),
            (with("[facts]\nvector_registers = 0"), codes::MODEL, "vector_registers"),
            (with("[facts]\nthreads = 1099511627776"), codes::MODEL, "threads"),
            (with("[facts]\nl2_bytes = 9223372036854775807"), codes::MODEL, "l2_bytes"),
            (with("[facts]\nl2_bytes = 9223372036854775808"), codes::FORM, "line 5"),
            (with("[facts]\nl2_bytes = 262144.0"), codes::FORM, "line 5"),
            (with("[facts]\nl2_bytes = \"256K\""), codes::MODEL, "line 5, column 1: "),
            // KiB are not bytes: a first cache holds its own lines.
            (with("[facts]\nl1_bytes = 32"), codes::MODEL, "line 5, column 1: "),
            (with("[facts]\nline_bytes = 48"), codes::MODEL, "line_bytes"),
            (with("[facts]\nvector_bytes = 24"), codes::MODEL, "line 5, column 1: "),
            (with("[facts]\nl2_bytes = 4096\nl2_bytes = 8192"), codes::FORM, "line 6"),
            (with("[code]\narch = \"aarch64\"\ncpu = \"a\"\nvscale = 2"), codes::MODEL, "vscale"),
            (with("[extra]\nl1_bytes = 3"), codes::MODEL, "line 5, column 1: "),
            (with("[extra]\ncheap_masks = true"), codes::MODEL, "cheap_masks"),
            (with("[extra]\n\"vector(f32)\" = 3"), codes::MODEL, "vector(f32)"),
            (with("format = 1"), codes::FORM, "line 4"),
            (with("cores = [{ layer = \"C\", executor = \"cpu\" }]"), codes::MODEL, "levels"),
            ("format = 0\nname = \"m\"\nbase = \"cpu\"".to_string(), codes::FORM, "0"),
            ("format = -1\nname = \"m\"\nbase = \"cpu\"".to_string(), codes::FORM, "line 1"),
            ("format = \"1\"\nname = \"m\"\nbase = \"cpu\"".to_string(), codes::FORM, "line 1"),
            ("name = \"m\"\nbase = \"cpu\"".to_string(), codes::FORM, "`format`"),
            ("format = 2\nname = \"m\"\nbase = \"cpu\"".to_string(), codes::FORM, "2"),
            ("format = 1\nname = \"m\"\nbase = \"abacus\"".to_string(), codes::MODEL, "abacus"),
            ("format = 1\nname = \"m\"".to_string(), codes::MODEL, ""),
        ] {
            let d = Machine::parse(&text).unwrap_err();
            assert!(d.code == code && d.message.contains(words), "{text}\n{d}");
        }
    }
}
