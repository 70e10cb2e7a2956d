//! What a function uses, feature by feature, and which features an engine lacks: decided before any code is generated.
//!
//! The walk follows calls, since every engine inlines called functions.

use crate::checks::check_table;
use crate::codes;
use crate::feature::{Capabilities, Feature, Form, Statement, Through};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::lower::{self, Unsupported, storage};
use lathe_ir::stmt::{AccessMode, Effects, MemoryOrder};
use lathe_ir::{
    Access, Arg, BufId, Buffer, Executor, Expr, ExprKind, Function, Loop, Module, Name, ParamKind, Stmt,
    StmtKind, Type, VarId, View,
};
use lathe_poly::constant_trips;
use std::collections::HashSet;

/// The largest local buffer that every lane of a vector loop may have, all lanes together, in bytes.
pub const MOST_LANE_BYTES: u64 = 256 << 10;

/// A feature that a function uses, and the first place that does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub feature: Feature,
    /// In words: "loop `i`, run by `team`".
    pub construct: String,
    pub help: Option<String>,
    pub places: Places,
}

/// Every feature that a function uses, in the order of its text.
pub fn needs(module: &Module, func: &Function) -> Vec<Need> {
    let mut n = Needs {
        module,
        seen: HashSet::new(),
        found: Vec::new(),
        calls: Vec::new(),
        laid_out: HashSet::new(),
        lanes: None,
        parallel: false,
    };
    if let Err(free) = check_table(module, func) {
        n.note(Form::FreeSize, free.construct, free.help.as_deref(), &Places::none());
    }
    for b in func.params.iter().filter_map(|p| p.array()).filter(|b| !b.layout.is_row_major()) {
        let what = format!("the layout of the parameter `{}`", b.name);
        n.note(Form::ParameterLayout, what, Some("stage the parameter into a local buffer"), &Places::none());
    }
    n.function(func);
    n.found
}

/// What a function uses and an engine lacks.
pub fn missing(has: &Capabilities, module: &Module, func: &Function) -> Vec<Need> {
    needs(module, func).into_iter().filter(|n| !has.has(&n.feature)).collect()
}

/// Refuses a function that an engine does not take.
///
/// # Errors
/// `E0701` with the construct, its place, and what else is missing; `E0702` where all lanes of a vector loop would
/// write one element.
pub fn accept(engine: &str, has: &Capabilities, module: &Module, func: &Function) -> Result<(), Diagnostic> {
    let lacking = missing(has, module, func);
    let Some((first, others)) = lacking.split_first() else { return Ok(()) };
    let mut d = if first.feature == Feature::Form(Form::SharedElement) {
        Diagnostic::error(codes::LANES_COLLIDE, first.construct.clone())
            .at_places(&first.places, "the target does not depend on the vector loop")
    } else {
        let text = format!("the engine `{engine}` does not support {}", first.construct);
        Diagnostic::error(codes::UNSUPPORTED, text).at_places(&first.places, "here")
    };
    for o in others.iter().take(8) {
        d = d.note(format!("nor does it support {} ({})", o.construct, o.feature));
    }
    Err(match &first.help {
        Some(h) => d.help(h.clone()),
        None => d,
    })
}

/// The diagnostic of a size that no argument tells.
pub fn free_size(u: Unsupported) -> Diagnostic {
    let text = format!("no engine supports {}", u.construct);
    let d = Diagnostic::error(codes::UNSUPPORTED, text).at_places(&u.places, "here");
    match u.help {
        Some(h) => d.help(h),
        None => d,
    }
}

/// What differs between the lanes of the vector loop around.
#[derive(Clone, Debug, Default)]
struct Lanes {
    width: u64,
    vars: HashSet<VarId>,
    bufs: HashSet<BufId>,
    /// In a loop whose lanes combine in order: its own rules say what may be written.
    in_order: bool,
}

struct Needs<'a> {
    module: &'a Module,
    seen: HashSet<Feature>,
    found: Vec<Need>,
    /// Functions around, outermost first.
    calls: Vec<Name>,
    /// Local buffers with a layout.
    laid_out: HashSet<BufId>,
    lanes: Option<Lanes>,
    /// A loop around may run its iterations at once.
    parallel: bool,
}

