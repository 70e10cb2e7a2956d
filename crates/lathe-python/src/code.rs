//! The compiled versions of a kernel: by what a call asks for, compiled when a call needs them.

use crate::errors;
use crate::kernel::Kernel;
use crate::pools::Compiling;
use lathe::tune::ForSizes;
use lathe::{Build, Cache, Diagnostic, Failure, How, Machine, Prepared, Program, StrategySource};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// What a call may ask for, beyond its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Choice {
    pub strategy: Option<String>,
    /// Definitions that are not in the kernel's own source, in front of which it stands.
    pub more: Option<String>,
    pub params: BTreeMap<String, String>,
    /// Sizes that are baked in.
    pub specialize: BTreeMap<String, i64>,
}

impl Choice {
    pub fn how(&self) -> How {
        How {
            strategy: self.strategy.clone(),
            params: self.params.clone(),
            specialize: self.specialize.clone(),
        }
    }
}

/// The winner of tuning for some sizes, in the order of the kernel's sizes.
struct Winner {
    sizes: Vec<i64>,
    choice: Choice,
    code: OnceLock<Arc<Prepared>>,
}

/// What calls get that ask for nothing, with so many threads.
pub struct Usual {
    pub threads: usize,
    code: OnceLock<Arc<Prepared>>,
    winners: Vec<Winner>,
}

impl Usual {
    /// Looks the winners up that the store has for this kernel on this machine. A store that cannot be read has none.
    pub fn find(kernel: &Kernel, threads: usize) -> Usual {
        let mut winners = Vec::new();
        let found = || -> Option<Vec<ForSizes>> {
            let store = lathe::tune::store::path(None).ok()?;
            let function = kernel.program.kernel(Some(&kernel.name)).ok()?;
            lathe::tune::stored_winners(&store, &kernel.program, function, &Build::default(), threads).ok()
        };
        for (sizes, how) in found().unwrap_or_default() {
            let values = kernel.signature.sizes.iter().map(|s| sizes.get(&s.0).copied()).collect();
            let Some(sizes) = values else { continue };
            let choice = Choice { strategy: how.strategy, params: how.params, ..Choice::default() };
            winners.push(Winner { sizes, choice, code: OnceLock::new() });
        }
        Usual { threads, code: OnceLock::new(), winners }
    }

    /// The code for a call: `size` gives the value of each size.
    pub fn code(&self, py: Python<'_>, kernel: &Kernel, size: &dyn Fn(usize) -> i64) -> PyResult<&Prepared> {
        let mut choice = None;
        let mut slot = &self.code;
        for w in &self.winners {
            if w.sizes.iter().enumerate().all(|(i, v)| size(i) == *v) {
                slot = &w.code;
                choice = Some(&w.choice);
                break;
            }
        }
        if let Some(code) = slot.get() {
            return Ok(code);
        }
        let usual = Choice::default();
        let asked = choice.unwrap_or(&usual);
        let made = compile(py, kernel, asked, choice.is_some())?;
        Ok(slot.get_or_init(|| made))
    }
}

/// Compiles, or takes from the cache, what a choice asks for.
pub fn compile(py: Python<'_>, kernel: &Kernel, choice: &Choice, stored: bool) -> PyResult<Arc<Prepared>> {
    let program = program_of(py, kernel, choice)?;
    let name = kernel.name.clone();
    let how = choice.how();
    let made = py.detach(move || {
        // At most one compiles at a time: it uses all cores itself, and a fork waits for it.
        let _right = Compiling::begin();
        let build = Build { cache: Cache::user(), ..Build::default() };
        on_large_stack(|| lathe::prepare(&program, &name, &how, &Machine::host(), &build))
    });
    let mut made = made.map_err(|f| errors::raised(py, &f))?;
    if stored {
        made.source = StrategySource::Stored;
    }
    Ok(Arc::new(made))
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
        let thread = std::thread::Builder::new().stack_size(lathe::schedule::STACK).spawn_scoped(scope, f);
        let failed = |why: String| {
            let d = Diagnostic::error(lathe::codes::UNAVAILABLE, why);
            Err(Failure::bare(d.help("please report this with the kernel's source")))
        };
        match thread {
            Ok(t) => {
                t.join().unwrap_or_else(|_| failed("the compiler stopped: a defect of Lathe".to_string()))
            }
            Err(e) => failed(format!("no thread to compile on: {e}")),
        }
    })
}
