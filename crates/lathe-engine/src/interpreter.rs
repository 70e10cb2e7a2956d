//! The interpreter as an engine: the reference run, with its messages about faults.

use crate::checks::{CheckTable, check_table, element_type};
use crate::codes;
use crate::entry::Entry;
use crate::feature::{Capabilities, Form, Statement, Step, Through};
use crate::memory::Shape;
use crate::{Code, Engine, Object, Options, externals, needs, printed};
use lathe_abi::{Array, CheckKind, Runtime, status};
use lathe_diagnostics::Diagnostic;
use lathe_ir::interp::{self, ArrayValue, Globals, Order, Program};
use lathe_ir::text::print_module;
use lathe_ir::{Function, Mode, Module, Space};
use std::cell::Cell;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The engine `interpreter`. Its code is the tree as text.
pub struct Interpreter;

/// The first line of an object whose runs look for races: a comment of the tree.
const RACES: &str = "# races\n";

static CAPABILITIES: LazyLock<Capabilities> = LazyLock::new(|| {
    Capabilities::plain()
        .statements(Statement::ALL)
        .executors(&["vector", "inscan", "cpu", "team", "device", "node"])
        .executors(&["grid", "cluster", "block", "warp", "lane"])
        .spaces(&Space::ALL)
        .views(Through::ALL)
        .layouts(Step::ALL)
        .forms(&[
            Form::NestedVectors,
            Form::ThreadsInLanes,
            Form::LaneArray,
            Form::LaneArgument,
            Form::SharedElement,
            Form::Address,
            Form::External,
            Form::ExternalValue,
            Form::ExternalInLanes,
            Form::Recursion,
            Form::ArgumentLayout,
            Form::ArgumentView,
            Form::ParameterLayout,
            Form::BoolBits,
            Form::AtomicInLanes,
            Form::AtomicAggregate,
            Form::SpinWait,
            Form::InOrder,
        ])
});

impl Engine for Interpreter {
    fn name(&self) -> &'static str {
        "interpreter"
    }

    fn compiler(&self) -> String {
        "interpreter".to_string()
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn fingerprint(&self) -> Result<String, Diagnostic> {
        Ok("interpreter".to_string())
    }

    fn compile(&self, module: &Module, func: &Function, options: &Options) -> Result<Object, Diagnostic> {
        let table = check_table(module, func).map_err(needs::free_size)?;
        let mut module = module.clone();
        module.functions.insert(func.name.clone(), func.clone());
        Ok(Object {
            engine: self.name().to_string(),
            fingerprint: self.fingerprint()?,
            symbol: func.name.to_string(),
            checks: table.entries,
            bytes: format!("{}{}", if options.races { RACES } else { "" }, print_module(&module))
                .into_bytes(),
            times: Vec::new(),
        })
    }

    fn load(&self, object: &Object, func: &Function) -> Result<Box<dyn Code>, Diagnostic> {
        let refuse =
            |why: &str| Diagnostic::error(codes::OBJECT, format!("loading `{}`: {why}", object.symbol));
        let text = std::str::from_utf8(&object.bytes).map_err(|_| refuse("it is not text"))?;
        let mut module = printed::parse(text).map_err(|_| refuse("the text is not a tree"))?;
        let symbol = object.symbol.as_str();
        let read = module.functions.get(symbol).ok_or_else(|| refuse("it has no such function"))?;
        // The caller's has the places of its source.
        let func = if printed::same(read, func) { func.clone() } else { read.clone() };
        module.functions.insert(func.name.clone(), func.clone());
        let places = externals::with_places(&module);
        let program = Program::new(&places, &func, Order::Reference, text.starts_with(RACES))
            .map_err(printed::unplaced)?;
        let globals = Mutex::new(Globals::of(&module)?);
        let table = check_table(&module, &func).map_err(|d| printed::unplaced(needs::free_size(d)))?;
        let entry = Entry::of(&table, &func);
        Ok(Box::new(Loaded { program, globals, func, entry, table }))
    }
}

struct Loaded {
    program: Program,
    /// As the last call left them.
    globals: Mutex<Globals>,
    func: Function,
    entry: Entry,
    table: CheckTable,
}

impl Code for Loaded {
    unsafe fn call(&self, runtime: &Runtime, args: &[Array]) -> Result<i32, Diagnostic> {
        // SAFETY: the caller's promise.
        unsafe { self.run(runtime, args, None) }
    }

