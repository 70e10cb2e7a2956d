//! The class of kernels: a source, one of its kernels, and its compiled versions.

use crate::arrays;
use crate::call;
use crate::code::{self, Choice, DeviceId, OnDevice, Usual, on_large_stack, program_of};
use crate::errors;
use crate::generic::{self, Others};
use crate::keywords::option;
use crate::pools::get_threads;
use crate::signature::{Signature, SizeRule};
use lathe::ir::{Mode, ParamKind, Type};
use lathe::{Build, Cache, Diagnostic, Emit, Function, Machine, Prepared, Program, Schedule};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// Compiled versions that were asked for by options; more than this many are not kept.
const KEPT: usize = 256;

/// A kernel that can be called with arrays. Nothing is compiled before a call, or a look at it, needs it.
#[pyclass(subclass, frozen, weakref, module = "lathe._lathe", name = "Kernel")]
pub struct Kernel {
    pub program: Arc<Program>,
    pub name: String,
    pub text: String,
    pub signature: Signature,
    descrs: Vec<OnceLock<Py<PyAny>>>,
    // These are locked only for moments, and only with the interpreter's lock held: never at a fork.
    usual: Mutex<Vec<Arc<Usual>>>,
    devices: Mutex<Vec<Arc<OnDevice>>>,
    others: Mutex<BTreeMap<Choice, Arc<Prepared>>>,
    /// Those of other element types, where the arrays choose.
    pub others_of: Option<Others>,
    /// Numbers for inputs that a call leaves out, by their positions in the signature.
    defaults: OnceLock<Vec<(usize, Py<PyAny>)>>,
}

fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|p| p.into_inner())
}

impl Kernel {
    pub fn of(function: &Function, program: &Arc<Program>, text: &str) -> Kernel {
        let signature = Signature::of(function);
        Kernel {
            name: function.name.to_string(),
            descrs: signature.outputs.iter().map(|_| OnceLock::new()).collect(),
            signature,
            program: Arc::clone(program),
            text: text.to_string(),
            usual: Mutex::new(Vec::new()),
            devices: Mutex::new(Vec::new()),
            others: Mutex::new(BTreeMap::new()),
            others_of: None,
            defaults: OnceLock::new(),
        }
    }

    /// With the defaults of another kernel, whose inputs have the same names.
    pub fn with_defaults_of(self, py: Python<'_>, other: &Kernel) -> Kernel {
        if let Some(all) = other.defaults.get() {
            let _ = self.defaults.set(all.iter().map(|(at, v)| (*at, v.clone_ref(py))).collect());
        }
        self
    }

    /// What an input is if a call leaves it out.
    pub fn default_of<'py>(&self, py: Python<'py>, at: usize) -> Option<Bound<'py, PyAny>> {
        let all = self.defaults.get()?;
        all.iter().find(|d| d.0 == at).map(|d| d.1.bind(py).clone())
    }

    pub fn has_defaults(&self) -> bool {
        self.defaults.get().is_some()
    }

    /// The code of calls without options, on so many threads.
    pub fn usual(&self, threads: usize) -> Arc<Usual> {
        let mut all = locked(&self.usual);
        if let Some(u) = all.iter().find(|u| u.threads == threads) {
            return Arc::clone(u);
        }
        let found = Arc::new(Usual::find(self, threads));
        all.push(Arc::clone(&found));
        found
    }

    /// The code of calls without options, on a device.
    pub fn on_device(&self, device: DeviceId) -> Arc<OnDevice> {
        let mut all = locked(&self.devices);
        if let Some(d) = all.iter().find(|d| d.device == device) {
            return Arc::clone(d);
        }
        let found = Arc::new(OnDevice::new(device));
        all.push(Arc::clone(&found));
        found
    }

    /// The code of a choice, if it was compiled before.
    pub fn chosen(&self, choice: &Choice) -> Option<Arc<Prepared>> {
        locked(&self.others).get(choice).cloned()
    }

    pub fn keep(&self, choice: Choice, code: Arc<Prepared>) {
        let mut all = locked(&self.others);
        if all.len() >= KEPT {
            all.clear();
        }
        all.insert(choice, code);
    }

    /// Forgets what was chosen without options: something was tuned.
    pub fn forget_usual(&self) {
        locked(&self.usual).clear();
        locked(&self.devices).clear();
    }

    /// numpy's description of the elements of the `i`-th result.
    pub fn descr(&self, py: Python<'_>, i: usize, ty: &Type) -> PyResult<&Py<PyAny>> {
        if let Some(d) = self.descrs[i].get() {
            return Ok(d);
        }
        let made = arrays::descr(py, ty)?.unbind();
        Ok(self.descrs[i].get_or_init(|| made))
    }

    fn schedule(&self, py: Python<'_>, choice: &Choice, machine: &Machine) -> PyResult<Schedule> {
        let program = program_of(py, self, choice)?;
        let how = choice.how();
        let name = self.name.clone();
        let made = py.detach(move || {
            on_large_stack(|| {
                let kernel = program.kernel(Some(&name))?;
                lathe::schedule(&program, kernel, &how, machine)
            })
        });
        made.map_err(|f| errors::raised(py, &f))
    }
}

