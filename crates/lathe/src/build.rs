//! From scheduled trees to a kernel that can be called.

use crate::cache::Cache;
use crate::codes;
use crate::dispatch::{Condition, Sizes};
use crate::late::{Late, Make};
use crate::parallel::each;
use crate::schedule::Schedule;
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::stmt::Effects;
use lathe_ir::text::{Ids, print_function_with, print_module};
use lathe_ir::visit::walk;
use lathe_ir::{Function, Module, StmtKind};
use lathe_measure::store::hash_of;
use lathe_runtime::device::{Argument, Device, Devices, Launch, Sequence, Views};
use lathe_runtime::{ArgView, Array, DeviceRun, Engine, General, Kernel, Limits, Object, Options, Pool};
use lathe_space::{Expr, Value};
use lathe_target::Machine;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// How to compile.
#[derive(Clone, Debug)]
pub struct Build {
    pub engine: Engine,
    /// The machine that code is for; `None`: this one.
    pub machine: Option<Machine>,
    /// 0 to 3; 2 is the default of the command line.
    pub opt_level: u8,
    /// Where code is kept for later processes; `None`: nowhere.
    pub cache: Option<Arc<Cache>>,
    /// Interpreter only: runs look for races.
    pub races: bool,
}

impl Default for Build {
    fn default() -> Build {
        Build { engine: Engine::default(), machine: None, opt_level: 2, cache: None, races: false }
    }
}

impl Build {
    /// For a machine; for the one at hand, compilers look themselves.
    pub fn on(self, machine: &Machine) -> Build {
        let other = machine.origin != "host";
        Build { machine: other.then(|| machine.clone()), ..self }
    }

    pub(crate) fn options(&self, unit_strides_only: bool) -> Options {
        let target = self.machine.as_ref().map(|m| m.code.clone());
        Options {
            target,
            opt_level: self.opt_level,
            unit_strides_only,
            races: self.races,
            ..Options::default()
        }
    }
}

/// A compiled kernel: one version, or several of which the call takes the first whose condition holds.
pub struct Built {
    versions: Vec<(Option<Condition>, Late)>,
    /// For each size: its name, and the parameter and dimension that give it.
    sizes: Sizes,
    /// Constraints of the strategy over sizes.
    requires: Vec<Condition>,
    /// The checks of the kernel by the message of their failure: where they stem from.
    checks: Vec<(String, Places)>,
    pub compile_seconds: f64,
    pub times: Vec<(String, f64)>,
}

/// Compiles every version of a schedule.
///
/// # Errors
/// What the engine does not take, or lacks.
pub fn compile(schedule: &Schedule, build: &Build) -> Result<Built, Diagnostic> {
    let start = Instant::now();
    // Versions do not know of each other.
    let kernels = each(&schedule.versions, |v| compile_tree(schedule, &v.func, build));
    let mut versions = Vec::new();
    for (v, kernel) in schedule.versions.iter().zip(kernels) {
        versions.push((v.condition.clone(), kernel?.into()));
    }
    let built = Built::of(&schedule.plain, versions, &schedule.requires);
    Ok(Built { compile_seconds: start.elapsed().as_secs_f64(), ..built })
}

/// Compiles the version that calls with these sizes take; the others are compiled when the first call takes them. Without sizes that
/// is so for all of several versions.
///
/// # Errors
/// As [`compile`], of that version.
pub fn compile_for(
    schedule: &Schedule,
    build: &Build,
    sizes: Option<&BTreeMap<String, i64>>,
) -> Result<Built, Diagnostic> {
    let start = Instant::now();
    let given = sizes.map(|s| s.iter().map(|(n, v)| (n.clone(), *v)).collect::<Vec<_>>());
    let now = match given {
        _ if schedule.versions.len() == 1 => Some(0),
        given => given.map(|sizes| version_for(schedule, &sizes)),
    };
    let mut versions = Vec::new();
    for (at, v) in schedule.versions.iter().enumerate() {
        let make = maker(schedule, &v.func, build)?;
        let late = if now == Some(at) { Late::from(make()?) } else { Late::by(make) };
        versions.push((v.condition.clone(), late));
    }
    let built = Built::of(&schedule.plain, versions, &schedule.requires);
    Ok(Built { compile_seconds: start.elapsed().as_secs_f64(), ..built })
}

