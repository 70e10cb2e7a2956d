//! Searches: of a kernel's strategies, of any function of Python, and of any command.

use crate::code::{DEVICE_THREADS, on_large_stack};
use crate::errors;
use crate::kernel::Kernel;
use lathe::space::{Constraint, SpaceDef, Value, Values};
use lathe::tune::{
    Comparator, Cost, CostFunction, Dot, Entry, Fault, Found, Gold, Invalid, KernelTuning, Limits, Outcome,
    ProgramTuning, Progress, Sample, Stop, Tuner, Why, WorkerCommand,
};
use lathe::{Build, Diagnostic, Failure, Given, Machine, Program};
use pyo3::exceptions::{PyException, PyKeyboardInterrupt};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyTuple};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

/// Rules of a search, as text where they have one.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Rules {
    until: Option<String>,
    budget: Option<f64>,
    technique: Option<String>,
    seed: u64,
    fresh: bool,
    store: Option<PathBuf>,
}

impl Rules {
    fn stop(&self) -> Result<Option<Stop>, Diagnostic> {
        let until = self.until.as_deref().map(lathe::tune::stop_text::parse).transpose()?;
        let budget = self.budget().map(Stop::Duration);
        Ok(match (budget, until) {
            (Some(a), Some(b)) => Some(a.or(b)),
            (a, b) => a.or(b),
        })
    }

    fn budget(&self) -> Option<Duration> {
        self.budget.map(|s| Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX))
    }

    fn technique(&self) -> Result<Option<Box<dyn lathe::tune::technique::Technique>>, Diagnostic> {
        self.technique.as_deref().map(lathe::tune::technique::by_name).transpose()
    }
}

/// A function of Python that hears of the search's progress.
type Listener = Option<Py<PyAny>>;

/// Tells a listener; what it raises is remembered, and ends nothing.
fn tell(listener: &Listener, p: &Progress, trouble: &Mutex<Option<PyErr>>) {
    let Some(f) = listener else { return };
    let told = Python::attach(|py| -> PyResult<()> {
        let d = PyDict::new(py);
        d.set_item("evaluations", p.evaluations)?;
        d.set_item("valid", p.valid)?;
        d.set_item("known", p.known)?;
        d.set_item("elapsed", p.elapsed.as_secs_f64())?;
        d.set_item("done", p.done)?;
        d.set_item("remaining", p.remaining.map(|r| r.as_secs_f64()))?;
        if let Some((c, cost)) = &p.best {
            d.set_item("best", dict(py, &c.to_values())?)?;
            d.set_item("cost", cost.numbers())?;
        }
        f.bind(py).call1((d,))?;
        Ok(())
    });
    if let Err(e) = told {
        trouble.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(e);
    }
}

fn value<'py>(py: Python<'py>, v: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match v {
        Value::Bool(b) => PyBool::new(py, *b).to_owned().into_any(),
        Value::Int(v) => v.into_pyobject(py)?.into_any(),
        Value::Float(v) => v.into_pyobject(py)?.into_any(),
        Value::Str(s) => s.into_pyobject(py)?.into_any(),
    })
}

fn dict<'py>(py: Python<'py>, values: &Values) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    for (n, v) in values {
        d.set_item(n, value(py, v)?)?;
    }
    Ok(d)
}

fn values(given: &Bound<'_, PyDict>) -> PyResult<Values> {
    let mut out = Values::new();
    for (n, v) in given.iter() {
        let read = if let Ok(b) = v.cast::<PyBool>() {
            Value::Bool(b.is_true())
        } else if let Ok(i) = v.extract::<i64>() {
            Value::Int(i)
        } else if let Ok(f) = v.extract::<f64>() {
            Value::Float(f)
        } else {
            Value::Str(v.str()?.to_string())
        };
        out.insert(n.extract::<String>()?, read);
    }
    Ok(out)
}

