//! The compiled versions of a kernel: by what a call asks for, compiled when a call needs them.

use crate::errors;
use crate::kernel::Kernel;
use crate::keywords;
use crate::pools::Compiling;
use lathe::tune::ForSizes;
use lathe::{Build, Cache, Diagnostic, Failure, How, Machine, Prepared, Program, StrategySource};
use pyo3::Borrowed;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

/// What a call may ask for, beyond its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Choice {
    pub strategy: Option<String>,
    /// Definitions that are not in the kernel's own source, in front of which it stands.
    pub more: Option<String>,
    pub params: BTreeMap<String, String>,
    /// Sizes that are baked in.
    pub specialize: BTreeMap<String, i64>,
    /// Sizes and threads that decisions are taken for.
    pub sizes: BTreeMap<String, i64>,
    pub threads: Option<usize>,
    /// The device in whose memory the arrays are.
    pub device: Option<DeviceId>,
}

/// A device that code is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId {
    /// Else one of OpenCL.
    cuda: bool,
    number: i32,
}

impl DeviceId {
    pub fn cuda(number: i32) -> DeviceId {
        DeviceId { cuda: true, number }
    }

    /// Of the name that lists of devices have: `cuda:1`.
    pub fn named(id: &str) -> Option<DeviceId> {
        let (kind, number) = id.split_once(':')?;
        let number = number.parse().ok()?;
        ["cuda", "opencl"].contains(&kind).then_some(DeviceId { cuda: kind == "cuda", number })
    }

    fn kind(self) -> &'static str {
        if self.cuda { "cuda" } else { "opencl" }
    }

    pub fn name(self) -> String {
        format!("{}:{}", self.kind(), self.number)
    }
}

/// A look at a kernel is asked for by a dictionary: `strategy`, `params`, `specialize`, each optional.
impl<'py> FromPyObject<'_, 'py> for Choice {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Choice> {
        let given = object.cast::<PyDict>()?;
        let get = |name: &str| Ok::<_, PyErr>(given.get_item(name)?.filter(|v| !v.is_none()));
        let (strategy, more) = get("strategy")?.map_or(Ok((None, None)), |s| keywords::strategy(&s))?;
        let params = get("params")?.map_or(Ok(BTreeMap::new()), |p| keywords::params(&p))?;
        let specialize = get("specialize")?.map_or(Ok(BTreeMap::new()), |s| keywords::sizes(&s))?;
        if !params.is_empty() && strategy.is_none() {
            let what = "`params` requires a strategy: strategy=…";
            return Err(keywords::option(&object, what));
        }
        Ok(Choice { strategy, more, params, sizes: specialize.clone(), specialize, ..Choice::default() })
    }
}

impl Choice {
    pub fn how(&self) -> How {
        How {
            strategy: self.strategy.clone(),
            params: self.params.clone(),
            specialize: self.specialize.clone(),
            sizes: self.sizes.clone(),
            threads: self.threads,
            model: self.device.map(|d| d.kind().to_string()),
            ..How::default()
        }
    }
}

/// The winner of tuning for some sizes, in the order of the kernel's sizes.
struct Winner {
    sizes: Vec<i64>,
    choice: Choice,
    code: OnceLock<Arc<Prepared>>,
}

/// Code for some sizes.
type Sized = (Vec<i64>, Arc<Prepared>);

/// What is known of the sizes of calls.
#[derive(Default)]
struct Seen {
    sized: Vec<Sized>,
    /// Of sizes without code of their own: what one call does, and what all so far did.
    work: HashMap<SmallVec<[i64; 8]>, (f64, f64)>,
}

/// What calls get that ask for nothing, with so many threads.
pub struct Usual {
    pub threads: usize,
    code: OnceLock<Arc<Prepared>>,
    winners: Vec<Winner>,
    /// Whether decisions are taken for the sizes of a call, and the code that came of it.
    decides: bool,
    seen: Mutex<Seen>,
}

/// From so many operations, or bytes that move, on, decisions for a call's sizes are worth being taken, and compiled where
/// no other code is there.
const WORTH: f64 = 2e6;

/// Where other code is there, calls with the same sizes must do so much: about what takes as long as a compilation.
const AGAIN: f64 = 1e10;

