//! Compiled kernels that are kept: machine code by the tree that it was made of, and whole schedules by the source.
//!
//! [`prepare`] is what a caller wants who runs the same kernels in many processes: with everything in the cache, it
//! neither analyses nor schedules nor compiles.

use crate::applied::How;
use crate::build::{Build, Built, allowed, code_key, compile_for, made_by, with_cache};
use crate::cache::Cache;
use crate::choice::StrategySource;
use crate::late::Late;
use crate::program::{Failure, Program};
use crate::schedule::{Schedule, specialize};
use crate::which::schedule;
use lathe_diagnostics::Diagnostic;
use lathe_measure::store::hash_of;
use lathe_runtime::{General, Kernel, Locals, Object};
use lathe_space::{Expr, Value};
use lathe_target::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// A kernel with its code, and where it came from.
pub struct Prepared {
    pub built: Built,
    pub strategy: String,
    pub source: StrategySource,
    pub params: BTreeMap<String, Value>,
    /// See [`Schedule::refused`].
    pub refused: Vec<String>,
    /// Facts that were stated and not proved.
    pub assumptions: Vec<String>,
    /// Whether scheduling and compiling were not needed.
    pub from_cache: bool,
}

/// Schedules and compiles a kernel, or loads what an earlier process kept. Of several versions on the host, those that the sizes of
/// `how` do not choose are compiled when the first call takes them.
///
/// # Errors
/// As [`schedule`] and [`crate::compile`].
pub fn prepare(
    program: &Arc<Program>,
    kernel: &str,
    how: &How,
    machine: &Machine,
    build: &Build,
) -> Result<Prepared, Failure> {
    let recipe = Recipe {
        program: Arc::clone(program),
        kernel: kernel.to_string(),
        how: how.clone(),
        machine: machine.clone(),
        build: build.clone(),
    };
    // Without its compiler an engine says what is missing when it compiles.
    let kept = build.cache.as_ref().zip(recipe.key().ok());
    if let Some(found) = kept.as_ref().and_then(|(cache, key)| recipe.load(cache, key)) {
        return Ok(found);
    }
    let s = recipe.schedule()?;
    let sizes: BTreeMap<String, i64> =
        how.sizes.iter().chain(&how.specialize).map(|(n, v)| (n.clone(), *v)).collect();
    // What runs on a device is refused here, where its compiler is missing, and not by a call.
    let built = match build.engine.is_device() {
        true => crate::compile(&s, build),
        false => compile_for(&s, build, Some(&sizes).filter(|_| how.knows(&s.plain))),
    };
    let built = built.map_err(|d| Failure::one(&program.sources, d))?;
    if let Some((cache, key)) = kept {
        let made_by = made_by(build.engine).map_err(|d| Failure::one(&program.sources, d))?;
        let plan = Plan {
            strategy: s.strategy.clone(),
            source: s.source.name().to_string(),
            params: s.params.clone(),
            refused: s.refused.clone(),
            requires: s.requires.clone(),
            versions: (s.versions.iter())
                .map(|v| (v.condition.clone(), code_key(&made_by, &s.module, &v.func, &build.options(true))))
                .collect(),
            locals: s.versions.iter().map(|v| Locals::on(build.engine.is_device(), &v.func)).collect(),
            assumptions: s.assumptions(),
        };
        if let Ok(text) = serde_json::to_vec(&plan) {
            cache.put(&key, &text);
        }
    }
    Ok(Prepared {
        strategy: s.strategy.clone(),
        source: s.source,
        params: s.params.clone(),
        refused: s.refused.clone(),
        assumptions: s.assumptions(),
        built,
        from_cache: false,
    })
}

/// What leads from a source to code.
#[derive(Clone)]
struct Recipe {
    program: Arc<Program>,
    kernel: String,
    how: How,
    machine: Machine,
    build: Build,
}