    unsafe fn call_asking(
        &self,
        runtime: &Runtime,
        args: &[Array],
        end: &dyn Fn() -> bool,
    ) -> Result<i32, Diagnostic> {
        let ended = Cell::new(false);
        let end = || {
            ended.set(ended.get() || end());
            ended.get()
        };
        // SAFETY: the caller's promise.
        let result = unsafe { self.run(runtime, args, Some(&end)) };
        if ended.get() { Ok(status::STOPPED) } else { result }
    }
}

impl Loaded {
    /// # Safety
    /// As [`Code::call`].
    unsafe fn run(
        &self,
        runtime: &Runtime,
        args: &[Array],
        end: Option<&dyn Fn() -> bool>,
    ) -> Result<i32, Diagnostic> {
        let params = &self.func.params;
        // SAFETY: the caller's promise: valid descriptors.
        let shapes: Vec<Shape> = args.iter().map(|a| unsafe { Shape::of(a) }).collect();
        let scalar = |at: usize| {
            // SAFETY: as above; this is called once types and ranks are known to be right.
            let bytes = unsafe { shapes[at].gather() };
            ArrayValue::from_bytes(element_type(&params[at].kind), &[], bytes)?.leaf(0, 0)
        };
        if let Err(failed) = self.entry.check(&shapes, &|at| Some(scalar(at)?.to_i64())) {
            return Ok(failed);
        }
        self.apart(&shapes)?;
        let mut values = Vec::new();
        for (p, s) in params.iter().zip(&shapes) {
            let shape: Vec<usize> = s.extents.iter().map(|n| *n as usize).collect();
            // SAFETY: as above; every element has the size of the parameter's type.
            let value = ArrayValue::from_bytes(element_type(&p.kind), &shape, unsafe { s.gather() });
            values.push(
                value.ok_or_else(|| Diagnostic::error(codes::DEFECT, "an argument of the wrong size"))?,
            );
        }
        let mut globals = self.globals.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = Cell::new(None);
        let outside = |name: &str, args: &mut [ArrayValue]| {
            let (place, number) = self.table.external(name)?;
            // SAFETY: the caller's promise: the table has what the checks name.
            if unsafe { externals::call(runtime, place, args) } == Some(status::OK) {
                return Some(Ok(()));
            }
            failed.set(Some(number));
            Some(Err(Diagnostic::error(codes::UNSUPPORTED, format!("the external function `{name}` failed"))))
        };
        let options = interp::Options::default();
        let ran = self.program.run_asking(&mut values, &mut globals, &options, end, Some(&outside));
        drop(globals);
        for ((p, s), v) in params.iter().zip(&shapes).zip(&values) {
            if p.mode != Mode::In && p.array().is_some() {
                // SAFETY: a written parameter, whose memory was lent for that.
                unsafe { s.scatter(v.bytes()) };
            }
        }
        match (ran, failed.get()) {
            (Ok(_), _) => Ok(status::OK),
            (Err(_), Some(number)) => Ok(number),
            (Err(f), None) => self.status(f),
        }
    }

    /// Refuses arguments that share memory, which parameters of one alias class may: every run has copies of its own.
    fn apart(&self, shapes: &[Shape]) -> Result<(), Diagnostic> {
        let params = &self.func.params;
        for (b, pb) in params.iter().enumerate() {
            for (a, pa) in params[..b].iter().enumerate() {
                let written = pa.mode != Mode::In || pb.mode != Mode::In;
                if written && pa.alias.is_some() && pa.alias == pb.alias && shapes[a].meets(&shapes[b]) {
                    let text =
                        format!("the interpreter copies `{}` and `{}` separately", pa.name(), pb.name());
                    let d =
                        Diagnostic::error(codes::UNSUPPORTED, format!("{text}, but they share memory here"));
                    return Err(d.help("use another engine for such arguments"));
                }
            }
        }
        Ok(())
    }

    /// A failure as the number that other engines return, where there is one.
    fn status(&self, f: interp::Failure) -> Result<i32, Diagnostic> {
        if f.diagnostic.code == interp::codes::DIVISION_BY_ZERO {
            return Ok(status::DIVISION_BY_ZERO);
        }
        let user = self.table.entries.iter().position(|c| match c {
            CheckKind::User { code, message } => {
                f.check.as_deref() == Some(code.as_str()) && f.diagnostic.message.contains(message.as_str())
            }
            _ => false,
        });
        match user {
            Some(at) => Ok(at as i32 + 1),
            None => Err(placed(f)),
        }
    }
}

/// The message of a failure. Of a function that is called, only the text is kept: its name says where that is.
fn placed(f: interp::Failure) -> Diagnostic {
    let d = printed::unplaced(*f.diagnostic);
    match f.function {
        Some(name) if d.marks.is_empty() => d.note(format!("in the function `{name}`")),
        _ => d,
    }
}
