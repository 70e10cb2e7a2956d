//! The interpreter: what a tree means, and the oracle of everything that rewrites or compiles one.
//!
//! A function is compiled to a register machine ([`Program`]) and run on [`ArrayValue`]s. Statements
//! of different iterations are ordered as the executors say; the reference order takes iterations in
//! order, and a seed picks any other legal order. On request a run looks for races and counts
//! operations. Layouts are ignored, buffers are logical; only a run that looks for races knows which iterations hold
//! the elements of a distributed array.

mod array;
mod calls;
mod code;
pub mod codes;
mod compile;
mod compile_compute;
mod compile_expr;
mod exec;
mod failure;
mod globals;
mod groups;
mod machine;
mod memory;
mod race;
mod schedule;
mod shapes;
mod turns;

pub use array::{ArrayValue, element_count, leaf_offsets};
pub use failure::Failure;
pub use globals::Globals;
pub use shapes::{evaluate, outputs, sizes_from_shapes};

use crate::func::{Function, Mode, ParamKind};
use crate::module::Module;
use compile::{Compiled, Flavour};
use lathe_diagnostics::Diagnostic;
use machine::Machine;
use memory::Heap;
use std::collections::HashMap;

/// The order in which unordered iterations, and asynchronous bodies, run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// Iterations in order, asynchronous bodies where they are; switches only at barriers and waits.
    #[default]
    Reference,
    /// Some other legal order, the same for the same seed.
    Seed(u64),
}

#[derive(Clone, Debug)]
pub struct Options {
    pub order: Order,
    /// Fail with E0410 if two conflicting accesses are ordered by nothing, and with E0418 if an iteration accesses an
    /// element of a distributed array that another one holds.
    pub races: bool,
    pub count: bool,
    /// Iterations of loops that the run may take.
    pub max_steps: Option<u64>,
    /// Bytes that local buffers (with what tells their undefined cells) may take at one time.
    pub max_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { order: Order::Reference, races: false, count: false, max_steps: None, max_bytes: 4 << 30 }
    }
}

/// What a run executed. Expressions that are shared, or equal, within one statement count once;
/// math functions count as what they expand to; accesses to `register` buffers do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Float additions, subtractions, multiplications, divisions, roots, minima and maxima; an FMA
    /// counts 2.
    pub flops: u64,
    /// Integer arithmetic, that of subscripts included.
    pub int_ops: u64,
    /// Elements.
    pub loads: u64,
    pub stores: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// All zero unless [`Options::count`] was set.
    pub counts: Counts,
}

/// What runs in place of a function of the module: by its name, on the arguments of a call, scalars without extents among
/// them. `None` if nothing does. What it writes to arrays that the function declares to write is kept.
pub type Outside<'a> = dyn Fn(&str, &mut [ArrayValue]) -> Option<Result<(), Diagnostic>> + 'a;

/// A function compiled for runs with one order and with or without the detection of races.
#[derive(Clone, Debug)]
pub struct Program {
    compiled: Compiled,
    flavour: Flavour,
}

impl Program {
    /// Compiles a function and what it calls; fails with E0413 (or E0411) on trees that cannot run.
    pub fn new(module: &Module, func: &Function, order: Order, races: bool) -> Result<Program, Diagnostic> {
        let flavour = Flavour { order, races };
        Ok(Program { compiled: compile::compile(module, func, flavour)?, flavour })
    }

    /// Runs the function; see [`run`]. `order` and `races` are those that it was compiled for, save
    /// that one seed may be exchanged for another. Globals hold what they are declared with.
    pub fn run(&self, args: &mut [ArrayValue], options: &Options) -> Result<Outcome, Failure> {
        self.run_with(args, &mut self.compiled.globals.clone(), options)
    }

    /// As [`Program::run`]; globals hold what `globals` has for them, which holds afterwards what the run left there.
    pub fn run_with(
        &self,
        args: &mut [ArrayValue],
        globals: &mut Globals,
        options: &Options,
    ) -> Result<Outcome, Failure> {
        self.run_asking(args, globals, options, None, None)
    }

