//! Cycles that instructions take: throughput of arithmetic, loads and stores, and the latency of recurrences.
//!
//! The unit is a loop that is not unrolled, without the loops in it. The instructions of one iteration,
//! with unrolled loops and lanes, are a multiset in which equal loads count once; loop-carried recurrences are
//! a lower bound.

mod recurrences;

use crate::accesses::{Along, Known, Place, copies, loads, reads_its_own};
use crate::count::Values;
use crate::trips::{UNKNOWN_TRIPS, bounds, decides, typical, typical_of};
use lathe_ir::interp::evaluate;
use lathe_ir::stmt::Establishes;
use lathe_ir::visit::{self, leaves_lanes};
use lathe_ir::{
    Access, BinOp, BufId, Executor, Expr, ExprKind, Loop, MathFn, Reduce, ReduceOp, Space, Stmt, StmtKind,
    Type, VarId, reduce,
};
use lathe_target::{Costs, Machine, Masks};
use std::collections::HashMap;

/// Instructions that a core looks ahead.
const WINDOW: f64 = 512.0;
/// Instructions for each lane of a vector whose elements lie apart in memory, beside its load or store: three insert four elements
/// of 64 bits into a vector of AVX2, two take them out.
const MOVED: f64 = 0.6;

/// Cycles of a branch that goes on, and of one that jumps.
const BRANCHES: [f64; 2] = [0.5, 1.5];

/// Every loop around.
const ALL_LEVELS: u64 = u64::MAX;

/// The bit of a loop by its position in the path; those further in than any tree is deep share one.
fn bit(at: usize) -> u64 {
    1 << at.min(63)
}

/// A loop around.
struct Level {
    var: VarId,
    trips: f64,
    kind: Kind,
    /// The number of all iterations, where it is a constant of the code, so that the compiler can write them out.
    fixed: Option<f64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Serial,
    Unrolled,
    /// `scan`: a running value is carried from lane to lane.
    Lanes {
        width: f64,
        masked: bool,
        scan: bool,
    },
}

/// What one loop executes beside the loops in it, all its iterations together.
#[derive(Default)]
struct Bag {
    arithmetic: f64,
    loads: f64,
    stores: f64,
    /// Cycles of the longest chain.
    chain: f64,
    /// Places whose values are carried from one iteration to the next, and what an iteration has stored so far: the latency since it
    /// began, if that depends on what was carried.
    carried: Vec<Place>,
    holds: Vec<(Place, Option<f64>)>,
    /// Iterations after which another chain begins, which waits for little of the one before.
    row: Option<f64>,
    /// Iterations, whose counters take instructions too.
    iterations: f64,
    /// Comparisons that guard iterations which are written out, and jumps behind the last one.
    guards: f64,
    jumps: f64,
    /// Bytes of the widest element, and whether neighbours in memory are apart or the loop holds others, so that no
    /// compiler makes lanes of it.
    widest: f64,
    apart: bool,
    /// Nobody scheduled it, or it is a check of many elements: lanes are made of it where that can be.
    plain: bool,
    /// An iteration may be the last one, so that what it stores cannot be put off.
    ends_early: bool,
    /// Buffers in registers that it uses, with the vectors that they take.
    registers: HashMap<BufId, f64>,
    /// Vectors of neighbours in memory that it loads, with how often, and those that it stores, with their lanes.
    loaded: Vec<(Place, f64)>,
    stored: Vec<(Place, f64)>,
}

impl Bag {
    /// Cycles of loads that wait until neighbours that were stored just before are in the cache.
    fn pieced(&self, costs: &Costs) -> f64 {
        let waits = |p: &Place| self.stored.iter().any(|(q, width)| p.crosses(q, *width as i64));
        self.loaded.iter().filter(|l| waits(&l.0)).map(|l| l.1 * costs.pieced).sum()
    }
}