/// A schedule without its trees.
#[derive(Serialize, Deserialize)]
struct Plan {
    strategy: String,
    source: String,
    params: BTreeMap<String, Value>,
    refused: Vec<String>,
    requires: Vec<Expr>,
    /// The condition of each version, and the key of its code.
    versions: Vec<(Option<Expr>, String)>,
    /// What the local arrays of each version take.
    locals: Vec<Locals>,
    assumptions: Vec<String>,
}

impl Recipe {
    /// The hash of everything that the schedule and its code depend on.
    fn key(&self) -> Result<String, Diagnostic> {
        let mut parts = vec!["plan".to_string(), made_by(self.build.engine)?, self.kernel.clone()];
        parts.push(format!("{:?} {:?} {:?}", self.how, self.machine, self.build.options(true)));
        parts.extend(self.program.sources.texts().map(str::to_string));
        let externals =
            self.program.lang.module.externals.keys().filter(|n| lathe_runtime::externals::given(n));
        parts.extend(externals.map(|n| format!("given {n}")));
        // A kernel that is debugged is another one.
        parts.extend(self.program.is_debugging(&self.kernel).then(|| "debug".to_string()));
        Ok(hash_of(&parts.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    fn schedule(&self) -> Result<Schedule, Failure> {
        let kernel = self.program.kernel(Some(&self.kernel))?;
        schedule(&self.program, kernel, &self.how, &self.machine)
    }

    /// The kernel, if the cache has all of it.
    fn load(&self, cache: &Arc<Cache>, key: &str) -> Option<Prepared> {
        let plan: Plan = serde_json::from_slice(&cache.get(key)?).ok()?;
        let kernel = self.program.kernel(Some(&self.kernel)).ok()?;
        let func = specialize(kernel, &self.how.specialize).ok()?;
        let (mut versions, mut found) = (Vec::new(), false);
        let again = Arc::new(Again { recipe: self.clone(), schedule: OnceLock::new() });
        for (at, (condition, code)) in plan.versions.into_iter().enumerate() {
            let making = Arc::clone(&again);
            // No call took it yet, or it made room for others.
            let Some(bytes) = cache.get(&code) else {
                versions.push((condition, Late::by(Box::new(move || making.version(at, true)))));
                continue;
            };
            found = true;
            let general: General = Box::new(move || making.version(at, false));
            let object = Object::from_bytes(&bytes).ok()?;
            let kernel = Kernel::load(self.build.engine, &func, object, Some(general)).ok()?;
            versions.push((condition, kernel.with_locals(plan.locals.get(at)?.clone()).into()));
        }
        if !found {
            return None;
        }
        Some(Prepared {
            built: Built::of(&func, versions, &plan.requires),
            strategy: plan.strategy,
            source: StrategySource::from_name(&plan.source)?,
            params: plan.params,
            refused: plan.refused,
            assumptions: plan.assumptions,
            from_cache: true,
        })
    }
}

/// What makes code that the cache does not have, from the source.
struct Again {
    recipe: Recipe,
    schedule: OnceLock<Result<Schedule, Diagnostic>>,
}

impl Again {
    /// The code of one version: for unit strides, or for any.
    fn version(&self, version: usize, unit_strides_only: bool) -> Result<Kernel, Diagnostic> {
        let first = |f: Failure| {
            f.diagnostics.into_iter().next().unwrap_or_else(|| {
                Diagnostic::error(crate::codes::VERSIONS, "a schedule that succeeded before fails now")
            })
        };
        let s = self.schedule.get_or_init(|| self.recipe.schedule().map_err(first));
        let s = s.as_ref().map_err(Clone::clone)?;
        let Some(v) = s.versions.get(version) else {
            return Err(Diagnostic::error(crate::codes::VERSIONS, "the strategy has no such version"));
        };
        with_cache(&s.module, &v.func, &allowed(s, &v.func, &self.recipe.build)?, unit_strides_only)
    }
}