/// What a search found, for Python.
fn found<'py>(py: Python<'py>, f: &Found) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("stopped", &f.stopped)?;
    d.set_item("known", f.known)?;
    d.set_item("entry", f.entry())?;
    d.set_item("trouble", f.store_trouble().or(f.fault.as_ref()).map(ToString::to_string))?;
    if let Some((v, s)) = &f.best {
        d.set_item("best", dict(py, v)?)?;
        d.set_item("cost", s.cost.numbers())?;
        d.set_item("interval", s.interval)?;
    }
    let history = PyList::empty(py);
    for e in &f.tuned.history {
        let (cost, why) = match &e.outcome {
            Outcome::Valid(c) => (Some(c.numbers().to_vec()), None),
            Outcome::Invalid(i) => (None, Some(i.message.clone())),
        };
        let one = (dict(py, &e.configuration.to_values())?, cost, why, e.at.as_secs_f64());
        history.append(one)?;
    }
    d.set_item("history", history)?;
    let svg = picture(&f.tuned.history);
    d.set_item("svg", svg)?;
    Ok(d)
}

/// The search as an SVG, if there is anything to draw.
fn picture(history: &[Entry]) -> Option<String> {
    lathe::tune::svg("tuning", "cost", &history.iter().map(Dot::of).collect::<Vec<_>>()).ok()
}

/// What a search that failed raises: Ctrl-C before anything was measured is what it is for Python.
fn raised(py: Python<'_>, failure: &Failure) -> PyErr {
    let interrupted = failure.diagnostics.iter().any(|d| d.message.contains("interrupted before"));
    if interrupted { PyKeyboardInterrupt::new_err(()) } else { errors::raised(py, failure) }
}

/// Searches the parameters of a kernel's strategy.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called from one place in Python, with positional arguments")]
pub fn tune_kernel<'py>(
    py: Python<'py>,
    kernel: &Kernel,
    file: PathBuf,
    strategy: Option<String>,
    sizes: BTreeMap<String, i64>,
    inputs: BTreeMap<String, String>,
    fixed: &Bound<'py, PyDict>,
    threads: usize,
    specialize: bool,
    rules: Rules,
    worker: Vec<String>,
    listener: Listener,
    device: Option<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let fail = |d: Diagnostic| errors::bare(py, d);
    let mut command = worker.into_iter();
    let worker = WorkerCommand {
        program: command.next().unwrap_or_default().into(),
        arguments: command.map(Into::into).collect(),
    };
    let mut machine = Machine::host();
    let (mut build, mut model) = (Build::default(), None);
    if let Some(name) = &device {
        build.engine = lathe::Engine::device(name).map_err(fail)?;
        model = name.split(':').next().map(str::to_string);
        machine = py.detach(|| lathe::machine::with_device(machine, name));
    }
    let on_device = device.is_some();
    let stop = rules.until.as_deref().map(lathe::tune::stop_text::parse).transpose().map_err(fail)?;
    let tuning = KernelTuning {
        strategy,
        given: Given { sizes, inputs, seed: rules.seed },
        fixed: values(fixed)?,
        build,
        machine,
        model,
        // As calls on devices do.
        specialize: specialize || on_device,
        threads: if on_device { DEVICE_THREADS } else { threads },
        budget: rules.budget(),
        stop,
        technique: rules.technique().map_err(fail)?,
        seed: rules.seed,
        store: rules.store.clone(),
        fresh: rules.fresh,
        worker,
    };
    let name = kernel.name.clone();
    let trouble = Mutex::new(None);
    let tuned = py.detach(|| {
        lathe::tune::with_interrupts(|| {
            on_large_stack(|| {
                let program = Program::open(&file)?;
                let function = program.kernel(Some(&name))?;
                let mut tuning = tuning;
                if on_device && tuning.strategy.is_none() {
                    tuning.strategy = Some(lathe::which::of_device(&program, function).to_string());
                }
                lathe::tune::tune_kernel(&program, function, tuning, |p| tell(&listener, p, &trouble))
            })
        })
    });
    kernel.forget_usual();
    let tuned = tuned.map_err(|f| raised(py, &f))?;
    if let Some(e) = trouble.into_inner().unwrap_or_else(|p| p.into_inner()) {
        return Err(e);
    }
    let d = found(py, &tuned.found)?;
    d.set_item("strategy", &tuned.strategy)?;
    d.set_item("sizes", tuned.sizes)?;
    d.set_item("params", dict(py, &tuned.params)?)?;
    d.set_item("seconds", tuned.sample.cost.first())?;
    d.set_item("interval", tuned.sample.interval)?;
    d.set_item("default", tuned.default)?;
    d.set_item(
        "checked",
        tuned.check.as_ref().map(|c| (c.against.clone(), c.max_abs_error, c.max_rel_error)),
    )?;
    d.set_item("unchecked", tuned.unchecked)?;
    Ok(d)
}

