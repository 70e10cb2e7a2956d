//! What a tuned kernel's result depends on, as a key of the store.

use crate::build::Build;
use crate::program::Program;
use lathe_ir::Function;
use lathe_measure::store::{Device, Key, hash_of, hash_of_file};
use lathe_space::Value;
use lathe_strategy::{ArgValue, Definition, Strategy};
use lathe_target::Machine;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// What a kernel is run for, and with.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    pub sizes: &'a BTreeMap<String, i64>,
    /// As [`crate::data::Given`] has them.
    pub inputs: &'a BTreeMap<String, String>,
    pub build: &'a Build,
    /// Sizes are baked into the code.
    pub specialize: bool,
    pub threads: usize,
}

/// The key of a kernel in a situation, before a strategy is chosen.
pub fn kernel_key(program: &Program, kernel: &Function, of: Situation) -> Key {
    let types = kernel.params.iter().map(|p| {
        let ty = match p.array() {
            Some(b) => b.elem.to_string(),
            None => "scalar".to_string(),
        };
        (p.name().to_string(), ty)
    });
    Key {
        program: kernel.name.to_string(),
        program_hash: hash_of(&[&program_text(program, kernel)]),
        sizes: of.sizes.iter().map(|(n, v)| (n.clone(), Value::Int(*v))).collect(),
        types: types.collect(),
        device: device_of(of.build),
        threads: of.threads as u64,
        compiler: compiler(of.build, of.specialize),
        objective: "seconds".to_string(),
        data: data_hash(of.inputs),
        ..Key::default()
    }
}

/// What code runs on: a device, by its name and its target, else the processor.
fn device_of(build: &Build) -> Device {
    match crate::report::DeviceReport::of(build.engine) {
        Some(d) => Device { name: format!("{} ({}, {})", d.name, d.kind, d.arch), vector_bytes: 0 },
        None => Device::host(),
    }
}