/// Of so many sizes at most; others are served by the code for all sizes.
const MOST: usize = 32;

/// The work of so many sizes is counted.
const COUNTED: usize = 1 << 12;

impl Usual {
    /// Looks the winners up that the store has for this kernel on this machine. A store that cannot be read has none.
    pub fn find(kernel: &Kernel, threads: usize) -> Usual {
        let mut winners = Vec::new();
        let function = kernel.program.kernel(Some(&kernel.name)).ok();
        let found = || -> Option<Vec<ForSizes>> {
            let store = lathe::tune::store::path(None).ok()?;
            lathe::tune::stored_winners(&store, &kernel.program, function?, &Build::default(), false, threads)
                .ok()
        };
        for (sizes, how) in found().unwrap_or_default() {
            let values = kernel.signature.sizes.iter().map(|s| sizes.get(&s.0).copied()).collect();
            let Some(values) = values else { continue };
            let choice = Choice {
                strategy: how.strategy,
                params: how.params,
                sizes,
                threads: Some(threads),
                ..Choice::default()
            };
            winners.push(Winner { sizes: values, choice, code: OnceLock::new() });
        }
        let decides = function.is_some_and(|f| {
            let all = lathe::which::candidates(&kernel.program, f, &How::default());
            all.is_ok_and(|all| all.iter().any(|c| c.source == StrategySource::Auto))
        });
        Usual { threads, code: OnceLock::new(), winners, decides, seen: Mutex::default() }
    }

    /// The code for a call: `size` gives the value of each size.
    pub fn code(
        &self,
        py: Python<'_>,
        kernel: &Kernel,
        size: &dyn Fn(usize) -> i64,
    ) -> PyResult<Arc<Prepared>> {
        for w in &self.winners {
            if are(&w.sizes, size) {
                if let Some(code) = w.code.get() {
                    return Ok(Arc::clone(code));
                }
                let made = compile(py, kernel, &w.choice, true)?;
                return Ok(Arc::clone(w.code.get_or_init(|| made)));
            }
        }
        if self.decides
            && let Some(code) = self.for_sizes(py, kernel, size)?
        {
            return Ok(code);
        }
        if let Some(code) = self.code.get() {
            return Ok(Arc::clone(code));
        }
        let choice = Choice { threads: Some(self.threads), ..Choice::default() };
        let made = compile(py, kernel, &choice, false)?;
        Ok(Arc::clone(self.code.get_or_init(|| made)))
    }

    /// Code for these sizes alone: where it is the first that is needed, and where what calls with them did is worth it.
    fn for_sizes(
        &self,
        py: Python<'_>,
        kernel: &Kernel,
        size: &dyn Fn(usize) -> i64,
    ) -> PyResult<Option<Arc<Prepared>>> {
        let seen = || self.seen.lock().unwrap_or_else(|p| p.into_inner());
        let values: SmallVec<[i64; 8]> = (0..kernel.signature.sizes.len()).map(size).collect();
        {
            // Locked only while the interpreter's lock is held.
            let mut seen = seen();
            if let Some(s) = seen.sized.iter().find(|s| *s.0 == *values) {
                return Ok(Some(Arc::clone(&s.1)));
            }
            if seen.sized.len() >= MOST {
                return Ok(None);
            }
            let first = seen.sized.is_empty() && self.code.get().is_none();
            if seen.work.len() >= COUNTED {
                seen.work.clear();
            }
            let (one, all) = seen
                .work
                .entry(values.clone())
                .or_insert_with(|| (work(kernel, &sizes_of(kernel, size)), 0.0));
            *all += *one;
            if *all < if first { WORTH } else { AGAIN } {
                return Ok(None);
            }
        }
        let choice =
            Choice { sizes: sizes_of(kernel, size), threads: Some(self.threads), ..Choice::default() };
        let made = compile(py, kernel, &choice, false)?;
        let mut seen = seen();
        seen.work.remove(&values);
        seen.sized.push((values.into_vec(), Arc::clone(&made)));
        Ok(Some(made))
    }
}

