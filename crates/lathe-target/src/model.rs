//! Abstract system models (thesis, Def. 10): the memory and core layers of a machine, as data.
//!
//! A model says which layers there are and what partial results may do on them; it does not say how many
//! cores a machine has or how fast it is. Layers are numbered from 0, memory layers first. A memory layer
//! is also a *region* where buffers may live; `region` names it where it is not called like the layer
//! (CUDA's layer `SHR` and its region `SM`).

use crate::codes;
use crate::file::{Fact, File, SHIPPED};
pub use crate::levels::{Constraint, Core, Limit, Memory};
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Executor, Space};

/// The most layers of a kind: a machine may come from anywhere.
const MOST_LAYERS: usize = 16;

#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub name: String,
    pub about: String,
    /// From large and slow to small and fast.
    pub memories: Vec<Memory>,
    /// From coarse to fine.
    pub cores: Vec<Core>,
    pub constraints: Vec<Constraint>,
}

impl Model {
    /// The names of the machines that come with Lathe with levels of their own, which others are based on.
    pub fn shipped() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().filter(|s| s.1.lines().all(|l| !l.starts_with("base"))).map(|s| s.0)
    }

    /// The levels of a machine that comes with Lathe.
    ///
    /// # Errors
    /// E1202 for an unknown name.
    pub fn named(name: &str) -> Result<Model, Diagnostic> {
        match File::shipped(name) {
            Some(file) => Model::of(&file?),
            None => {
                let known: Vec<&str> = SHIPPED.iter().map(|s| s.0).collect();
                let text = format!("there is no system model `{}`", name.escape_debug());
                Err(Diagnostic::error(codes::MODEL, text)
                    .help(format!("known: {}; use a file for any other", known.join(", "))))
            }
        }
    }

    /// Reads the levels of a machine file.
    ///
    /// # Errors
    /// E1201 where the text is not a machine, E1202 where it contradicts itself.
    pub fn parse(text: &str) -> Result<Model, Diagnostic> {
        Model::of(&File::read(text)?.on_base(0)?)
    }

    /// The levels of a file, with the limits that its facts state as numbers.
    pub(crate) fn of(file: &File) -> Result<Model, Diagnostic> {
        let known = |name: &str| file.facts.get(name).or_else(|| file.extra.get(name)).map(Fact::value);
        let limit = |l: &mut Limit| {
            let what = match l {
                Limit::Number(n) if (1..=crate::MOST.unsigned_abs()).contains(n) => return Ok(()),
                Limit::Number(n) => n.to_string(),
                Limit::Fact(name) if crate::is_number(name, &file.extra) => {
                    if let Some(n) = l.value(&known) {
                        *l = Limit::Number(n);
                    }
                    return Ok(());
                }
                Limit::Fact(name) => format!("`{}`", name.escape_debug()),
            };
            let text =
                format!("model `{}`: the limit {what} is no number of 1 to 2^50", file.name.escape_debug());
            Err(Diagnostic::error(codes::MODEL, text)
                .help("a limit is a number, or the name of a fact that is one"))
        };
        let mut model = Model {
            name: file.name.clone(),
            about: file.about.clone(),
            memories: file.memories.clone(),
            cores: file.cores.clone(),
            constraints: file.constraints.clone(),
        };
        model.memories.iter_mut().filter_map(|m| m.capacity.as_mut()).try_for_each(limit)?;
        for c in &mut model.constraints {
            if let Constraint::Parts { at_most, .. } = c {
                limit(at_most)?;
            }
        }
        model.check()?;
        Ok(model)
    }

    /// Memory and core layers together: as many layers have the decisions for this model.
    pub fn layers(&self) -> usize {
        self.memories.len() + self.cores.len()
    }

    /// The name of a layer.
    pub fn layer_name(&self, layer: usize) -> &str {
        match layer.checked_sub(self.memories.len()) {
            None => &self.memories[layer].layer,
            Some(core) => self.cores.get(core).map_or("?", |c| &c.layer),
        }
    }

    /// The number of a layer.
    pub fn layer(&self, name: &str) -> Option<usize> {
        (0..self.layers()).find(|l| self.layer_name(*l) == name)
    }

    /// The core of a layer; none for memory layers.
    pub fn core(&self, layer: usize) -> Option<&Core> {
        self.cores.get(layer.checked_sub(self.memories.len())?)
    }

    /// The number of a memory region, by its name or its layer's.
    pub fn region(&self, name: &str) -> Option<usize> {
        let by = |f: fn(&Memory) -> &str| self.memories.iter().position(|m| f(m) == name);
        by(Memory::region).or_else(|| by(|m| &m.layer))
    }

    /// Who runs the parts of a core layer; `lanes` is the width of its vectors.
    pub fn executor(&self, layer: usize, lanes: u32) -> Option<Executor> {
        Some(match self.core(layer)?.executor.as_str() {
            "cpu" => Executor::Cpu,
            "vector" => Executor::Vector(lanes),
            "team" => Executor::Team,
            "device" => Executor::Device,
            "node" => Executor::Node,
            level => Executor::Level(level.into()),
        })
    }

    fn check(&self) -> Result<(), Diagnostic> {
        let fail =
            |text: String| Err(Diagnostic::error(codes::MODEL, format!("model `{}`: {text}", self.name)));
        let word = |s: &str| {
            !s.is_empty()
                && s.len() <= 32
                && s.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        };
        if !word(&self.name) {
            return Err(Diagnostic::error(
                codes::MODEL,
                "the name of a model consists of letters, digits, `_` and `-`",
            ));
        }
        for (what, n) in [("memory", self.memories.len()), ("core", self.cores.len())] {
            if n == 0 || n > MOST_LAYERS {
                return fail(format!("it has {n} {what} layers; there must be 1 to {MOST_LAYERS}"));
            }
        }
        let mut names: Vec<&str> = (0..self.layers()).map(|l| self.layer_name(l)).collect();
        // A region may be called like its own layer.
        names.extend(self.memories.iter().filter(|m| m.region() != m.layer).map(Memory::region));
        for (n, name) in names.iter().enumerate() {
            if !word(name) {
                return fail(format!("`{}` is not a name of a layer", name.escape_debug()));
            }
            if names[..n].contains(name) {
                return fail(format!("the name `{name}` is given twice"));
            }
        }
        for m in &self.memories {
            if let Some(space) = m.space.as_deref()
                && Space::from_name(space).is_none()
            {
                return fail(format!("`{}` is not a memory space", space.escape_debug()));
            }
            if let Some(per) = m.per.as_deref() {
                self.core_named(per)?;
            }
        }
        const EXECUTORS: [&str; 10] =
            ["cpu", "vector", "team", "device", "node", "grid", "cluster", "block", "warp", "lane"];
        for c in &self.cores {
            if !EXECUTORS.contains(&c.executor.as_str()) {
                let text = format!("`{}` is not an executor of loops", c.executor.escape_debug());
                return Err(Diagnostic::error(codes::MODEL, format!("model `{}`: {text}", self.name))
                    .help(format!("executors are: {}", EXECUTORS.join(", "))));
            }
        }
        for c in &self.constraints {
            match c {
                Constraint::Parts { cores, .. } => {
                    for (n, c) in cores.iter().enumerate() {
                        self.core_named(c)?;
                        if cores[..n].contains(c) {
                            return fail(format!("a limit on parts names the core layer `{c}` twice"));
                        }
                    }
                    if cores.is_empty() {
                        return fail("a limit on parts needs core layers".to_string());
                    }
                }
                Constraint::Combine { core, regions } => {
                    self.core_named(core)?;
                    if let Some(r) = regions.iter().find(|r| self.region(r).is_none()) {
                        return fail(format!("a constraint names the unknown region `{}`", r.escape_debug()));
                    }
                }
            }
        }
        Ok(())
    }

    /// The layer of a core, by name.
    pub fn core_named(&self, name: &str) -> Result<usize, Diagnostic> {
        self.layer(name).filter(|l| self.core(*l).is_some()).ok_or_else(|| {
            let text = format!("model `{}`: there is no core layer `{}`", self.name, name.escape_debug());
            Diagnostic::error(codes::MODEL, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_models_have_the_layers_of_the_thesis() {
        let layers = |n: &str| Model::named(n).map(|m| (m.name, m.memories.len(), m.cores.len()));
        for (n, memories, cores) in [
            ("toy", 2, 1),
            ("openmp", 3, 1),
            ("openmp_l3", 4, 1),
            ("openmp_l3_simd", 4, 2),
            ("cpu", 5, 2),
            ("cuda", 3, 2),
            ("cuda_wrp", 3, 3),
            ("opencl", 3, 2),
            ("multi_gpu", 4, 3),
            ("multi_node", 5, 4),
            ("h200", 3, 2),
        ] {
            assert_eq!(layers(n), Ok((n.to_string(), memories, cores)));
        }
        assert_eq!(Model::shipped().count(), 10);
    }

    #[test]
    fn limits_are_those_of_the_machine() {
        let shared = |n: &str| Model::named(n).unwrap().memories[1].capacity.clone();
        assert_eq!(shared("cuda"), Some(Limit::Number(49_152)));
        assert_eq!(shared("h200"), Some(Limit::Number(232_448)));
        assert_eq!(shared("opencl"), Some(Limit::Fact("local_bytes".into())));
        assert_eq!(shared("pocl"), Some(Limit::Number(524_288)));
        assert_eq!(Model::named("cpu").unwrap().memories[2].capacity, Some(Limit::Fact("l2_bytes".into())));
        assert_eq!(Model::named("x86-64-v3").unwrap().memories[2].capacity, Some(Limit::Number(262_144)));
    }

    #[test]
    fn a_user_adds_five_memories_and_four_cores_by_data() {
        let text = r#"{ "name": "rack", "memories": [
            { "layer": "A" }, { "layer": "B" }, { "layer": "C" }, { "layer": "D", "region": "DD" },
            { "layer": "E", "space": "stack", "capacity": 4096, "per": "W" } ],
          "cores": [ { "layer": "R", "executor": "node" }, { "layer": "S", "executor": "device" },
            { "layer": "T", "executor": "cpu" }, { "layer": "W", "executor": "vector" } ],
          "constraints": [ { "rule": "parts", "cores": ["W"], "at_most": "vector(f32)" },
            { "rule": "combine", "core": "R", "regions": ["A"] } ] }"#;
        let m = Model::parse(text).unwrap();
        assert_eq!((m.layers(), m.layer("W"), m.region("DD"), m.region("D")), (9, Some(8), Some(3), Some(3)));
        assert_eq!(m.executor(8, 16), Some(Executor::Vector(16)));
    }

    #[test]
    fn bad_models_are_refused_with_the_reason() {
        let code = |text: &str| Model::parse(text).unwrap_err().code;
        assert_eq!(code("{"), codes::FORM);
        assert_eq!(code(&"[".repeat(5000)), codes::FORM);
        assert_eq!(code(&" ".repeat(crate::file::MOST_BYTES + 1)), codes::FORM);
        let with = |memories: &str, cores: &str, rest: &str| {
            format!(r#"{{ "name": "m", "memories": [{memories}], "cores": [{cores}] {rest} }}"#)
        };
        let (m, c) = (r#"{ "layer": "M" }"#, r#"{ "layer": "C", "executor": "cpu" }"#);
        assert!(Model::parse(&with(m, c, "")).is_ok());
        for (text, want) in [
            (with(m, c, r#", "constraint": []"#), codes::FORM),
            (with("", c, ""), codes::MODEL),
            (with(m, "", ""), codes::MODEL),
            (with(&format!("{m},{m}"), c, ""), codes::MODEL),
            (with(m, r#"{ "layer": "M", "executor": "cpu" }"#, ""), codes::MODEL),
            (with(m, r#"{ "layer": "C", "executor": "gpu" }"#, ""), codes::MODEL),
            (with(r#"{ "layer": "M", "per": "X" }"#, c, ""), codes::MODEL),
            (with(r#"{ "layer": "M", "space": "cellar" }"#, c, ""), codes::MODEL),
            (with(r#"{ "layer": "M\n" }"#, c, ""), codes::MODEL),
            (
                with(m, c, r#", "constraints": [{ "rule": "parts", "cores": ["C"], "at_most": 0 }]"#),
                codes::MODEL,
            ),
            (
                with(m, c, r#", "constraints": [{ "rule": "combine", "core": "C", "regions": ["X"] }]"#),
                codes::MODEL,
            ),
            (with(m, c, r#", "constraints": [{ "rule": "colour" }]"#), codes::FORM),
            (
                with(m, c, r#", "constraints": [{ "rule": "parts", "cores": ["C", "C"], "at_most": 2 }]"#),
                codes::MODEL,
            ),
            (with(r#"{ "layer": "M", "capacity": 0 }"#, c, ""), codes::MODEL),
            (with(r#"{ "layer": "M", "capacity": -1 }"#, c, ""), codes::FORM),
            (with(r#"{ "layer": "M", "capacity": 0.5 }"#, c, ""), codes::FORM),
            (with(r#"{ "layer": "M", "capacity": 18446744073709551615 }"#, c, ""), codes::MODEL),
            (with(r#"{ "layer": "M", "capacity": "l2_byts" }"#, c, ""), codes::MODEL),
            (with(r#"{ "layer": "M", "capacity": "fma" }"#, c, ""), codes::MODEL),
            (with(r#"{ "layer": "M", "capacity": 1, "capacity": 2 }"#, c, ""), codes::FORM),
            // Format 0 had levels alone.
            (with(m, c, r#", "facts": { "l2_bytes": 4096 }"#), codes::FORM),
            (with(m, c, r#", "format": 1"#), codes::FORM),
        ] {
            assert_eq!(code(&text), want, "{text}");
        }
        assert_eq!(Model::named("abacus").unwrap_err().code, codes::MODEL);
    }
}