/// Which version of a schedule a call with these sizes takes.
pub fn version_for(schedule: &Schedule, sizes: &[(String, i64)]) -> usize {
    let value = |name: &str| sizes.iter().find(|s| s.0 == name).map(|s| Value::Int(s.1));
    let holds = |c: &Expr| matches!(lathe_space::eval(c, &value), Ok(Value::Bool(true)));
    let version = schedule.versions.iter().position(|v| v.condition.as_ref().is_none_or(holds));
    version.unwrap_or(schedule.versions.len().saturating_sub(1))
}

/// Compiles only one version, which all calls then take.
///
/// # Errors
/// As [`compile`].
pub fn compile_version(schedule: &Schedule, version: usize, build: &Build) -> Result<Built, Diagnostic> {
    let start = Instant::now();
    let Some(version) = schedule.versions.get(version) else {
        return Err(Diagnostic::error(codes::VERSIONS, "the strategy has no such version"));
    };
    let kernel = compile_tree(schedule, &version.func, build)?;
    let built = Built::of(&schedule.plain, vec![(None, kernel.into())], &schedule.requires);
    Ok(Built { compile_seconds: start.elapsed().as_secs_f64(), ..built })
}

/// Compiles one tree of a schedule (a version, or the plain one).
///
/// # Errors
/// As [`compile`].
pub fn compile_tree(schedule: &Schedule, func: &Function, build: &Build) -> Result<Kernel, Diagnostic> {
    let build = allowed(schedule, func, build)?;
    with_cache(&schedule.module, func, &build, true)
}

/// What compiles one tree of a schedule.
fn maker(schedule: &Schedule, func: &Function, build: &Build) -> Result<Make, Diagnostic> {
    let build = allowed(schedule, func, build)?;
    let (module, func) = (schedule.module.clone(), func.clone());
    Ok(Box::new(move || with_cache(&module, &func, &build, true)))
}

/// How a tree of a schedule is compiled, if the engine may run it.
pub(crate) fn allowed(schedule: &Schedule, func: &Function, build: &Build) -> Result<Build, Diagnostic> {
    if build.engine != Engine::INTERPRETER {
        schedule.proved()?;
    }
    Ok(Build { races: schedule.may_race() || orders(&schedule.module, func), ..build.clone() })
}

/// Whether barriers or tokens order what a tree does, or that of a function that it may call: which accesses they keep
/// apart is seen when it runs.
fn orders(module: &Module, func: &Function) -> bool {
    let mut found = false;
    for f in module.functions.values().chain([func]) {
        walk(&f.body, &mut |s, _| {
            // A call may do anything; what is called is looked at itself.
            let own = s.own_effects();
            found |= own.contains(Effects::SYNCHRONIZES) && !own.contains(Effects::IO);
            !found
        });
    }
    found
}

/// A failed check with the place of its statement.
pub(crate) fn at_check(checks: &[(String, Places)], d: Diagnostic) -> Diagnostic {
    let place = checks.iter().find(|c| c.0 == d.message).map(|c| &c.1);
    match place {
        Some(p) if d.code == lathe_runtime::codes::CHECK_FAILED => d.at_places(p, "checked here"),
        _ => d,
    }
}

/// The check statements of a function, by what a failure of theirs says.
pub(crate) fn places_of_checks(func: &Function) -> Vec<(String, Places)> {
    let mut out = Vec::new();
    lathe_ir::visit::walk(&func.body, &mut |s, _| {
        if let StmtKind::Check { code, message, .. } = s.kind() {
            out.push((lathe_runtime::check_message(&func.name, message, code), s.places().clone()));
        }
        true
    });
    out
}

impl Built {
    /// Compiled versions of a function, each with its condition; `func` has its parameters and checks.
    pub(crate) fn of(func: &Function, versions: Vec<(Option<Expr>, Late)>, requires: &[Expr]) -> Built {
        let sizes = Sizes::of(func);
        let named = |(n, d): &(String, std::time::Duration)| (n.clone(), d.as_secs_f64());
        let times =
            versions.iter().filter_map(|v| v.1.made()).flat_map(|k| k.times().iter().map(named)).collect();
        let condition = |c: &Expr| Condition::new(c, &sizes);
        Built {
            versions: versions.into_iter().map(|(c, k)| (c.as_ref().map(condition), k)).collect(),
            requires: requires.iter().map(condition).collect(),
            checks: places_of_checks(func),
            sizes,
            compile_seconds: 0.0,
            times,
        }
    }