/// Operations of a call, or bytes where nothing is computed, as in a copy; 0 where that is not known.
fn work(kernel: &Kernel, sizes: &BTreeMap<String, i64>) -> f64 {
    let known = kernel.program.kernel(Some(&kernel.name)).ok().and_then(|f| {
        let values = lathe::data::given_sizes(f, sizes).ok()?;
        Some(lathe::count::flops(f, &values)?.max(lathe::count::bytes(f, &values)?))
    });
    known.unwrap_or(0.0)
}

/// What calls get that ask for nothing, on one device: code with the sizes baked in, which shapes of tiles need.
pub struct OnDevice {
    pub device: DeviceId,
    sized: Mutex<Vec<(Vec<i64>, Arc<Prepared>)>>,
    /// For all other sizes, once there are many; its decisions are for the first of them.
    any: OnceLock<Arc<Prepared>>,
    /// What tuning found on this device, looked up when the first call needs code.
    winners: OnceLock<Vec<ForSizes>>,
}

/// On a device there is no choice of threads; the store has this number of them.
pub const DEVICE_THREADS: usize = 1;

impl OnDevice {
    pub fn new(device: DeviceId) -> OnDevice {
        OnDevice { device, sized: Mutex::new(Vec::new()), any: OnceLock::new(), winners: OnceLock::new() }
    }

    /// The winner of tuning for these sizes.
    fn winner(&self, py: Python<'_>, kernel: &Kernel, sizes: &BTreeMap<String, i64>) -> Option<How> {
        let winners = match self.winners.get() {
            Some(w) => w,
            None => {
                // Nobody waits for another one here, so that the interpreter's lock can be released.
                let found = py.detach(|| winners_on(self.device, &kernel.program, &kernel.name));
                self.winners.get_or_init(|| found)
            }
        };
        winners.iter().find(|w| w.0 == *sizes).map(|w| w.1.clone())
    }

    /// The code for a call: `size` gives the value of each size.
    pub fn code(
        &self,
        py: Python<'_>,
        kernel: &Kernel,
        size: &dyn Fn(usize) -> i64,
    ) -> PyResult<Arc<Prepared>> {
        let full = {
            // Locked only while the interpreter's lock is held.
            let all = self.sized.lock().unwrap_or_else(|p| p.into_inner());
            if let Some(s) = all.iter().find(|s| are(&s.0, size)) {
                return Ok(Arc::clone(&s.1));
            }
            all.len() >= MOST
        };
        if let Some(code) = self.any.get() {
            return Ok(Arc::clone(code));
        }
        let choice = Choice { device: Some(self.device), ..Choice::default() };
        let sizes = sizes_of(kernel, size);
        if full {
            let made = compile(py, kernel, &Choice { sizes, ..choice }, false)?;
            return Ok(Arc::clone(self.any.get_or_init(|| made)));
        }
        let values = (0..kernel.signature.sizes.len()).map(size).collect();
        let winner = self.winner(py, kernel, &sizes);
        let stored = winner.is_some();
        let How { strategy, params, .. } = winner.unwrap_or_default();
        let choice = Choice { strategy, params, sizes: sizes.clone(), specialize: sizes, ..choice };
        let made = compile(py, kernel, &choice, stored)?;
        self.sized.lock().unwrap_or_else(|p| p.into_inner()).push((values, Arc::clone(&made)));
        Ok(made)
    }
}

/// The code of a call on a device; `size` gives the value of each size.
pub fn code_on(
    py: Python<'_>,
    kernel: &Kernel,
    device: DeviceId,
    choice: Option<Choice>,
    size: &dyn Fn(usize) -> i64,
) -> PyResult<Arc<Prepared>> {
    let Some(mut c) = choice else {
        return kernel.on_device(device).code(py, kernel, size);
    };
    c.device = Some(device);
    // Decisions are made for the sizes of this call.
    c.sizes = sizes_of(kernel, size);
    if let Some(code) = kernel.chosen(&c) {
        return Ok(code);
    }
    let made = compile(py, kernel, &c, false)?;
    kernel.keep(c, Arc::clone(&made));
    Ok(made)
}