/// The measuring process of a kernel: answers on standard input and output until they are closed.
#[pyfunction]
pub fn work(py: Python<'_>) -> PyResult<()> {
    Ok(py.detach(|| {
        // As on the command line: trees are walked by recursion.
        std::thread::scope(|s| {
            let builder = std::thread::Builder::new().stack_size(lathe::parallel::STACK);
            builder.spawn_scoped(s, lathe::tune::work)?.join().unwrap_or(Ok(()))
        })
    })?)
}

/// A function of Python that says what a configuration costs.
struct Function<'a> {
    function: &'a Py<PyAny>,
    /// What ended the search, for Python to raise if nothing was found.
    ended: &'a Mutex<Option<PyErr>>,
}

impl CostFunction for Function<'_> {
    fn measure(&mut self, configuration: &Values, best: Option<&Cost>) -> Result<Sample, Fault> {
        let _ = best;
        Python::attach(|py| {
            let said = dict(py, configuration).and_then(|d| self.function.bind(py).call1((d,)));
            let said = said.and_then(|v| {
                if let Ok(all) = v.cast::<PyTuple>() {
                    return all.iter().map(|x| x.extract::<f64>()).collect::<PyResult<Vec<f64>>>();
                }
                Ok(vec![v.extract::<f64>()?])
            });
            match said {
                Ok(numbers) => Ok(Sample::from(Cost::new(numbers))),
                Err(e) if e.is_instance_of::<PyException>(py) => {
                    Err(Invalid::new(Why::Runtime, e.to_string()).into())
                }
                Err(e) => {
                    let interrupt = e.is_instance_of::<PyKeyboardInterrupt>(py);
                    self.ended.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(e);
                    if interrupt {
                        return Err(Fault::Interrupted);
                    }
                    let text = "the cost function ended the search";
                    Err(Fault::Fatal(Diagnostic::error(lathe::tune::codes::NOTHING_VALID, text)))
                }
            }
        })
    }
}

/// A condition in Python on some parameters.
type Condition = (String, Vec<String>, Py<PyAny>);

fn space_of(json: &str, conditions: Vec<Condition>) -> Result<SpaceDef, Failure> {
    let mut map = lathe::SourceMap::new();
    let file = map.add("<parameters>", json);
    let mut def = lathe::space::formats::json::parse(json, file).map_err(|d| Failure::one(&map, d))?.space;
    for (own, reads, f) in conditions {
        let condition = Constraint::closure(reads, move |all: &[Value]| {
            Python::attach(|py| {
                let args = all.iter().map(|v| value(py, v)).collect::<PyResult<Vec<_>>>();
                let said = args.and_then(|a| f.bind(py).call1(PyTuple::new(py, a)?)?.is_truthy());
                said.map_err(|e| lathe::space::EvalError::Type(e.to_string()))
            })
        });
        match def.params.iter_mut().find(|p| p.name == own) {
            Some(p) => *p = p.clone().such_that(condition),
            None => {
                let d = Diagnostic::error(lathe::tune::codes::FORM, format!("there is no parameter `{own}`"));
                return Err(Failure::bare(d));
            }
        }
    }
    Ok(def)
}