pub struct Walk<'a> {
    machine: &'a Machine,
    known: &'a Known,
    values: Values,
    path: Vec<Level>,
    /// Of names of values that are not known: the loops that they depend on, and what chains of dependences run through.
    lets: HashMap<VarId, u64>,
    named: HashMap<VarId, Expr>,
    bag: Bag,
    /// Nobody scheduled the loops: the compiler below makes lanes of them where it can.
    plain: bool,
    /// Iterations that threads run at the same time, of the loops around.
    at_once: f64,
    cycles: f64,
    overhead: f64,
}

impl<'a> Walk<'a> {
    pub fn new(machine: &'a Machine, known: &'a Known, plain: bool) -> Walk<'a> {
        Walk {
            machine,
            known,
            values: Values::new(),
            path: Vec::new(),
            lets: HashMap::new(),
            named: HashMap::new(),
            bag: Bag::default(),
            plain,
            at_once: 1.0,
            cycles: 0.0,
            overhead: 0.0,
        }
    }

    /// A statement that runs `times` times, apart from what is unrolled and from lanes.
    fn visit(&mut self, s: &Stmt, times: f64) {
        if let Some(l) = s.as_loop() {
            // A nest that nobody scheduled is the compiler's, whatever is beside it.
            let nest = self.path.is_empty() && !self.plain;
            self.plain |= nest && leaves_lanes(s);
            self.visit_loop(l, times);
            self.plain &= !nest;
            return;
        }
        if let Some((cond, then, other)) = s.as_if() {
            return match evaluate(cond, &self.values) {
                Some(0) => other.into_iter().for_each(|o| self.visit(o, times)),
                Some(_) => self.visit(then, times),
                // Conditions on data are guessed wrong now and then.
                None => {
                    self.leaf(s, times);
                    self.bag.apart |= self.decides_again(cond, then);
                    self.visit(then, times);
                    other.into_iter().for_each(|o| self.visit(o, times / 2.0));
                }
            };
        }
        if let Some((binder, value, body)) = s.as_let() {
            match evaluate(value, &self.values) {
                Some(v) => drop(self.values.insert(binder.id, v)),
                None => {
                    self.values.remove(&binder.id);
                    let levels = self.levels(value, &mut HashMap::new(), &mut |_, _| {});
                    self.lets.insert(binder.id, levels);
                    self.named.insert(binder.id, value.clone());
                    self.leaf(s, times);
                }
            }
            return self.visit(body, times);
        }
        if let Some((b, _)) = s.as_alloc()
            && !matches!(b.space, Space::Register | Space::Stack)
        {
            self.overhead += self.machine.costs.buffer * times;
        }
        let again = if matches!(s.kind(), StmtKind::While { .. }) { UNKNOWN_TRIPS } else { 1.0 };
        self.leaf(s, times * again);
        s.children().for_each(|c| self.visit(c, times * again));
    }

    fn visit_loop(&mut self, l: &Loop, times: f64) {
        let bounds = bounds(l, &self.values, self.known);
        let trips = bounds
            .map_or(UNKNOWN_TRIPS, |(lo, hi)| ((hi as f64 - lo as f64).max(0.0) / l.step as f64).ceil());
        if trips == 0.0 {
            return;
        }
        let kind = match l.exec {
            Executor::Unrolled => Kind::Unrolled,
            Executor::Vector(w) | Executor::InScan(w) => {
                let width = f64::from(w).max(1.0);
                let exact = lathe_poly::Linear::difference(&l.hi, &l.lo);
                let scan = matches!(l.exec, Executor::InScan(_));
                Kind::Lanes { width, masked: exact != Some(i64::from(w)), scan }
            }
            _ => Kind::Serial,
        };
        let around = self.at_once;
        let threads = match l.exec {
            Executor::Cpu if self.machine.threads > 1 => {
                let (costs, threads) = (&self.machine.costs, self.machine.threads as f64);
                let wake = costs.wake + costs.wake_each * threads.min(trips);
                self.overhead += if around > 1.0 { 0.0 } else { wake * times };
                self.at_once *= trips;
                // Those that the loops around left.
                let busy = |n: f64| n / (n / threads).ceil();
                busy(self.at_once) / busy(around)
            }
            _ => 1.0,
        };
        // The slowest thread has whole iterations only.
        let alone = kind == Kind::Serial && (l.exec != Executor::Cpu || self.machine.threads < 2);
        let values: Vec<(Option<i64>, f64)> = match bounds {
            Some((lo, hi)) if alone && trips > 1.0 && decides(&l.body, l.binder.id) => {
                let last = lo.saturating_add((trips as i64 - 1).saturating_mul(l.step));
                vec![(Some(typical_of(l, lo, hi.saturating_sub(l.step))), trips - 1.0), (Some(last), 1.0)]
            }
            Some((lo, hi)) => vec![(Some(typical(lo, hi, l.step)), trips)],
            None => vec![(None, trips)],
        };
        let serial = kind == Kind::Serial;
        let fixed = lathe_poly::constant_trips(l).map(|n| n as f64);
        if serial && self.known.by_data(l) {
            // Its end is guessed from how often it ran before, which is one of so many numbers.
            self.overhead += self.machine.costs.guessed_wrong * times * (1.0 - 1.0 / (trips + 1.0));
        }
        for (value, weight) in values {
            match value {
                // Conditions on lanes and unrolled iterations differ; the middle one stands for them.
                Some(v) => drop(self.values.insert(l.binder.id, v)),
                None => drop(self.values.remove(&l.binder.id)),
            }
            let inner = if serial { times * weight / threads } else { times };
            if kind == Kind::Unrolled && fixed.is_none() && self.changes(l) {
                let copies = times * self.written_out(|_| true);
                (self.bag.guards, self.bag.jumps) =
                    (self.bag.guards + trips * copies, self.bag.jumps + copies);
            }
            self.path.push(Level { var: l.binder.id, trips: weight, kind, fixed });
            if serial {
                self.overhead += self.machine.costs.loop_start * times;
                let plain =
                    self.plain || matches!(l.body.establishes(), Some(Establishes::Checked(_))) || copies(l);
                let carried = self.carried_by(&l.body, l.binder.id);
                let apart = plain && reads_its_own(l, self.known, &self.values);
                let ends_early = has_checks(&l.body);
                let bag = Bag { iterations: inner, plain, carried, apart, ends_early, ..Bag::default() };
                let outer = std::mem::replace(&mut self.bag, bag);
                self.visit(&l.body, inner);
                self.finish();
                self.bag = Bag { apart: true, ..outer };
            } else {
                self.visit(&l.body, inner);
            }
            self.path.pop();
        }
        self.at_once = around;
        self.values.remove(&l.binder.id);
    }

    /// The cycles of the function.
    pub fn total(mut self, body: &Stmt) -> (f64, f64) {
        self.visit(body, 1.0);
        self.finish();
        (self.cycles, self.overhead)
    }

    /// Adds what the bag takes.
    fn finish(&mut self) {
        let bag = std::mem::take(&mut self.bag);
        let costs = &self.machine.costs;
        let needed: f64 = bag.registers.values().sum::<f64>() + 2.0;
        let spilled =
            (needed - self.machine.vector_registers as f64).max(0.0) * costs.spilled * bag.iterations;
        let (loads, stores) = (bag.loads + spilled, bag.stores + spilled);
        let issue =
            (bag.arithmetic + loads + stores + 2.0 * bag.iterations + bag.guards) / costs.issued_per_cycle;
        let throughput = (bag.arithmetic / costs.arithmetic_per_cycle)
            .max(loads / costs.loads_per_cycle)
            .max(stores / costs.stores_per_cycle)
            .max(bag.guards * BRANCHES[0] + bag.jumps * BRANCHES[1])
            .max(issue);
        // A compiler makes no lanes whose loads would wait, either.
        let pieced = bag.pieced(costs);
        let lanes = match bag.plain && bag.chain == 0.0 && !bag.apart && pieced == 0.0 && bag.widest > 0.0 {
            true => self.compiled_lanes((self.machine.vector_bytes as f64 / bag.widest).max(1.0)),
            false => 1.0,
        };
        let waiting = if bag.plain { 0.0 } else { pieced };
        let row = bag.row.map_or(f64::INFINITY, |n| n * issue * costs.issued_per_cycle / bag.iterations);
        let chain = bag.chain / (WINDOW / row).max(1.0);
        self.cycles += (throughput / lanes + waiting).max(chain);
    }

    /// Whether the number of iterations of what is written out may change in the innermost loop around; if not, it is decided
    /// before that loop.
    fn changes(&self, l: &Loop) -> bool {
        let inner = self.path.iter().rev().find(|p| p.kind == Kind::Serial).map(|p| p.var);
        let reads = |e: &Expr| inner.is_none_or(|v| visit::mentions(e, v)) || !visit::loads_of(e).is_empty();
        reads(&l.lo) || reads(&l.hi)
    }

    /// How many times fewer iterations the innermost loop has where the compiler makes up to so many lanes. Of a constant number of
    /// iterations, those beyond the last whole vector run one by one, and narrower vectors may leave fewer of them.
    fn compiled_lanes(&self, most: f64) -> f64 {
        let Some(trips) = self.path.last().and_then(|l| l.fixed).filter(|n| *n >= 1.0) else { return most };
        let gain = |lanes: f64| trips / ((trips / lanes).floor() + trips % lanes);
        std::iter::successors(Some(most), |n| (*n > 2.0).then_some(n / 2.0)).map(gain).fold(1.0, f64::max)
    }

    /// The product of the trips of what is written out around, as far as `counts` says.
    fn written_out(&self, counts: impl Fn(VarId) -> bool) -> f64 {
        self.path.iter().filter(|p| p.kind == Kind::Unrolled && counts(p.var)).map(|p| p.trips).product()
    }

    /// The innermost lanes: their variable, width, and whether they are masked.
    fn lanes(&self) -> Option<(VarId, f64, bool)> {
        self.path.iter().rev().find_map(|p| match p.kind {
            Kind::Lanes { width, masked, .. } => Some((p.var, width, masked)),
            _ => None,
        })
    }

    /// Instructions for one operation in all lanes on elements of a type.
    fn vectors(&self, ty: &Type) -> f64 {
        let bytes = ty.leaves().iter().map(|s| s.bytes()).max().unwrap_or(4) as f64;
        let per = ty.leaves().len().max(1) as f64;
        self.lanes().map_or(1.0, |(_, w, _)| (w * bytes / self.machine.vector_bytes as f64).max(1.0)) * per
    }

    /// What masks make of the cost of arithmetic, and of loads and stores.
    fn masks(&self) -> (f64, f64) {
        match (self.lanes(), self.machine.masks) {
            (Some((_, w, true)), Masks::None) => (1.0, w),
            (Some((_, _, true)), _) => {
                (self.machine.costs.masked_arithmetic, self.machine.costs.masked_memory)
            }
            _ => (1.0, 1.0),
        }
    }

    /// Whether what a condition reads is stored under it, at a place that the innermost loop does not move: each iteration
    /// waits for the decision of the one before, and no compiler makes lanes of that.
    fn decides_again(&self, cond: &Expr, then: &Stmt) -> bool {
        let inner = self.path.iter().rev().find(|l| l.kind == Kind::Serial).map(|l| l.var);
        let reads = visit::loads_of(cond);
        let mut again = false;
        visit::walk(then, &mut |s, _| {
            again |= s.as_store().is_some_and(|st| {
                let still = inner.is_some_and(|v| !st.target.indices.iter().any(|e| visit::mentions(e, v)));
                still && reads.iter().any(|a| a.view == st.target.view && a.indices == st.target.indices)
            });
            !again
        });
        again
    }

    /// The parts of a statement that are not statements.
    fn leaf(&mut self, s: &Stmt, times: f64) {
        let masks = self.masks();
        let all = self.written_out(|_| true);
        let mut arithmetic = 0.0;
        for e in values_of(s) {
            arithmetic += self.arithmetic(e, times);
        }
        if let Some(r) = s.as_reduce() {
            arithmetic += self.combining(r) * all * times;
            self.chain(r, times);
        }
        if s.as_store().is_some() {
            self.recurrence(s, times);
            self.carries(s, times);
        }
        // Lanes of registers that nobody reads may be written.
        let held = |a: &Access| Place::of(a, self.known, &self.values).is_some_and(|p| self.in_registers(&p));
        let free = s.label().is_some() && s.accesses().all(|(a, mode)| !mode.writes() || held(a));
        self.bag.arithmetic += arithmetic * if free { 1.0 } else { masks.0 };
        for a in loads(s) {
            if let Some(p) = Place::of(&a, self.known, &self.values) {
                let cost = self.transfer(&p, false);
                let times = self.executions(&p, times);
                // A gather has a mask of its own where masks are cheap.
                let gathers = self.lanes().is_some_and(|l| p.along(l.0) == Along::Apart);
                let masked = if gathers && self.machine.masks == Masks::Cheap { 1.0 } else { masks.1 };
                self.bag.loads += cost * times * masked;
                self.bag.arithmetic += self.moved(&p) * times;
                if self.neighbours(&p).is_some() {
                    self.bag.loaded.push((p, times));
                }
            }
        }
        let reads = s.as_reduce().is_some();
        for (a, mode) in s.accesses() {
            let Some(p) = Place::of(a, self.known, &self.values) else { continue };
            if !mode.writes() {
                continue;
            }
            // A sum in memory stays in a register through a loop that does not move it, unless its lanes lie apart.
            let apart = self.lanes().is_some_and(|l| p.along(l.0) == Along::Apart);
            let times = if reads && !apart { self.executions(&p, times) } else { times * all };
            self.bag.stores += self.transfer(&p, true) * times * masks.1;
            self.bag.loads += if reads { self.transfer(&p, false) * times * masks.1 } else { 0.0 };
            self.bag.arithmetic += self.moved(&p) * times * if reads { 2.0 } else { 1.0 };
            self.bag.stored.extend(self.neighbours(&p).map(|width| (p, width)));
        }
    }

    /// Of how many neighbours in memory one load or store in all lanes is, those that the compiler would make included.
    fn neighbours(&self, p: &Place) -> Option<f64> {
        let inner = || self.path.iter().rev().find(|l| l.kind == Kind::Serial).filter(|_| self.bag.plain);
        let made = || (self.machine.vector_bytes / p.buffer.elem.bytes().max(1)) as f64;
        let (v, width) = match self.lanes() {
            Some((v, width, _)) => (v, width),
            None => (inner()?.var, made()),
        };
        (width > 1.0 && p.along(v) == Along::Next && !self.in_registers(p)).then_some(width)
    }

    /// How often an access is made: loops that it does not mention are not around it if they are inside of all others
    /// that it does, and equal ones in what is written out are one.
    fn executions(&self, p: &Place, times: f64) -> f64 {
        let mut times = times * self.written_out(|v| p.mentions(v));
        for level in self.path.iter().rev().filter(|l| l.kind == Kind::Serial) {
            if p.mentions(level.var) {
                break;
            }
            times /= level.trips;
        }
        times
    }

    /// Instructions of one load or store in all lanes.
    fn transfer(&mut self, p: &Place, stores: bool) -> f64 {
        let b = &p.buffer;
        let bytes = b.elem.leaves().iter().map(|s| s.bytes()).max().unwrap_or(8) as f64;
        self.bag.widest = self.bag.widest.max(bytes);
        let inner = self.path.iter().rev().find(|l| l.kind == Kind::Serial).map(|l| l.var);
        self.bag.apart |= inner.is_some_and(|v| p.along(v) == Along::Apart);
        let vectors = self.vectors(&b.elem);
        if self.in_registers(p) {
            let elements: f64 =
                b.extents.iter().map(|e| evaluate(e, &self.values).map_or(1.0, |n| n as f64)).product();
            let width = self.lanes().map_or(1.0, |l| if p.mentions(l.0) { l.1 } else { 1.0 });
            self.bag.registers.insert(b.id, elements / width * vectors);
            return 0.0;
        }
        let Some((v, width, _)) = self.lanes() else { return vectors };
        // Wide vectors that begin anywhere cross lines.
        let next = if self.machine.vector_bytes >= 64 { 1.3 } else { 1.1 };
        match p.along(v) {
            Along::Same => 1.0,
            Along::Next => vectors * next,
            Along::Before => vectors * (next + 1.0),
            // One by one, and put together.
            Along::Apart if stores => self.machine.costs.scatter * width,
            Along::Apart => self.machine.costs.gather * width,
        }
    }

    /// Instructions that move lanes which lie apart in memory into their places in a vector, or out of them: they take turns with
    /// arithmetic, not with loads and stores.
    fn moved(&self, p: &Place) -> f64 {
        let apart = |l: &(VarId, f64, bool)| p.along(l.0) == Along::Apart && !self.in_registers(p);
        self.lanes().filter(apart).map_or(0.0, |(_, width, _)| MOVED * width)
    }

    /// Whether a place is a register: its subscripts are constants once loops are written out.
    fn in_registers(&self, p: &Place) -> bool {
        let moves = |l: &Level| l.kind == Kind::Serial && p.mentions(l.var);
        match p.buffer.space {
            Space::Register => !self.path.iter().any(|l| moves(l) && l.fixed.is_none()),
            Space::Stack => !self.path.iter().any(moves),
            _ => false,
        }
    }

    /// Arithmetic of an expression in a statement that runs `times` times; subscripts cost nothing, equal parts count
    /// once, and a part counts as often as the loops run whose variables it depends on: the compiler moves it out of
    /// others that are inside of these, and makes it once for all that are written out.
    fn arithmetic(&self, e: &Expr, times: f64) -> f64 {
        let mut n = 0.0;
        self.levels(e, &mut HashMap::new(), &mut |x, levels| {
            let one = self.operation(x);
            if one > 0.0 {
                n += one * self.vectors(x.ty()) * self.repeated(levels, times);
            }
        });
        n
    }

    /// The loops around whose variables an expression depends on, as bits by their positions in the path. `f` gets each
    /// part once, with its own.
    fn levels(&self, e: &Expr, seen: &mut HashMap<usize, u64>, f: &mut impl FnMut(&Expr, u64)) -> u64 {
        if let Some(known) = seen.get(&e.address()) {
            return *known;
        }
        let parts = e.children().into_iter().fold(0, |all, c| all | self.levels(c, seen, f));
        let own = match e.kind() {
            ExprKind::Var(v) => match self.path.iter().position(|l| l.var == *v) {
                Some(at) => bit(at),
                None => self.lets.get(v).copied().unwrap_or(0),
            },
            // What is kept beside the loop may be another value in each iteration.
            ExprKind::Load(a) => match Place::of(a, self.known, &self.values) {
                Some(p) if !matches!(p.buffer.space, Space::Register | Space::Stack) => 0,
                _ => ALL_LEVELS,
            },
            _ => 0,
        };
        seen.insert(e.address(), parts | own);
        f(e, parts | own);
        parts | own
    }

    /// How often what depends on these loops is computed, in a statement that runs `times` times.
    fn repeated(&self, levels: u64, times: f64) -> f64 {
        let depends = |at: usize| levels & bit(at) != 0;
        let mut times = times;
        for (at, level) in self.path.iter().enumerate() {
            times *= if level.kind == Kind::Unrolled && depends(at) { level.trips } else { 1.0 };
        }
        let serial = self.path.iter().enumerate().rev().filter(|(_, l)| l.kind == Kind::Serial);
        serial.take_while(|(at, _)| !depends(*at)).fold(times, |times, (_, l)| times / l.trips)
    }

    /// Instructions of one operation, in one lane.
    fn operation(&self, x: &Expr) -> f64 {
        if x.ty().is_index() {
            return 0.0;
        }
        match x.kind() {
            // Of loops that the compiler makes lanes of, those of a vector.
            ExprKind::Binary(BinOp::Div, ..) if self.lanes().is_none() && !self.bag.plain => 5.0,
            ExprKind::Binary(BinOp::Div, ..) => 10.0,
            ExprKind::Binary(BinOp::Min | BinOp::Max, a, _) if a.ty().is_float() => 4.0,
            ExprKind::Binary(BinOp::FloorDiv | BinOp::FloorMod | BinOp::TruncDiv | BinOp::TruncRem, ..) => {
                20.0
            }
            ExprKind::Binary(_, a, _) if a.ty().is_index() => 0.0,
            ExprKind::Binary(..) | ExprKind::Select(..) | ExprKind::Cast(_) => 1.0,
            ExprKind::Math(MathFn::Sqrt, _) => 12.0,
            ExprKind::Math(MathFn::Fma, _) if !self.machine.fma => 30.0,
            ExprKind::Math(..) => 1.0,
            ExprKind::Unary(..) => 0.5,
            ExprKind::Call(..) => 10.0,
            _ => 0.0,
        }
    }

    /// Arithmetic of one update.
    fn combining(&self, r: &Reduce) -> f64 {
        let Some(ty) = r.targets.first().map(|t| &t.elem) else { return 0.0 };
        let fused = r.contract
            && self.machine.fma
            && r.values.first().is_some_and(|v| matches!(v.kind(), ExprKind::Binary(BinOp::Mul, ..)));
        let one = match &r.op {
            // The product counted already.
            ReduceOp::Sum if fused => 0.0,
            ReduceOp::Min | ReduceOp::Max if ty.is_float() => 4.0,
            // Positions are 64 bits wide, and are compared as well.
            ReduceOp::ArgMin | ReduceOp::ArgMax => {
                if self.lanes().is_some() {
                    // A value that is no NaN leaves two comparisons and two selections, those of positions in twice as
                    // many vectors for elements of half the bytes.
                    let wider = 8.0 / ty.scalar().map_or(8.0, |s| s.bytes() as f64);
                    let number = r.values.first().is_some_and(|v| ty.is_int() || reduce::is_number(v));
                    if number { 3.0 + 5.0 * wider } else { 40.0 }
                } else {
                    6.0
                }
            }
            ReduceOp::User(_) => 8.0,
            _ => 1.0,
        };
        one * self.vectors(ty)
    }
}

/// Whether an iteration of a loop may end all of it, loops in it apart.
fn has_checks(body: &Stmt) -> bool {
    let mut found = false;
    visit::walk(body, &mut |s, _| {
        found |= matches!(s.kind(), StmtKind::Check { .. });
        !found && s.as_loop().is_none_or(|l| !matches!(l.exec, Executor::Serial | Executor::Cpu))
    });
    found
}

/// The expressions whose values a statement computes.
fn values_of(s: &Stmt) -> Vec<&Expr> {
    match (s.as_store(), s.as_reduce()) {
        (Some(st), _) => vec![&st.value],
        (_, Some(r)) => r.values.iter().collect(),
        _ => s.evaluated(),
    }
}