/// What tuning found for a kernel on a device. A store that cannot be read has nothing.
pub fn winners_on(device: DeviceId, program: &Program, kernel: &str) -> Vec<ForSizes> {
    let found = || -> Option<Vec<ForSizes>> {
        let store = lathe::tune::store::path(None).ok().filter(|p| p.exists())?;
        let function = program.kernel(Some(kernel)).ok()?;
        let build = Build { engine: lathe::Engine::device(&device.name()).ok()?, ..Build::default() };
        lathe::tune::stored_winners(&store, program, function, &build, true, DEVICE_THREADS).ok()
    };
    found().unwrap_or_default()
}

/// Whether the sizes of a call, which `size` gives, are these.
fn are(values: &[i64], size: &dyn Fn(usize) -> i64) -> bool {
    values.iter().enumerate().all(|(i, v)| size(i) == *v)
}

/// The sizes of a call by name.
pub fn sizes_of(kernel: &Kernel, size: &dyn Fn(usize) -> i64) -> BTreeMap<String, i64> {
    kernel.signature.sizes.iter().enumerate().map(|(i, s)| (s.0.clone(), size(i))).collect()
}

/// Compiles, or takes from the cache, what a choice asks for.
pub fn compile(py: Python<'_>, kernel: &Kernel, choice: &Choice, stored: bool) -> PyResult<Arc<Prepared>> {
    let program = program_of(py, kernel, choice)?;
    let name = kernel.name.clone();
    let mut how = choice.how();
    let cache = Cache::user();
    let mut build = Build { cache: cache.clone(), ..Build::default() };
    let device = choice.device.map(DeviceId::name);
    if let Some(name) = &device {
        build.engine = lathe::Engine::device(name).map_err(|d| errors::bare(py, d))?;
        let function = program.kernel(Some(&kernel.name)).map_err(|f| errors::raised(py, &f))?;
        how.strategy.get_or_insert_with(|| lathe::which::of_device(&program, function).to_string());
    }
    let made = py.detach(move || {
        // At most one compiles at a time: it uses all cores itself, and a fork waits for it.
        let _right = Compiling::begin();
        on_large_stack(|| {
            let machine = match &device {
                Some(name) => lathe::machine::with_device(Machine::host(), name),
                None => Machine::host(),
            };
            lathe::prepare(&program, &name, &how, &machine, &build)
        })
    });
    for note in cache.iter().flat_map(|c| c.notes()) {
        let text = std::ffi::CString::new(note.replace('\0', "␀"))?;
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
    }
    let mut made = made.map_err(|f| errors::raised(py, &f))?;
    for what in &made.refused {
        let text = format!("{}: {what}; `{}` runs instead", kernel.name, made.strategy).replace('\0', "␀");
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &std::ffi::CString::new(text)?, 1)?;
    }
    if stored {
        made.source = StrategySource::Stored;
    }
    Ok(Arc::new(made))
}

/// Makes the code of all versions: who compiles ahead of calls waits for none of them later.
pub fn complete(py: Python<'_>, kernel: &Kernel, code: &Prepared) -> PyResult<()> {
    let made = py.detach(|| {
        let _right = Compiling::begin();
        code.built.complete()
    });
    made.map_err(|d| errors::at(py, &kernel.program.sources, d))
}

/// The kernel's program with what the choice adds to it.
pub fn program_of(py: Python<'_>, kernel: &Kernel, choice: &Choice) -> PyResult<Arc<Program>> {
    match &choice.more {
        None => Ok(Arc::clone(&kernel.program)),
        Some(more) => {
            let text = format!("{}\n{more}", kernel.text);
            let path = kernel.program.path.clone();
            let made = py.detach(move || on_large_stack(|| Program::from_text(path, &text)));
            Ok(Arc::new(made.map_err(|f| errors::raised(py, &f))?))
        }
    }
}

/// Trees are walked by recursion, so what compiles gets a stack of its own.
pub fn on_large_stack<T: Send>(f: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(lathe::parallel::STACK).spawn_scoped(scope, f);
        let failed = |why: String| {
            let d = Diagnostic::error(lathe::codes::UNAVAILABLE, why);
            Err(Failure::bare(d.help("please report it with the kernel's source")))
        };
        match thread {
            Ok(t) => t.join().unwrap_or_else(|_| failed("the compiler crashed: a bug in Lathe".to_string())),
            Err(e) => failed(format!("no thread for the compiler: {e}")),
        }
    })
}