/// Searches a space with a Python function.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called from one place in Python, with positional arguments")]
pub fn tune_function<'py>(
    py: Python<'py>,
    function: Py<PyAny>,
    parameters: &str,
    conditions: Vec<Condition>,
    starts: Vec<Bound<'py, PyDict>>,
    order: Option<String>,
    rules: Rules,
    key: Option<(String, String)>,
    listener: Listener,
) -> PyResult<Bound<'py, PyDict>> {
    let starts = starts.iter().map(values).collect::<PyResult<Vec<_>>>()?;
    let (ended, trouble) = (Mutex::new(None), Mutex::new(None));
    let result = py.detach(|| {
        let bare = Failure::bare;
        let def = space_of(parameters, conditions)?;
        let mut tuner = Tuner::new(lathe::tune::space(&def).map_err(bare)?)
            .seed(rules.seed)
            .fresh(rules.fresh)
            .negative_costs(true)
            .on_progress(|p| tell(&listener, p, &trouble));
        if let Some(t) = rules.technique().map_err(bare)? {
            tuner = tuner.technique(t);
        }
        if let Some(s) = rules.stop().map_err(bare)? {
            tuner = tuner.stop(s);
        }
        if let Some(text) = &order {
            tuner = tuner.order(lathe::tune::order(text).map_err(bare)?);
        }
        for s in starts {
            tuner = tuner.start(s);
        }
        if let (Some(store), Some((name, hash))) = (&rules.store, key) {
            let key = lathe::tune::store::Key {
                program: name,
                program_hash: hash,
                space_hash: lathe::tune::store::hash_of(&[parameters]),
                sizes: def.constants.clone(),
                device: lathe::tune::store::Device::host(),
                compiler: "a function of Python".to_string(),
                objective: format!("cost by {}", order.as_deref().unwrap_or("the first number")),
                ..Default::default()
            };
            tuner = tuner.store(store, key);
        }
        tuner.tune(&mut Function { function: &function, ended: &ended }).map_err(bare)
    });
    let ended = ended.into_inner().unwrap_or_else(|p| p.into_inner());
    let heard = trouble.into_inner().unwrap_or_else(|p| p.into_inner());
    match (result, ended, heard) {
        (Ok(_), Some(e), _) if !e.is_instance_of::<PyKeyboardInterrupt>(py) => Err(e),
        (Ok(_), _, Some(e)) => Err(e),
        (Ok(f), ..) => found(py, &f),
        (Err(_), Some(e), _) => Err(e),
        (Err(f), None, _) => Err(raised(py, &f)),
    }
}

/// Searches the parameters of a program that scripts or commands run; `file` describes it.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called from one place in Python, with positional arguments")]
pub fn tune_command<'py>(
    py: Python<'py>,
    file: PathBuf,
    arguments: Vec<String>,
    rules: Rules,
    timeout: f64,
    memory: Option<u64>,
    jobs: usize,
    side_by_side: bool,
    repeated: (Option<usize>, bool),
    gold: Option<(PathBuf, f64, Option<PathBuf>)>,
    order: Option<String>,
    listener: Listener,
) -> PyResult<Bound<'py, PyDict>> {
    let trouble = Mutex::new(None);
    let result = py.detach(|| {
        lathe::tune::with_interrupts(|| {
            let bare = Failure::bare;
            let described = lathe::tune::describe_program(&file, &arguments)?;
            let gold = match gold {
                Some((f, t, own)) => Some((Gold::read(&f, Comparator::Relative(t)).map_err(bare)?, own)),
                None => None,
            };
            let tuning = ProgramTuning {
                stop: rules.stop().map_err(bare)?,
                technique: rules.technique().map_err(bare)?,
                seed: rules.seed,
                store: rules.store.clone(),
                fresh: rules.fresh,
                threads: std::thread::available_parallelism().map_or(1, usize::from),
                limits: Limits { memory },
                first: Duration::try_from_secs_f64(timeout).unwrap_or(Duration::from_secs(60)),
                gold,
                jobs,
                side_by_side,
                runs: repeated.0,
                negative: repeated.1,
                recorded: None,
                order,
                // The forms that Python writes have no kernels in a device's language.
                worker: WorkerCommand { program: "".into(), arguments: Vec::new() },
                device: None,
            };
            lathe::tune::tune_program(&described, tuning, |p| tell(&listener, p, &trouble)).map_err(bare)
        })
    });
    let tuned = result.map_err(|f| raised(py, &f))?;
    if let Some(e) = trouble.into_inner().unwrap_or_else(|p| p.into_inner()) {
        return Err(e);
    }
    let d = found(py, &tuned.found)?;
    d.set_item("timed", tuned.timed)?;
    Ok(d)
}

/// How many configurations a space has: without its constraints, and with them.
#[pyfunction]
pub fn count_space(
    py: Python<'_>,
    parameters: &str,
    conditions: Vec<Condition>,
) -> PyResult<(String, String)> {
    let made = py.detach(|| {
        let def = space_of(parameters, conditions)?;
        lathe::tune::space(&def).map_err(Failure::bare)
    });
    let space = made.map_err(|f| errors::raised(py, &f))?;
    Ok((space.unconstrained().to_string(), space.size().to_string()))
}
