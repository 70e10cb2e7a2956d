//! Activity analysis: data flow between arrays.
//!
//! An array *varies* if a value in it depends on an input that is differentiated by; it is *useful* if an output that
//! is differentiated depends on it; it is *active* if both. Nothing is computed for what is not active. Dependence is
//! that of values: a comparison chooses, so what is chosen by it does not depend on it. A subscript chooses, too, but
//! a conversion of a float to an integer, `floor`, `round` and their like are *steps*: their derivative is 0 almost
//! everywhere and says nothing. Where an output depends on an input through one, by value or by a subscript,
//! differentiation is refused.

use crate::codes::{self, refuse};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::stmt::{AccessMode, Arg};
use lathe_ir::visit;
use lathe_ir::{
    Access, BufId, Expr, ExprKind, Function, MathFn, Mode, Module, Name, Param, ParamKind, ReduceOp, Scalar,
    Stmt, StmtKind, VarId,
};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

/// What holds a value: a buffer, or a scalar input or `let`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    Buffer(BufId),
    Var(VarId),
}

/// How a value depends on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Flow {
    Smooth,
    /// Through a step, or by way of a subscript.
    Step,
}

/// `to` depends on `from`.
struct Edge {
    from: Place,
    to: Place,
    flow: Flow,
    /// What the step is, where it is one of the operations that the text writes.
    step: Option<String>,
    places: Places,
}

/// Which arrays and scalars are active.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    active: HashSet<Place>,
}

impl Activity {
    pub fn of_buffer(&self, b: BufId) -> bool {
        self.active.contains(&Place::Buffer(b))
    }

    pub fn of_var(&self, v: VarId) -> bool {
        self.active.contains(&Place::Var(v))
    }

    /// Whether the element that an access names is active.
    pub fn of_access(&self, a: &Access) -> bool {
        a.view.buffer().is_some_and(|b| self.of_buffer(b))
    }
}

/// The activity of a function.
///
/// # Errors
/// `E1301` for a dependence through a step, unless these are allowed; `E1302` for active values that have no shadow.
pub fn activity(
    module: &Module,
    func: &Function,
    wrt: &[String],
    of: &[String],
    allow_steps: bool,
) -> Result<Activity, Diagnostic> {
    let mut flow = Flows { module, edges: Vec::new(), names: HashMap::new(), types: HashMap::new() };
    let mut places: HashMap<&str, Place> = HashMap::new();
    for p in &func.params {
        let place = match &p.kind {
            ParamKind::Array(b) => {
                flow.types.insert(Place::Buffer(b.id), b.elem.is_float());
                Place::Buffer(b.id)
            }
            ParamKind::Scalar(b) => {
                flow.types.insert(Place::Var(b.id), b.ty.is_float());
                Place::Var(b.id)
            }
        };
        flow.names.insert(place, p.name().clone());
        places.insert(p.name(), place);
    }
    flow.stmt(&func.body);
    let named =
        |names: &[String]| names.iter().filter_map(|n| places.get(n.as_str()).copied()).collect::<Vec<_>>();
    let (inputs, outputs) = (named(wrt), named(of));
    let varied = flow.reach(&inputs, |e| (e.flow == Flow::Smooth).then_some((e.from, e.to)));
    let useful = flow.reach(&outputs, |e| (e.flow == Flow::Smooth).then_some((e.to, e.from)));
    if !allow_steps {
        flow.steps(&varied, &outputs)?;
    }
    let active: HashSet<Place> = varied.intersection(&useful).copied().collect();
    for e in &flow.edges {
        for p in [e.from, e.to] {
            if active.contains(&p) && !flow.types.get(&p).copied().unwrap_or(true) {
                let name = flow.names.get(&p).cloned().unwrap_or_default();
                let text = format!("`{name}` holds structs, which are not differentiated yet");
                return Err(refuse(codes::UNSUPPORTED, text, &e.places)
                    .help("keep each field in an array of its own, or leave the input out of `wrt`"));
            }
        }
    }
    Ok(Activity { active })
}

struct Flows<'m> {
    module: &'m Module,
    edges: Vec<Edge>,
    names: HashMap<Place, Name>,
    /// Whether elements are scalar floats; integers hold no derivative, which is for [`Flows::value`] to see.
    types: HashMap<Place, bool>,
}

/// What a value depends on.
type Sources = Vec<(Place, Flow, Option<String>)>;