#[pymethods]
impl Kernel {
    /// Reads a source, in the language or in the notation of homomorphisms. `name` says which of its kernels is
    /// meant, if it has several.
    #[new]
    #[pyo3(signature = (source, name=None, *, file=None))]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        name: Option<String>,
        file: Option<PathBuf>,
    ) -> PyResult<Kernel> {
        let Ok(source) = source.extract::<String>() else {
            return Err(option(source, "a kernel is made from a string in Lathe's language"));
        };
        let unnamed = || {
            if lathe::mdh::is_notation_text(&source) {
                "<kernel>.mdh"
            } else if lathe::tree::is_tree_text(&source) {
                "<kernel>.tree"
            } else {
                "<kernel>"
            }
        };
        let path = file.unwrap_or_else(|| PathBuf::from(unnamed()));
        let program = py.detach(|| on_large_stack(|| Program::from_text(&path, &source)));
        let program = program.map_err(|f| errors::raised(py, &f))?;
        let function = program.kernel(name.as_deref()).map_err(|f| errors::raised(py, &f))?;
        let function = function.clone();
        let program = Arc::new(program);
        let mut made = Kernel::of(&function, &program, &source);
        // Who names one choice means it; the name of the generic kernel, or none, leaves it to the arrays.
        let is_usual = |g: &lathe::lang::Generic| g.choices[g.default].1 == made.name;
        made.others_of = program.generic_of(&made.name).filter(|g| is_usual(g.1)).map(|_| Others::default());
        Ok(made)
    }

    /// Runs the kernel. Positional arguments are its inputs in order; results are returned, or written to `out`.
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        generic::call(slf, |k| call::call(k, args, kwargs))
    }

    /// As a call, for arrays and tensors that are nothing but memory; `NotImplemented` where an operator is needed.
    #[pyo3(signature = (*args, **kwargs))]
    fn call_plain<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        generic::call(slf, |k| call::call_plain(k, args, kwargs))
    }

    /// The name of the kernel for these element types.
    fn choice(&self, py: Python<'_>, types: BTreeMap<String, String>) -> PyResult<String> {
        generic::choice(py, self, &types)
    }

    /// Refuses a number that does not fit the scalar parameter at this position.
    fn check_number(&self, py: Python<'_>, parameter: usize, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.signature.params.get(parameter) {
            Some(p) => call::check_number(py, p, value),
            None => Ok(()),
        }
    }

    /// Gives numbers for inputs that calls may leave out; once, before the kernel is used.
    fn set_defaults(&self, py: Python<'_>, given: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut all = Vec::new();
        for (name, value) in given.iter() {
            let name: String = name.extract()?;
            let params = &self.signature.params;
            let at =
                self.signature.inputs.iter().find(|i| params[**i].name == name && params[**i].is_number());
            let Some(at) = at else {
                return Err(option(given, &format!("`{name}` is no number among the inputs")));
            };
            call::check_number(py, &params[*at], &value)?;
            all.push((*at, value.unbind()));
        }
        self.defaults.set(all).map_err(|_| option(given, "the defaults of a kernel are given once"))
    }

    /// The numbers for inputs that calls may leave out, by name.
    #[getter]
    fn defaults<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        for (at, value) in self.defaults.get().into_iter().flatten() {
            out.set_item(&self.signature.params[*at].name, value)?;
        }
        Ok(out)
    }

    /// What extents mean, as formulas of Python: for each size its name, the parameter and dimension that it is read off,
    /// and what times it is, plus what, less which multiples of earlier sizes; then for each parameter its extents, over
    /// sizes `s` and values of scalar parameters `v`.
    fn shape_rules(&self) -> Rules {
        (self.signature.rules(), self.signature.params.iter().map(|p| p.formulas()).collect())
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The file that the source is from, or `<kernel>`.
    #[getter]
    fn file(&self) -> String {
        self.program.path.display().to_string()
    }

    /// The source, with the definitions that it was made with.
    fn source(&self) -> &str {
        &self.text
    }

    /// Whether the source is a tree.
    #[getter]
    fn is_tree(&self) -> bool {
        lathe::tree::is_tree(&self.program.path)
    }

    /// Of a kernel of a tree: the tree with its derivative, `vjp` or `jvp`, and what that is called there.
    #[pyo3(signature = (forward, name, *, wrt, of, value, allow_steps, checkpoints, directions))]
    #[expect(clippy::too_many_arguments, reason = "the options of derivatives")]
    fn derived_tree(
        &self,
        py: Python<'_>,
        forward: bool,
        name: String,
        wrt: Vec<String>,
        of: Vec<String>,
        value: bool,
        allow_steps: bool,
        checkpoints: Option<std::num::NonZeroU16>,
        directions: Option<String>,
    ) -> PyResult<(String, String)> {
        use lathe::grad::{Mode, Passes, Request, derive};
        let mode = if forward { Mode::Forward } else { Mode::Reverse };
        let usual = Request::new(mode, name);
        let value = value || usual.value;
        let request = Request { wrt, of, value, allow_steps, checkpoints, directions, ..usual };
        let made = py.detach(|| {
            on_large_stack(|| {
                let mut program = Program::from_text(&self.program.path, &self.text)?;
                let kernel = program.kernel(Some(&self.name))?.clone();
                let d = derive(&mut program, &kernel, &request, &Passes::usual())?;
                Ok((lathe::text::print_module(&program.lang.module), d.func.name.to_string()))
            })
        });
        made.map_err(|f: lathe::Failure| errors::raised(py, &f))
    }

    /// The names of the sizes.
    #[getter]
    fn sizes(&self) -> Vec<String> {
        let f = self.program.kernel(Some(&self.name));
        f.map(|f| f.sizes.iter().map(|b| b.name.to_string()).collect()).unwrap_or_default()
    }

    /// The parameters: name, `in`, `inout` or `out`, and type.
    #[getter]
    fn parameters(&self) -> Vec<(String, &'static str, String)> {
        let Ok(f) = self.program.kernel(Some(&self.name)) else { return Vec::new() };
        let one = |p: &lathe::ir::Param| {
            let ty = match &p.kind {
                ParamKind::Scalar(b) => b.ty.to_string(),
                // A number, as users see it.
                ParamKind::Array(b)
                    if b.extents.is_empty()
                        && p.mode == lathe::ir::Mode::In
                        && b.elem.complex_part().is_some() =>
                {
                    b.elem.to_string()
                }
                ParamKind::Array(b) => {
                    let scope = lathe::text::Scope::of_function(f);
                    let extents: Vec<String> =
                        b.extents.iter().map(|e| lathe::text::print_expr(e, &scope)).collect();
                    format!("{}[{}]", b.elem, extents.join(", "))
                }
            };
            (p.name().to_string(), p.mode.name(), ty)
        };
        f.params.iter().map(one).collect()
    }

    /// numpy's description of the elements of a parameter.
    fn dtype<'py>(&self, py: Python<'py>, parameter: &str) -> PyResult<Bound<'py, PyAny>> {
        match self.signature.params.iter().find(|p| p.name == parameter) {
            Some(p) => arrays::descr(py, &p.ty),
            None => {
                let text = format!("`{}` has no parameter `{parameter}`", self.name);
                Err(errors::bare(py, Diagnostic::error(lathe::codes::OPTION, text)))
            }
        }
    }

    /// The same kernel with its `print` and `assert`; none if it has no such statements.
    fn debugging(&self, py: Python<'_>) -> PyResult<Option<Kernel>> {
        let name = self.name.clone();
        let program = Arc::clone(&self.program);
        let made = py.detach(move || on_large_stack(|| program.debugging(&name)));
        let Some(program) = made.map_err(|f| errors::raised(py, &f))? else { return Ok(None) };
        let function = program.kernel(Some(&self.name)).map_err(|f| errors::raised(py, &f))?.clone();
        Ok(Some(Kernel::of(&function, &Arc::new(program), &self.text).with_defaults_of(py, self)))
    }

    /// What a call showed, by what it left in its last argument: printed lines, and the exception for an `assert` that failed.
    #[expect(clippy::needless_pass_by_value, reason = "what Python hands over")]
    fn shown(
        &self,
        py: Python<'_>,
        log: Vec<i64>,
    ) -> (Vec<String>, Option<Py<pyo3::exceptions::PyBaseException>>) {
        let shown = self.program.shown(&self.name, &log);
        let raised =
            shown.failed.map(|f| errors::at(py, &self.program.sources, lathe::debug::failed(&self.name, &f)));
        (shown.printed, raised.map(|e| e.into_value(py)))
    }

    /// The names of the strategies that fit, with their parameters.
    fn strategies(&self) -> Vec<(String, Vec<String>)> {
        let mut out: Vec<(String, Vec<String>)> = Vec::new();
        for d in self.program.strategies(&self.name) {
            // The kernel's own strategy hides one of that name for any kernel.
            if out.iter().all(|o| o.0 != d.name) {
                out.push((d.name.clone(), d.params.iter().map(|p| p.name.clone()).collect()));
            }
        }
        out
    }

    /// Compiles without a call.
    fn compile_(&self, py: Python<'_>, how: Choice) -> PyResult<Described> {
        if let Some(c) = self.chosen(&how) {
            code::complete(py, self, &c)?;
            return Ok(described(&c));
        }
        // Calls that ask for nothing run code for the number of threads that they get.
        let threads = match how == Choice::default() {
            true => Some(get_threads(py)?),
            false => how.threads,
        };
        let made = code::compile(py, self, &Choice { threads, ..how.clone() }, false)?;
        code::complete(py, self, &made)?;
        self.keep(how, Arc::clone(&made));
        Ok(described(&made))
    }

    /// Compiles what a call with these arguments and options runs.
    #[pyo3(signature = (*args, **kwargs))]
    fn compile_call<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Described> {
        Ok(described(&*call::code_of(py, self, args, kwargs)?))
    }

    /// The steps of a strategy with their evidence, as text.
    fn explain_(&self, py: Python<'_>, how: Choice, diff: bool) -> PyResult<String> {
        let s = self.schedule(py, &how, &Machine::host())?;
        Ok(lathe::explain(&s, diff))
    }

    /// The same as JSON: for each version its condition, its steps and its tree.
    fn explain_json(&self, py: Python<'_>, how: Choice) -> PyResult<String> {
        let s = self.schedule(py, &how, &Machine::host())?;
        let info = self.program.lang.kernels.iter().find(|k| *k.name == *self.name);
        Ok(lathe::explain_json(&self.name, info.map_or("", |k| &k.doc), &s).to_string())
    }

    /// Code to read, to link and to ship: `tree`, `llvm`, `asm`, `object`, `c` or `header`.
    #[pyo3(signature = (form, how, cpu=None))]
    fn emit_<'py>(
        &self,
        py: Python<'py>,
        form: &str,
        how: Choice,
        cpu: Option<String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let form = match form {
            "tree" => Emit::Tree,
            "llvm" => Emit::Llvm,
            "asm" => Emit::Asm,
            "object" => Emit::Object,
            "c" => Emit::C,
            "header" => Emit::Header,
            _ => {
                let text = format!("`{form}` is not a form of code: tree, llvm, asm, object, c, header");
                return Err(errors::bare(py, Diagnostic::error(lathe::codes::OPTION, text)));
            }
        };
        let machine = match cpu {
            Some(name) => lathe::machine::open(&name).map_err(|d| errors::bare(py, d))?,
            None => Machine::host(),
        };
        let s = self.schedule(py, &how, &machine)?;
        let build = Build::default().on(&machine);
        let bytes =
            py.detach(|| on_large_stack(|| lathe::emit(&s, form, &build).map_err(lathe::Failure::bare)));
        Ok(PyBytes::new(py, &bytes.map_err(|f| errors::raised(py, &f))?))
    }

    fn __repr__(&self) -> String {
        let of = |out: bool| -> Vec<String> {
            let all = self.parameters();
            all.into_iter()
                .filter(|p| (p.1 == Mode::Out.name()) == out)
                .map(|p| format!("{}: {}", p.0, p.2))
                .collect()
        };
        format!("<lathe kernel {}({}) -> ({})>", self.name, of(false).join(", "), of(true).join(", "))
    }
}