/// Of the inputs that a user gives, by their contents: what is fast may depend on them. Empty where all are made up.
fn data_hash(inputs: &BTreeMap<String, String>) -> String {
    let mut parts = Vec::new();
    for (name, value) in inputs {
        parts.push(name.clone());
        // What is not a file is a number.
        let content = lathe_system::files::open(Path::new(value)).and_then(hash_of_file);
        parts.push(content.unwrap_or_else(|_| value.clone()));
    }
    if parts.is_empty() {
        return String::new();
    }
    hash_of(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Everything that turns a strategy into code: this crate, the rules with their versions, and the engine.
fn compiler(build: &Build, specialize: bool) -> String {
    let engine = build.engine.compiler();
    let rules: Vec<String> =
        lathe_transform::rules().map(|r| format!("{} {}", r.signature.name, r.signature.version)).collect();
    let rules = &hash_of(&rules.iter().map(String::as_str).collect::<Vec<_>>())[..8];
    let cpu = build.machine.as_ref().map_or("host".to_string(), machine_name);
    let baked = if specialize { ", sizes baked in" } else { "" };
    format!(
        "lathe {}, rules {rules}, {engine}, -O{}, {cpu}{baked}",
        env!("CARGO_PKG_VERSION"),
        build.opt_level
    )
}

/// The name of a machine; of one in a file of a user with the hash of what the file says.
fn machine_name(m: &Machine) -> String {
    match Machine::named(&m.name) {
        Some(known) if known.code == m.code && known.origin == m.origin => m.name.clone(),
        _ => format!("{} {}", m.name, &hash_of(&[&format!("{m:?}")])[..8]),
    }
}

/// The kernel, and every function and operator that it calls, as text: the same for equal trees.
fn program_text(program: &Program, kernel: &Function) -> String {
    let module = &program.lang.module;
    let mut out = String::new();
    for f in std::iter::once(kernel).chain(module.reached(kernel).values().filter(|f| f.name != kernel.name))
    {
        out += &lathe_ir::text::print_function_with(f, lathe_ir::text::Ids::Hidden);
        out.push('\n');
    }
    // Operators and structures are few: all of the file's belong to each of its kernels.
    let rest = lathe_ir::Module { functions: Default::default(), ..module.clone() };
    out + &lathe_ir::text::print_module(&rest)
}

/// A strategy with every definition that it calls, as text without places.
pub fn strategy_hash(program: &Program, kernel: &str, definition: &Definition) -> String {
    let definitions = program.definitions(kernel);
    let mut seen = BTreeSet::new();
    let mut open = vec![definition.clone()];
    let mut out = String::new();
    while let Some(d) = open.pop() {
        if !seen.insert(d.name.clone()) {
            continue;
        }
        let _ = write!(out, "{}(", d.name);
        for p in &d.params {
            let default = p.default.as_ref().map(ToString::to_string).unwrap_or_default();
            let _ = write!(out, "{}: {:?} = {default} in {:?}, ", p.name, p.ty, p.range);
        }
        for c in &d.constraints {
            let _ = write!(out, "where {c} ");
        }
        out += ") = ";
        print(&d.body, &mut out, &mut |name| open.extend(definitions.find(name, Some(kernel)).cloned()));
        out.push('\n');
    }
    hash_of(&[&out])
}

/// Prints a strategy; `called` hears every name that might be a definition.
fn print(s: &Strategy, out: &mut String, called: &mut dyn FnMut(&str)) {
    let all = |v: &[Strategy], word: &str, out: &mut String, called: &mut dyn FnMut(&str)| {
        out.push('(');
        for (i, s) in v.iter().enumerate() {
            *out += if i > 0 { word } else { "" };
            print(s, out, called);
        }
        out.push(')');
    };
    match s {
        Strategy::Id => *out += "id",
        Strategy::Fail(why) => {
            let _ = write!(out, "fail {why:?}");
        }
        Strategy::Seq(v) => all(v, " ; ", out, called),
        Strategy::Choice(v) => all(v, " <+ ", out, called),
        Strategy::At(s, place) => {
            print(s, out, called);
            *out += " @ ";
            print(place, out, called);
        }
        Strategy::If { cond, then, other, .. } => {
            let _ = write!(out, "if {cond} then ");
            print(then, out, called);
            *out += " else ";
            print(other, out, called);
        }
        Strategy::Call { name, args, .. } => {
            called(name);
            let _ = write!(out, "{name}(");
            for a in args {
                let _ = write!(out, "{}: ", a.name.as_deref().unwrap_or_default());
                match &a.value {
                    ArgValue::Expr(e) => {
                        // A name or a call may stand for a step.
                        if let Some(Strategy::Call { name, .. }) = a.value.as_strategy(None) {
                            called(&name);
                        }
                        let _ = write!(out, "{e}");
                    }
                    ArgValue::Strategy(s) => print(s, out, called),
                }
                *out += ", ";
            }
            out.push(')');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\n";

    fn key(text: &str) -> (String, String) {
        let p = Program::from_text("f.lathe", text).unwrap();
        let f = p.kernel(Some("f")).unwrap();
        let (sizes, inputs, build) = ([("N".to_string(), 8)].into(), BTreeMap::new(), Build::default());
        let of = Situation { sizes: &sizes, inputs: &inputs, build: &build, specialize: false, threads: 1 };
        let k = kernel_key(&p, f, of);
        (k.digest(), strategy_hash(&p, "f", p.strategy("f", "s").unwrap()))
    }

    #[test]
    fn hashes_follow_what_matters_and_nothing_else() {
        let s =
            "strategy s(t = 8 in 8..=64 step 8) for f = split(i, t) ; inner\nstrategy inner = unroll(i.i)";
        let base = key(&format!("{KERNEL}{s}"));
        // Comments, places and other kernels play no part.
        let moved =
            format!("# a comment\n\nkernel g(A: f32[N]) -> (B: f32[N]) {{ B[i] = A[i] }}\n{KERNEL}{s}");
        assert_eq!(key(&moved), base);
        let other = key(&format!("{}{s}", KERNEL.replace("2 * A", "3 * A")));
        assert!(other.0 != base.0 && other.1 == base.1);
        let of = |inputs: &[(&str, &str)]| {
            data_hash(&inputs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect())
        };
        assert_eq!(of(&[]), "");
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        std::fs::write(&one, "1").unwrap();
        std::fs::write(&two, "1").unwrap();
        let (one, two) = (one.display().to_string(), two.display().to_string());
        assert_eq!(of(&[("A", &one)]), of(&[("A", &two)]));
        assert_ne!(of(&[("A", &one)]), of(&[("B", &one)]));
        std::fs::write(&two, "2").unwrap();
        assert_ne!(of(&[("A", &one)]), of(&[("A", &two)]));
        assert_ne!(of(&[("c", "2")]), of(&[("c", "3")]));
        for (from, to) in [("unroll(i.i)", "id"), ("step 8", "step 4"), ("t = 8 in", "t = 16 in")] {
            let other = key(&format!("{KERNEL}{}", s.replace(from, to)));
            assert!(other.0 == base.0 && other.1 != base.1, "{from}");
        }
    }
}