impl Flows<'_> {
    fn stmt(&mut self, s: &Stmt) {
        for (b, _) in s.binders() {
            self.names.insert(Place::Var(b.id), b.name.clone());
            self.types.insert(Place::Var(b.id), b.ty.is_float());
        }
        if let Some(b) = s.allocated() {
            self.names.insert(Place::Buffer(b.id), b.name.clone());
            self.types.insert(Place::Buffer(b.id), b.elem.is_float());
        }
        self.own(s);
        s.children().for_each(|c| self.stmt(c));
    }

    /// The dependences that the statement itself creates.
    fn own(&mut self, s: &Stmt) {
        if let Some((binder, value, _)) = s.as_let() {
            let sources = self.sources(value);
            self.add(Place::Var(binder.id), sources, s.places());
            return;
        }
        if let Some(st) = s.as_store() {
            return self.write(&st.target, std::slice::from_ref(&st.value), s.places());
        }
        let (op, targets, values) = if let Some(r) = s.as_reduce() {
            (Some(&r.op), &r.targets, &r.values)
        } else if let Some(c) = s.as_compute() {
            let by_dims = c.dims.iter().find_map(|d| match &d.combine {
                lathe_ir::Combine::Concat => None,
                lathe_ir::Combine::Reduce(op) | lathe_ir::Combine::Scan(op) => Some(op),
            });
            (by_dims.or(c.update.as_ref()), &c.targets, &c.values)
        } else {
            return self.anything(s);
        };
        match op {
            Some(ReduceOp::ArgMin | ReduceOp::ArgMax) if targets.len() == values.len() => {
                // The index was chosen by comparisons.
                self.write(&targets[0], &values[..1], s.places());
            }
            Some(op @ ReduceOp::User(_)) => {
                // What the operator itself does to its operands counts, too.
                let loads: Vec<Expr> = targets.iter().cloned().map(lathe_ir::build::load).collect();
                let combined =
                    crate::parts::combined(self.module, op, &loads, values).unwrap_or_else(|| values.clone());
                targets.iter().for_each(|t| self.write(t, &combined, s.places()));
            }
            _ if targets.len() == values.len() => {
                for (t, v) in targets.iter().zip(values) {
                    self.write(t, std::slice::from_ref(v), s.places());
                }
            }
            _ => targets.iter().for_each(|t| self.write(t, values, s.places())),
        }
    }

    /// A general statement: what it may write depends on everything that it evaluates.
    fn anything(&mut self, s: &Stmt) {
        if let StmtKind::Call { function, args } = s.kind()
            && let Some(callee) = self.module.callee(function)
        {
            return self.call(callee.params, args, s);
        }
        let written: Vec<BufId> =
            s.touches().into_iter().filter(|t| t.1.writes()).filter_map(|t| t.0.buffer()).collect();
        let mut sources: Sources = s.exprs().iter().flat_map(|e| self.sources(e)).collect();
        let read = s.touches().into_iter().filter(|t| t.1.reads() && !matches!(t.1, AccessMode::Prefetch));
        sources.extend(read.filter_map(|t| t.0.buffer()).map(|b| (Place::Buffer(b), Flow::Smooth, None)));
        for b in written {
            self.add(Place::Buffer(b), sources.clone(), s.places());
        }
    }

    /// A call: every output may depend on every input.
    fn call(&mut self, params: &[Param], args: &[Arg], s: &Stmt) {
        let mut sources: Sources = s.exprs().iter().flat_map(|e| self.sources(e)).collect();
        let views = || {
            let all = params.iter().zip(args).filter_map(|(p, a)| match a {
                Arg::View(v) => Some((p, v.buffer()?)),
                Arg::Value(_) => None,
            });
            all.collect::<Vec<_>>()
        };
        let read = views().into_iter().filter(|(p, _)| p.mode != Mode::Out);
        sources.extend(read.map(|(_, b)| (Place::Buffer(b), Flow::Smooth, None)));
        for (p, b) in views().into_iter().filter(|(p, _)| p.mode != Mode::In) {
            let sources = match p.array().is_some_and(|b| b.elem.is_float()) {
                true => sources.clone(),
                // Integers that depend on floats do so in steps.
                false => {
                    let step = Some("a call".to_string());
                    sources.iter().map(|(p, _, _)| (*p, Flow::Step, step.clone())).collect()
                }
            };
            self.add(Place::Buffer(b), sources, s.places());
        }
    }

    fn write(&mut self, target: &Access, values: &[Expr], places: &Places) {
        let Some(buffer) = target.view.buffer() else { return };
        let mut sources: Sources = values.iter().flat_map(|v| self.sources(v)).collect();
        for e in target.exprs() {
            let subscript = self.sources(e).into_iter().map(|(p, _, step)| (p, Flow::Step, step));
            sources.extend(subscript.collect::<Vec<_>>());
        }
        self.add(Place::Buffer(buffer), sources, places);
    }

    fn add(&mut self, to: Place, sources: Sources, places: &Places) {
        for (from, flow, step) in sources {
            self.edges.push(Edge { from, to, flow, step, places: places.clone() });
        }
    }

    fn sources(&self, e: &Expr) -> Sources {
        let mut out = Vec::new();
        self.value(e, Flow::Smooth, None, &mut out, &mut HashSet::new());
        out
    }

    fn value(
        &self,
        e: &Expr,
        flow: Flow,
        step: Option<&str>,
        out: &mut Sources,
        seen: &mut HashSet<(usize, Flow)>,
    ) {
        if !seen.insert((e.address(), flow)) {
            return;
        }
        let found = |p| (p, flow, step.map(str::to_string));
        match e.kind() {
            ExprKind::Var(v) => out.push(found(Place::Var(*v))),
            ExprKind::Load(a) => {
                out.extend(a.view.buffer().map(|b| found(Place::Buffer(b))));
                for x in a.exprs() {
                    self.value(x, Flow::Step, step, out, seen);
                }
            }
            ExprKind::Select(_, a, b) => {
                self.value(a, flow, step, out, seen);
                self.value(b, flow, step, out, seen);
            }
            ExprKind::Binary(op, ..) if op.is_comparison() => {}
            ExprKind::Cast(a) => {
                let number = |s: Option<Scalar>| s.is_some_and(Scalar::is_float);
                if e.ty().is_bool() {
                    // `!= 0`: a comparison.
                } else if number(a.ty().scalar()) && !number(e.ty().scalar()) {
                    self.value(a, Flow::Step, Some("a conversion to an integer"), out, seen);
                } else {
                    self.value(a, flow, step, out, seen);
                }
            }
            ExprKind::Bitcast(a) => self.value(a, Flow::Step, Some("a cast of bits"), out, seen),
            ExprKind::Math(f, es) if is_step(*f) => {
                es.iter().for_each(|x| self.value(x, Flow::Step, Some(f.name()), out, seen));
            }
            _ => e.children().into_iter().for_each(|x| self.value(x, flow, step, out, seen)),
        }
    }

    /// All places that edges lead to from some, by the direction that `along` says.
    fn reach(&self, from: &[Place], along: impl Fn(&Edge) -> Option<(Place, Place)>) -> HashSet<Place> {
        let mut next: HashMap<Place, Vec<Place>> = HashMap::new();
        for (a, b) in self.edges.iter().filter_map(along) {
            next.entry(a).or_default().push(b);
        }
        let mut seen: HashSet<Place> = from.iter().copied().collect();
        let mut queue: VecDeque<Place> = from.iter().copied().collect();
        while let Some(p) = queue.pop_front() {
            for q in next.get(&p).into_iter().flatten() {
                if seen.insert(*q) {
                    queue.push_back(*q);
                }
            }
        }
        seen
    }

    /// Refuses a step function on a path from a varying place to an output.
    fn steps(&self, varied: &HashSet<Place>, outputs: &[Place]) -> Result<(), Diagnostic> {
        let useful = self.reach(outputs, |e| Some((e.to, e.from)));
        for e in self.edges.iter().filter(|e| e.flow == Flow::Step) {
            let Some(step) = &e.step else { continue };
            if !varied.contains(&e.from) || !useful.contains(&e.to) {
                continue;
            }
            let name = |p: &Place| self.names.get(p).map_or("?".to_string(), ToString::to_string);
            let mut path = self.path(e.to, outputs);
            path.insert(0, e.from);
            let path: Vec<String> = path.iter().map(name).collect();
            let text =
                format!("`{}` depends on an input through {step}, which has no derivative", name(&e.to));
            return Err(refuse(codes::STEP, text, &e.places)
                .note(format!("from input to output: {}", path.join(" → ")))
                .help("treat steps as locally constant, or exclude the input or the output"));
        }
        Ok(())
    }

    /// A shortest path from a place to an output.
    fn path(&self, from: Place, to: &[Place]) -> Vec<Place> {
        let mut before: HashMap<Place, Place> = HashMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(p) = queue.pop_front() {
            if to.contains(&p) {
                let mut path = vec![p];
                while let Some(q) =
                    before.get(path.last().unwrap_or(&p)).filter(|_| path.last() != Some(&from))
                {
                    path.push(*q);
                }
                path.reverse();
                return path;
            }
            for e in self.edges.iter().filter(|e| e.from == p && e.to != from) {
                if let Entry::Vacant(new) = before.entry(e.to) {
                    new.insert(p);
                    queue.push_back(e.to);
                }
            }
        }
        vec![from]
    }
}

/// Functions that are constant between jumps.
pub fn is_step(f: MathFn) -> bool {
    matches!(f, MathFn::Floor | MathFn::Ceil | MathFn::Round | MathFn::Trunc)
}

/// Whether a statement or what it holds reads or writes an active element.
pub fn touches_active(s: &Stmt, act: &Activity) -> bool {
    let mut found = false;
    visit::walk(s, &mut |s, _| {
        found |= s.touches().iter().any(|t| t.0.buffer().is_some_and(|b| act.of_buffer(b)));
        !found
    });
    found
}