/// Rules of sizes, and formulas of the extents of each parameter.
type Rules = (Vec<SizeRule>, Vec<Vec<Option<String>>>);

/// The strategy, why it was taken, its parameters as text, the facts that were assumed, and whether the cache had it.
type Described = (String, &'static str, BTreeMap<String, String>, Vec<String>, bool);

fn described(c: &Prepared) -> Described {
    let params = c.params.iter().map(|(n, v)| (n.clone(), v.to_string())).collect();
    (c.strategy.clone(), c.source.name(), params, c.assumptions.clone(), c.from_cache)
}

/// Where compiled code is kept; `None` if nowhere.
#[pyfunction]
pub fn cache_folder() -> Option<PathBuf> {
    Cache::user().map(|c| c.folder().to_path_buf())
}

/// A source as `lathe fmt` writes it.
#[pyfunction]
pub fn format_source(py: Python<'_>, source: &str) -> PyResult<String> {
    let mut map = lathe::SourceMap::new();
    map.add("<source>", source);
    match lathe::lang::format(source) {
        Ok(text) => Ok(text),
        Err(all) => Err(errors::raised(py, &lathe::Failure::many(&map, all))),
    }
}

/// What a code of a diagnostic means: its title, explanation, a wrong and a right example.
#[pyfunction]
pub fn explain_code(py: Python<'_>, code: &str) -> PyResult<(String, String, String, String)> {
    match lathe::all_codes().into_iter().find(|c| c.code.0.eq_ignore_ascii_case(code)) {
        Some(i) => Ok((i.title.into(), i.explanation.into(), i.wrong.into(), i.right.into())),
        None => {
            let text = format!("there is no code `{code}`");
            Err(errors::bare(py, Diagnostic::error(lathe::codes::OPTION, text)))
        }
    }
}

/// Raises the exception of a diagnostic: for what the Python side finds.
#[pyfunction]
pub fn fail(py: Python<'_>, code: &str, text: &str, notes: Vec<String>, help: Option<String>) -> PyErr {
    let Some(info) = lathe::all_codes().into_iter().find(|c| c.code.0 == code) else {
        return PyValueError::new_err(text.to_string());
    };
    let mut d = Diagnostic::error(info.code, text);
    d.notes = notes;
    d.help = help;
    errors::bare(py, d)
}