    /// Whether a call with these arguments finds its code made.
    pub fn is_ready(&self, args: &[ArgView]) -> bool {
        self.versions.iter().all(|v| v.1.made().is_some()) || self.picked(args).made().is_some()
    }

    /// Makes the code that a call with these arguments takes, if it is not there.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn ready(&self, args: &[ArgView]) -> Result<(), Diagnostic> {
        self.pick(args).map(drop)
    }

    /// Makes all code that is not there.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn complete(&self) -> Result<(), Diagnostic> {
        each(&self.versions, |v| v.1.get().map(drop)).into_iter().collect()
    }

    /// Runs the kernel on one array per parameter.
    ///
    /// # Errors
    /// When an argument does not fit, or a check of the kernel fails.
    pub fn call(&self, pool: &Pool, arrays: &mut [Array]) -> Result<(), Diagnostic> {
        let mut views: Vec<ArgView> = arrays.iter_mut().map(Array::view_mut).collect();
        self.call_views(pool, &mut views)
    }

    /// Seconds of each of so many runs by the clock of the device that the code runs on, without copies; none for code
    /// of the host.
    ///
    /// # Errors
    /// As [`Built::call`].
    pub fn device_seconds(&self, arrays: &mut [Array], runs: usize) -> Result<Option<Vec<f64>>, Diagnostic> {
        let mut views: Vec<ArgView> = arrays.iter_mut().map(Array::view_mut).collect();
        self.pick(&views)?.seconds(&mut views, runs)
    }

    /// What the last call did on its device; none for code of the host.
    pub fn last_run(&self) -> Option<DeviceRun> {
        self.versions.iter().find_map(|v| v.1.made()?.code().last_run())
    }

    /// Whether a compiler was needed, or all code was kept from before.
    pub fn was_compiled(&self) -> bool {
        self.times.iter().any(|t| t.0 != "load")
    }

    /// Starts the kernel on buffers of a device, and returns; what it reads and writes is known.
    ///
    /// # Errors
    /// As [`lathe_runtime::device::start`], and [`Built::call`] for sizes.
    pub fn launch(&self, device: &Device, arguments: &[Argument]) -> Result<Launch, Diagnostic> {
        self.on_buffers(arguments, |kernel| lathe_runtime::device::start(kernel, device, arguments))
    }

    /// Starts the kernel on buffers of several devices of the kind that it was compiled for: its loops over devices
    /// (`bind(i, device)`) run on all of them, each with the parts of arrays that its iterations use.
    ///
    /// # Errors
    /// As [`Built::launch`].
    pub fn launch_on(&self, devices: &Devices, arguments: &[Argument]) -> Result<Vec<Launch>, Diagnostic> {
        self.on_buffers(arguments, |kernel| lathe_runtime::device::start_on(kernel, devices, arguments))
    }

    /// Adds a launch of the kernel to a sequence, which starts it with all the others.
    ///
    /// # Errors
    /// As [`Built::launch`]; nothing is started.
    pub fn add_to(&self, sequence: &mut Sequence, arguments: &[Argument]) -> Result<(), Diagnostic> {
        self.on_buffers(arguments, |kernel| lathe_runtime::device::add(kernel, sequence, arguments))
    }

    fn on_buffers<R>(
        &self,
        arguments: &[Argument],
        take: impl FnOnce(&Kernel) -> Result<R, Diagnostic>,
    ) -> Result<R, Diagnostic> {
        let views = Views::new(arguments);
        views.check()?;
        let args = views.views();
        self.required(&args)?;
        take(self.pick(&args)?).map_err(|d| at_check(&self.checks, d))
    }

    /// Like [`Built::call`] on borrowed memory.
    ///
    /// # Errors
    /// As [`Built::call`].
    pub fn call_views(&self, pool: &Pool, args: &mut [ArgView]) -> Result<(), Diagnostic> {
        self.call_within(pool, args, &Limits::default())
    }

    /// As [`Built::call_views`], within limits: [`lathe_runtime::Kernel::call_within`].
    ///
    /// # Errors
    /// As [`Built::call`]; `E0824` if it was interrupted, `E0825` if its time was over.
    pub fn call_within(&self, pool: &Pool, args: &mut [ArgView], limits: &Limits) -> Result<(), Diagnostic> {
        self.required(args)?;
        self.pick(args)?.call_within(pool, args, limits).map_err(|d| at_check(&self.checks, d))
    }

    /// Starts the kernel on arrays in the memory of its device: [`lathe_runtime::Kernel::start`].
    ///
    /// # Errors
    /// As [`Built::call`], and `E0707` for arrays that kernels of devices do not take.
    ///
    /// # Safety
    /// As [`lathe_runtime::Kernel::start`].
    pub unsafe fn start(&self, args: &mut [ArgView], stream: u64) -> Result<(), Diagnostic> {
        self.required(args)?;
        // SAFETY: the caller's promise.
        unsafe { self.pick(args)?.start(args, stream) }.map_err(|d| at_check(&self.checks, d))
    }

    /// Refuses sizes for which the strategy was not written.
    fn required(&self, args: &[ArgView]) -> Result<(), Diagnostic> {
        for c in &self.requires {
            let why = match c.holds(&self.sizes, args) {
                Some(true) => continue,
                Some(false) => "which do not hold here",
                None => "which cannot be decided from the arguments",
            };
            let d = Diagnostic::error(
                codes::PARAMETER,
                format!("the strategy is for sizes with {}, {why}", c.text()),
            );
            return Err(d.help("use another strategy or other parameters for these sizes"));
        }
        Ok(())
    }

    /// The code of the version for these arguments.
    #[inline]
    fn pick(&self, args: &[ArgView]) -> Result<&Kernel, Diagnostic> {
        self.picked(args).get()
    }

    /// The version for these arguments. Wrong arguments get some version, whose checks then refuse them.
    #[inline]
    fn picked(&self, args: &[ArgView]) -> &Late {
        let last = &self.versions[self.versions.len() - 1].1;
        if self.versions.len() == 1 {
            return last;
        }
        for (condition, code) in &self.versions {
            if condition.as_ref().is_none_or(|c| c.holds(&self.sizes, args) == Some(true)) {
                return code;
            }
        }
        last
    }
}