    /// As [`Program::run_with`]; `end` is asked every few thousand steps whether the run is to end, which then fails;
    /// `outside` runs what functions of the module stand for.
    pub fn run_asking(
        &self,
        args: &mut [ArrayValue],
        globals: &mut Globals,
        options: &Options,
        end: Option<&dyn Fn() -> bool>,
        outside: Option<&Outside>,
    ) -> Result<Outcome, Failure> {
        let func = &self.compiled.functions[0];
        let sizes = sizes_from_shapes(func, args)?;
        let seed = match (self.flavour.order, options.order) {
            (Order::Seed(_), Order::Seed(s)) | (Order::Seed(s), Order::Reference) => s,
            _ => 0,
        };
        let mut machine = Machine {
            compiled: &self.compiled,
            heap: Heap::new(options.max_bytes, self.flavour.races),
            counts: Counts::default(),
            count: options.count,
            steps: exec::Steps::new(options.max_steps.unwrap_or(u64::MAX), end),
            races: self.flavour.races.then(race::Order::default),
            order: self.flavour.order,
            random: seed,
            tasks: Vec::new(),
            free_tasks: Vec::new(),
            ready: Vec::new(),
            groups: Vec::new(),
            tokens: Vec::new(),
            free_tokens: Vec::new(),
            bodies: Vec::new(),
            globals: HashMap::new(),
            current: None,
            outside,
        };
        let (mut scalars, mut arrays, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let mut kept = Vec::new();
        for (name, g) in &mut globals.0 {
            let extents: Vec<i64> = g.value.shape.iter().map(|e| *e as i64).collect();
            let elem = g.value.ty.clone();
            let d = machine.heap.adopt(name, &elem, &extents, g.space, g.value.take_parts());
            machine.heap.cells[d.heap as usize].class = g.class.clone();
            kept.push(d.heap);
            machine.globals.insert(name.clone(), d);
        }
        for (p, a) in func.params.iter().zip(args.iter_mut()) {
            match &p.kind {
                ParamKind::Scalar(_) => scalars.push(a.leaf(0, 0).map_or(0, |v| v.bits)),
                ParamKind::Array(b) => {
                    if p.mode == Mode::Out {
                        a.forget_values();
                    }
                    let extents: Vec<i64> = a.shape.iter().map(|e| *e as i64).collect();
                    let d = machine.heap.adopt(&b.name, &b.elem, &extents, b.space, a.take_parts());
                    machine.heap.cells[d.heap as usize].class = p.alias.clone();
                    places.push(d.heap);
                    arrays.push(d);
                }
            }
        }
        let root = machine.root(&sizes, &scalars, &arrays);
        let result = machine.run(root);
        let back = args.iter_mut().zip(&func.params).filter(|(_, p)| p.array().is_some());
        for ((a, _), heap) in back.zip(&places) {
            let cells = &mut machine.heap.cells[*heap as usize];
            a.put_parts(std::mem::take(&mut cells.data), std::mem::take(&mut cells.shadow));
        }
        for (g, heap) in globals.0.values_mut().zip(&kept) {
            let cells = &mut machine.heap.cells[*heap as usize];
            g.value.put_parts(std::mem::take(&mut cells.data), std::mem::take(&mut cells.shadow));
        }
        result?;
        Ok(Outcome { counts: machine.counts })
    }
}

/// Runs a function on its arguments, one per parameter; `out` arrays are given with the right shape
/// (see [`outputs`]), and what they hold is forgotten. After a failure the arrays hold what was
/// written until then.
pub fn run(
    module: &Module,
    func: &Function,
    args: &mut [ArrayValue],
    options: &Options,
) -> Result<Outcome, Failure> {
    Program::new(module, func, options.order, options.races)?.run(args, options)
}

/// E0416 for the first output that has elements which were never written.
pub fn unwritten(func: &Function, args: &[ArrayValue]) -> Result<(), Diagnostic> {
    for (p, a) in func.params.iter().zip(args).filter(|(p, _)| p.mode != Mode::In) {
        let mut missing = (0..a.len()).filter(|i| !a.is_defined(*i));
        if let Some(first) = missing.next() {
            let index: Vec<String> = a.index_of(first).iter().map(usize::to_string).collect();
            let message = format!("output `{}[{}]` is never written", p.name(), index.join(", "));
            let more = missing.count();
            let d = Diagnostic::error(codes::UNWRITTEN, message)
                .help("make it `inout`, or write a default first");
            return Err(if more > 0 { d.note(format!("and {more} more of its elements")) } else { d });
        }
    }
    Ok(())
}