impl Needs<'_> {
    fn add(&mut self, feature: Feature, construct: String, help: Option<&str>, places: &Places) {
        if self.seen.insert(feature.clone()) {
            self.found.push(Need {
                feature,
                construct,
                help: help.map(str::to_string),
                places: places.clone(),
            });
        }
    }

    fn note(&mut self, form: Form, construct: String, help: Option<&str>, places: &Places) {
        self.add(Feature::Form(form), construct, help, places);
    }

    fn function(&mut self, f: &Function) {
        for p in &f.params {
            match &p.kind {
                ParamKind::Scalar(b) => self.ty(&b.ty.into()),
                ParamKind::Array(b) => self.ty(&b.elem),
            }
        }
        self.calls.push(f.name.clone());
        self.stmt(&f.body);
        if let Some(result) = &f.result {
            self.expr(result, &Places::none());
        }
        self.calls.pop();
    }

    fn ty(&mut self, ty: &Type) {
        if ty.scalar().is_none() && !self.seen.contains(&Feature::Form(Form::Aggregate)) {
            self.note(Form::Aggregate, format!("the type `{ty}`"), None, &Places::none());
        }
        for s in ty.leaves() {
            if !self.seen.contains(&Feature::Type(s)) {
                self.add(Feature::Type(s), format!("the type `{s}`"), None, &Places::none());
            }
        }
    }

    fn stmt(&mut self, s: &Stmt) {
        let places = s.places();
        if let Some((f, what)) = Feature::of_statement(s.kind()).filter(|f| !self.seen.contains(&f.0)) {
            let help = match f {
                Feature::Statement(Statement::Compute) => Some("lower it to loops first (`open`)"),
                Feature::Statement(Statement::Call) => Some("inline the called function first"),
                _ => None,
            };
            self.add(f, what, help, places);
        }
        for e in s.evaluated() {
            self.expr(e, places);
        }
        for (touched, mode) in s.touches() {
            self.view(touched.view(), places);
            if let Some(a) =
                touched.element().filter(|_| mode.writes() && !matches!(mode, AccessMode::Atomic { .. }))
            {
                let label = s.label().map_or("", |l| l.as_str());
                self.write(a, label, places);
            }
        }
        if let Some((binder, value, _)) = s.as_let() {
            self.bind(binder.id, value);
        }
        if let Some(l) = s.as_loop() {
            return self.run(l, places);
        }
        if let Some(b) = s.allocated() {
            self.alloc(b, places);
        }
        self.atomic(s);
        if let StmtKind::Call { function, args } = s.kind() {
            self.call(function, args, places);
        }
        s.children().for_each(|c| self.stmt(c));
    }

    fn atomic(&mut self, s: &Stmt) {
        let places = s.places();
        if let StmtKind::While { .. } = s.kind()
            && self.parallel
            && s.effects().contains(Effects::ATOMIC)
        {
            let what = "a `while` around an atomic in a parallel loop".to_string();
            let help = "iterations that wait for one another must all run concurrently";
            self.note(Form::SpinWait, what, Some(help), places);
        }
        let StmtKind::Atomic(a) = s.kind() else { return };
        if let Some(l) = &mut self.lanes {
            l.vars.extend(a.old.as_ref().map(|b| b.id));
            let what = format!("the atomic `{}` in a vector loop", a.label);
            self.note(Form::AtomicInLanes, what, Some("vectorize another loop"), places);
        }
        if self.parallel && a.order == MemoryOrder::InOrder {
            let what = format!("the update `{}` in the order of the iterations of a parallel loop", a.label);
            let help = "iterations that started must go on while later ones wait for them";
            self.note(Form::InOrder, what, Some(help), places);
        }
        if a.target.elem.scalar().is_none() {
            let what = format!("the atomic `{}` on elements of several scalars", a.label);
            self.note(Form::AtomicAggregate, what, None, places);
        }
    }

    /// A variable takes a value, which may differ between lanes.
    fn bind(&mut self, id: VarId, value: &Expr) {
        if self.varies(value)
            && let Some(l) = &mut self.lanes
        {
            l.vars.insert(id);
        }
    }

    fn varies(&self, e: &Expr) -> bool {
        let Some(l) = &self.lanes else { return false };
        let mut hit = false;
        lathe_ir::visit::walk_expr(e, &mut |x| {
            hit |= match x.kind() {
                ExprKind::Var(v) => l.vars.contains(v),
                ExprKind::Load(a) => a.view.buffer().is_some_and(|b| l.bufs.contains(&b)),
                _ => false,
            };
        });
        hit
    }

    /// Whether an access differs between lanes.
    fn reaches(&self, a: &Access) -> bool {
        let mut differs = false;
        a.for_each_expr(&mut |e| differs |= self.varies(e));
        differs
    }

    fn run(&mut self, l: &Loop, places: &Places) {
        let name = &l.binder.name;
        let exec = Feature::of_executor(&l.exec);
        if let Feature::Executor(by) = &exec
            && !self.seen.contains(&exec)
        {
            let what = format!("loop `{name}`, run by `{by}`");
            self.add(exec, what, Some("CPUs run `cpu`, `vector` and `serial` loops, devices `grid` and `block` (`--device cuda`)"), places);
        }
        let outside = self.parallel;
        self.parallel |= !l.exec.is_ordered();
        self.body(l, places);
        self.parallel = outside;
    }

    fn body(&mut self, l: &Loop, places: &Places) {
        let name = &l.binder.name;
        let width = match l.exec {
            Executor::Vector(w) if w > 1 => w,
            Executor::InScan(w) => w,
            _ => {
                if l.exec == Executor::Cpu && self.lanes.is_some() {
                    let what = format!("loop `{name}` on `cpu` inside a vector loop");
                    self.note(Form::ThreadsInLanes, what, None, places);
                }
                if self.varies(&l.lo)
                    && let Some(lanes) = &mut self.lanes
                {
                    lanes.vars.insert(l.binder.id);
                }
                return self.stmt(&l.body);
            }
        };
        if self.lanes.is_some() {
            let what = format!("vector loop `{name}` inside another vector loop");
            self.note(Form::NestedVectors, what, Some("vectorize one of the two"), places);
        }
        let in_order = matches!(l.exec, Executor::InScan(_));
        if in_order {
            if let Err(why) = lower::in_order(l, width) {
                let what = format!("loop `{name}`, whose lanes combine in order: {why}");
                self.note(Form::FreeScan, what, None, places);
            }
        } else if let Some(n) = constant_trips(l).filter(|n| *n > i64::from(width)) {
            let what = format!("loop `{name}` of {n} iterations on {width} lanes");
            self.note(Form::WideVector, what, Some("split the loop by the number of lanes first"), places);
        }
        let inside = Lanes {
            width: u64::from(width),
            vars: HashSet::from([l.binder.id]),
            bufs: HashSet::new(),
            in_order,
        };
        let outside = self.lanes.replace(inside);
        self.stmt(&l.body);
        self.lanes = outside;
    }

    fn alloc(&mut self, b: &Buffer, places: &Places) {
        self.ty(&b.elem);
        let space = Feature::Space(b.space);
        if !self.seen.contains(&space) {
            let what = format!("buffer `{}` in the space `{}`", b.name, b.space.name());
            self.add(space, what, Some("CPUs have `host`, `stack` and `register`"), places);
        }
        if !b.layout.is_row_major() {
            self.laid_out.insert(b.id);
        }
        for step in &b.layout.steps {
            let f = Feature::of_layout(step);
            if !self.seen.contains(&f) {
                let what = format!("a step of the layout of `{}`", b.name);
                self.add(f, what, None, places);
            }
        }
        let Some(lanes) = &mut self.lanes else { return };
        lanes.bufs.insert(b.id);
        let width = lanes.width;
        let count = storage(b)
            .ok()
            .and_then(|s| s.extents.iter().try_fold(width, |n, x| n.checked_mul(x.as_int()?.max(0) as u64)));
        let bytes = count.and_then(|n| n.checked_mul(b.elem.bytes()));
        if bytes.is_none_or(|n| n > MOST_LANE_BYTES) {
            let what = format!("buffer `{}` of unknown or large size inside a vector loop", b.name);
            let help = "allocate it outside of the loop, with one more dimension";
            self.note(Form::LaneArray, what, Some(help), places);
        }
    }

    fn write(&mut self, a: &Access, label: &str, places: &Places) {
        let Some(l) = self.lanes.as_ref().filter(|l| !l.in_order) else { return };
        let own = a.view.buffer().is_some_and(|b| l.bufs.contains(&b));
        if !own && !self.reaches(a) {
            let what = format!("all lanes of a vector loop would write one element in `{label}`");
            let help = "split the reduction into one partial result per lane first (`factor`), or vectorize \
                        another loop";
            self.note(Form::SharedElement, what, Some(help), places);
        }
    }

    fn view(&mut self, v: &View, places: &Places) {
        let (through, base, what) = match v {
            View::Buffer(_) => return,
            View::Slice { base, .. } => (Through::Slice, Some(base), "a slice"),
            View::Reshape { base, .. } => (Through::Reshape, Some(base), "a reshape"),
            View::Reinterpret { base, .. } => {
                (Through::Reinterpret, Some(base), "memory reinterpreted as another type")
            }
            View::Deref { .. } => (Through::Deref, None, "an access through a pointer"),
            View::Global(name) => (Through::Global, None, &*format!("the global `{name}`")),
        };
        self.add(Feature::View(through), what.to_string(), None, places);
        if let Some(base) = base {
            self.view(base, places);
        }
    }

    fn expr(&mut self, e: &Expr, places: &Places) {
        let mut calls = Vec::new();
        lathe_ir::visit::walk_expr(e, &mut |x| {
            self.ty(x.ty());
            match x.kind() {
                ExprKind::Load(a) => self.view(&a.view, places),
                ExprKind::Address(a) => {
                    self.view(&a.view, places);
                    self.note(Form::Address, "the address of an element".to_string(), None, places);
                }
                ExprKind::Bitcast(a) if x.ty().is_bool() || a.ty().is_bool() => {
                    self.note(Form::BoolBits, "a bitcast from or to `bool`".to_string(), None, places);
                }
                ExprKind::Call(name, args) => calls.push((name.clone(), args.clone())),
                _ => {}
            }
        });
        for (name, args) in calls {
            if !self.module.functions.contains_key(&name) {
                let what = format!("the value of the external function `{name}`");
                let help =
                    "a statement may call it: declare a parameter `out`, rank 0, in place of the result";
                self.note(Form::ExternalValue, what, Some(help), places);
                continue;
            }
            let args: Vec<Arg> = args.into_iter().map(Arg::Value).collect();
            self.call(&name, &args, places);
        }
    }

    fn call(&mut self, name: &Name, args: &[Arg], places: &Places) {
        self.add(
            Feature::Statement(Statement::Call),
            format!("a call of `{name}`"),
            Some("inline the called function first"),
            places,
        );
        let module = self.module;
        let Some(f) = module.functions.get(name) else {
            return self.external(name, args, places);
        };
        if self.calls.contains(name) {
            let what = format!("the recursive function `{name}`");
            return self.note(Form::Recursion, what, None, places);
        }
        let mut told = HashSet::new();
        let (mut vars, mut bufs) = (HashSet::new(), HashSet::new());
        for (p, a) in f.params.iter().zip(args) {
            match (&p.kind, a) {
                (ParamKind::Scalar(b), Arg::Value(x)) if self.varies(x) => {
                    vars.insert(b.id);
                }
                (ParamKind::Array(b), Arg::Value(x)) if self.varies(x) => {
                    bufs.insert(b.id);
                }
                (ParamKind::Array(b), Arg::View(v)) => {
                    self.argument(v, places);
                    if matches!(v, View::Buffer(_)) {
                        told.extend(b.extents.iter().filter_map(Expr::as_var));
                    }
                }
                _ => {}
            }
        }
        if let Some(size) = f.sizes.iter().find(|s| !told.contains(&s.id)) {
            let what = format!("the call of `{name}`, which does not determine its size `{}`", size.name);
            self.note(Form::FreeCallSize, what, Some("inline the called function first"), places);
        }
        // The called function's identities are its own.
        let outside = self.lanes.clone();
        if let Some(l) = &mut self.lanes {
            (l.vars, l.bufs) = (vars, bufs);
        }
        let laid_out = std::mem::take(&mut self.laid_out);
        self.function(f);
        self.laid_out = laid_out;
        self.lanes = outside;
    }

    fn external(&mut self, name: &Name, args: &[Arg], places: &Places) {
        let what = format!("the external function `{name}`");
        let help =
            "devices, and code without it, run `meaning f`, a function of the module with the same meaning";
        self.note(Form::External, what, Some(help), places);
        if self.lanes.is_some() {
            let what = format!("the external function `{name}` in a vector loop");
            self.note(Form::ExternalInLanes, what, Some("vectorize another loop"), places);
        }
        let Some(x) = self.module.externals.get(name) else { return };
        let mut told = HashSet::new();
        for (p, a) in x.params.iter().zip(args) {
            if let ParamKind::Array(b) = &p.kind {
                self.ty(&b.elem);
                if let Arg::View(v) = a {
                    self.argument(v, places);
                    told.extend(
                        b.extents.iter().filter_map(Expr::as_var).filter(|_| v.as_buffer().is_some()),
                    );
                }
            }
        }
        if let Some(size) = x.sizes.iter().find(|s| !told.contains(&s.id)) {
            let what = format!("the call of `{name}`, which does not determine its size `{}`", size.name);
            self.note(Form::FreeCallSize, what, Some("pass a whole array that has it as an extent"), places);
        }
    }

    fn argument(&mut self, v: &View, places: &Places) {
        const HELP: Option<&str> = Some("inline the called function first");
        match v {
            View::Buffer(id) => {
                if self.lanes.as_ref().is_some_and(|l| l.bufs.contains(id)) {
                    let what = "a buffer of a vector loop as an argument".to_string();
                    self.note(Form::LaneArgument, what, HELP, places);
                }
                if self.laid_out.contains(id) {
                    let what = "a buffer with a layout as an argument".to_string();
                    self.note(Form::ArgumentLayout, what, HELP, places);
                }
            }
            View::Slice { base, offsets, .. } => {
                if offsets.iter().any(|o| self.varies(o)) {
                    let what = "the start of a slice that differs between the lanes of a vector loop";
                    self.note(Form::LaneArgument, what.to_string(), HELP, places);
                }
                self.argument(base, places);
            }
            _ => self.note(Form::ArgumentView, "this view as an argument".to_string(), HELP, places),
        }
    }
}