/// This build of Lathe, the interface of kernels, the engine, and what its code depends on here.
pub(crate) fn made_by(engine: Engine) -> Result<String, Diagnostic> {
    let (build, abi) = (env!("LATHE_BUILD"), lathe_abi::VERSION);
    Ok(format!("{build} abi {abi} {engine} {}", engine.fingerprint()?))
}

/// The hash of all that code depends on.
pub(crate) fn code_key(made_by: &str, module: &Module, func: &Function, options: &Options) -> String {
    let tree = print_function_with(func, Ids::Hidden);
    // What it may call; most kernels call nothing, and other kernels of the file play no part then.
    let called = module.reached(func);
    let module = Module { functions: called.into(), ..module.clone() };
    hash_of(&["code", made_by, &format!("{options:?}"), &func.name, &tree, &print_module(&module)])
}

/// Compiles a tree, or takes the code that is kept for it.
///
/// # Errors
/// As [`lathe_runtime::compile`].
pub(crate) fn with_cache(
    module: &Module,
    func: &Function,
    build: &Build,
    unit_strides_only: bool,
) -> Result<Kernel, Diagnostic> {
    let (engine, options) = (build.engine, build.options(unit_strides_only));
    let module = &*engine.resolved(module);
    let Some(cache) = &build.cache else {
        return lathe_runtime::compile(engine, module, func, &options);
    };
    let general = unit_strides_only.then(|| {
        let (module, func, build) = (module.clone(), func.clone(), build.clone());
        Box::new(move || with_cache(&module, &func, &build, false)) as General
    });
    let key = code_key(&made_by(engine)?, module, func, &options);
    if let Some(kept) = cache.get(&key).and_then(|bytes| Object::from_bytes(&bytes).ok()) {
        return Kernel::load(engine, func, kept, general);
    }
    let object = engine.compile(module, func, &options)?;
    cache.put(&key, &object.to_bytes());
    Kernel::load(engine, func, object, general)
}
