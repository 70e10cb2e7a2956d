//! From expressions of the tree to linear constraints.
//!
//! Exact for affine arithmetic, floor division and remainder by constants, `min`, `max`, `select`,
//! truncating division, and conditions made of comparisons. Everything else becomes an unknown of its
//! own (or, as a condition, is left out), which makes the system larger and [`System::exact`] false.

use crate::env::{Env, Item};
use crate::system::{Col, Con, Conj, Lin, System, eq, ge, gt};
use lathe_ir::visit::{distinct_operands, fold, loads_of, vars_of};
use lathe_ir::{BinOp, BufId, Expr, ExprKind, Scalar, UnOp, VarId};
use std::collections::{HashMap, HashSet};

/// A longer condition is left out in part.
const MAX_FORMULA: usize = 512;

/// The unknowns that stand for the variables of one copy of an iteration. Copies share those of the
/// surroundings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    vars: HashMap<VarId, Col>,
    /// Named values that nothing has asked for yet: they restrict nothing.
    named: HashMap<VarId, Expr>,
    /// Values that are not affine, by their expression.
    values: HashMap<Expr, Lin>,
    /// Values of what reads memory that is written, as long as one expression is looked at, and how deep in it that is.
    here: HashMap<Expr, Lin>,
    depth: usize,
}

impl Scope {
    pub fn col(&self, v: VarId) -> Option<Col> {
        self.vars.get(&v).copied()
    }

    pub fn bind(&mut self, v: VarId, col: Col) {
        self.vars.insert(v, col);
    }

    /// A `let` whose value gets its unknowns when it is asked for.
    pub fn name(&mut self, v: VarId, value: &Expr) {
        self.named.insert(v, value.clone());
    }

    /// Whether a variable has a value here.
    pub fn binds(&self, v: VarId) -> bool {
        self.vars.contains_key(&v) || self.named.contains_key(&v)
    }
}

/// Builds one system.
#[derive(Clone)]
pub(crate) struct Builder<'w> {
    pub system: System,
    /// Buffers that something in view writes: a load from another one has one value wherever it stands.
    pub written: &'w HashSet<BufId>,
    /// Values that are not affine but the same for all copies.
    shared: HashMap<Expr, Lin>,
    /// The variables of the surroundings, which all copies share.
    outer: HashSet<VarId>,
    /// Sizes, and loop variables that start at no less than zero.
    counting: HashSet<VarId>,
}

/// A condition as a tree of constraints.
enum Formula {
    Known(bool),
    Unknown,
    One(Con),
    All(Vec<Formula>),
    Any(Vec<Formula>),
}

/// More alternatives than this in one condition are left out.
const MAX_ALTERNATIVES: usize = 64;

impl<'w> Builder<'w> {
    pub fn new(written: &'w HashSet<BufId>) -> Builder<'w> {
        Builder {
            system: System::new(),
            written,
            shared: HashMap::new(),
            outer: HashSet::new(),
            counting: HashSet::new(),
        }
    }

    /// The unknowns of the surroundings, which copies then start from.
    pub fn surroundings(&mut self, env: &Env) -> Scope {
        let mut scope = Scope::default();
        for item in &env.items {
            self.item(&mut scope, item);
        }
        self.outer = scope.vars.keys().copied().collect();
        // What lies outside restricts nothing that matters where it could not be expressed.
        self.system.exact = true;
        scope
    }

    /// How many values that are not affine all copies share.
    pub fn shared(&self) -> usize {
        self.shared.len()
    }

    /// The values that are not affine and that all copies share, in the order in which they were met.
    pub fn shared_values(&self) -> Vec<Expr> {
        let mut all: Vec<(&Expr, &Lin)> = self.shared.iter().collect();
        all.sort_by_key(|(_, lin)| lin.terms.first().map(|t| t.0));
        all.into_iter().map(|(e, _)| e.clone()).collect()
    }

    /// Gives shared values their unknowns now. Whoever compares the projections of several systems does so before he says
    /// which unknowns are kept: one that is projected away stands for another value in each of them.
    pub fn share(&mut self, outer: &mut Scope, values: &[Expr]) {
        for e in values {
            self.value(outer, e);
        }
    }

    /// A fresh unknown for a binder.
    pub fn bind(&mut self, scope: &mut Scope, v: VarId) -> Col {
        let col = self.system.fresh();
        scope.bind(v, col);
        col
    }

    /// Adds what an enclosing item binds and says. A `while` binds a counter, which is returned.
    pub fn item(&mut self, scope: &mut Scope, item: &Item) -> Option<Col> {
        match item {
            Item::Size(b) => {
                self.counting.insert(b.id);
                let col = self.bind(scope, b.id);
                self.system.ge(&Lin::atom(col), &Lin::default());
            }
            Item::Scalar(b) | Item::Opaque(b) => {
                let col = self.bind(scope, b.id);
                self.typed(col, b.ty);
            }
            Item::Loop { binder, lo, hi, step, .. } => self.range(scope, binder.id, lo, hi, *step),
            Item::Cond(cond, holds) => self.assert(scope, cond, *holds),
            Item::Let(b, value) => {
                self.name(scope, b.id, b.ty.is_int().then_some(*value));
            }
            Item::While(_) => {
                // Loads in the condition change from iteration to iteration: a counter that only
                // counts says all that is known.
                let col = self.system.fresh();
                self.system.ge(&Lin::atom(col), &Lin::default());
                self.system.exact = false;
                return Some(col);
            }
            Item::Fact(e, _) | Item::Checked(e) => self.assume(scope, e),
            Item::Alloc(_) => {}
        }
        None
    }

    /// An unknown for a name of a value; of one that is no integer nothing is known.
    fn name(&mut self, scope: &mut Scope, v: VarId, value: Option<&Expr>) -> Col {
        let lin = value.map(|value| self.value(scope, value));
        let col = self.bind(scope, v);
        if let Some(lin) = lin {
            self.system.eq(&Lin::atom(col), &lin);
        }
        col
    }

    /// Gives a name its unknown, after the names that its value is made of; without recursion, since chains may be long.
    fn translate_names(&mut self, scope: &mut Scope, v: VarId) {
        let mut todo = vec![v];
        while let Some(next) = todo.last().copied() {
            let Some(value) = scope.named.get(&next).cloned() else {
                todo.pop();
                continue;
            };
            let mut open: Vec<VarId> =
                vars_of(&value).into_iter().filter(|w| scope.named.contains_key(w)).collect();
            if open.is_empty() {
                scope.named.remove(&next);
                self.name(scope, next, Some(&value));
            }
            open.sort_unstable();
            todo.append(&mut open);
        }
    }

    /// A fact helps where it can be expressed; where it cannot, nothing is lost.
    fn assume(&mut self, scope: &mut Scope, e: &Expr) {
        let exact = self.system.exact;
        self.assert(scope, e, true);
        self.system.exact = exact;
    }

    /// `v` runs over `lo..hi` by `step`.
    pub fn range(&mut self, scope: &mut Scope, v: VarId, lo: &Expr, hi: &Expr, step: i64) {
        if self.is_natural(lo) {
            self.counting.insert(v);
        }
        if step == 1 {
            let bounds = (self.parts(scope, lo, BinOp::Max), self.parts(scope, hi, BinOp::Min));
            let x = Lin::atom(self.bind(scope, v));
            for b in bounds.0 {
                self.system.ge(&x, &b);
            }
            for b in bounds.1 {
                self.system.push(gt(&b, &x));
            }
            return;
        }
        let first = self.value(scope, lo);
        let ends = self.parts(scope, hi, BinOp::Min);
        let x = Lin::atom(self.bind(scope, v));
        let k = Lin::atom(self.system.fresh());
        self.system.ge(&k, &Lin::default());
        self.system.push(first.combine(1, &k, step).and_then(|at| eq(&x, &at)));
        for b in ends {
            self.system.push(gt(&b, &x));
        }
    }

    /// The operands of nested `min` (or `max`): a bound by the result is a bound by each.
    fn parts(&mut self, scope: &mut Scope, e: &Expr, op: BinOp) -> Vec<Lin> {
        if !e.ty().is_index() {
            return vec![self.value(scope, e)];
        }
        distinct_operands(op, e).iter().map(|part| self.value(scope, part)).collect()
    }

    /// The value of an integer expression.
    pub fn value(&mut self, scope: &mut Scope, e: &Expr) -> Lin {
        match e.kind() {
            ExprKind::Int(v) if e.ty().scalar() != Some(Scalar::U64) => return Lin::constant(*v),
            ExprKind::Var(v) => {
                self.translate_names(scope, *v);
                let col = match scope.col(*v) {
                    Some(c) => c,
                    // Bound nowhere in view: a parameter without bounds.
                    None => self.bind(scope, *v),
                };
                return Lin::atom(col);
            }
            _ => {}
        }
        if let Some(known) = scope.values.get(e).or_else(|| scope.here.get(e)) {
            return known.clone();
        }
        scope.depth += 1;
        let found = self.value_of(scope, e);
        scope.depth -= 1;
        if scope.depth == 0 {
            scope.here.clear();
        }
        found
    }

    fn value_of(&mut self, scope: &mut Scope, e: &Expr) -> Lin {
        let found = match e.kind() {
            ExprKind::Cast(a) if widens(a, e) => Some(self.value(scope, a)),
            _ if e.ty().is_index() => self.index_value(scope, e),
            _ => None,
        };
        // A load from a buffer that is written may differ at another place.
        let steady = loads_of(e).iter().all(|l| l.view.buffer().is_some_and(|b| !self.written.contains(&b)));
        let found = match found {
            Some(f) => f,
            None if steady && vars_of(e).iter().all(|v| self.outer.contains(v)) => {
                self.system.symbolic = true;
                match self.shared.get(e) {
                    Some(known) => known.clone(),
                    None => {
                        let exact = self.system.exact;
                        let lin = self.opaque(e);
                        self.system.exact = exact;
                        self.shared.insert(e.clone(), lin.clone());
                        lin
                    }
                }
            }
            None => self.opaque(e),
        };
        if steady {
            scope.values.insert(e.clone(), found.clone());
        } else {
            scope.here.insert(e.clone(), found.clone());
        }
        found
    }

    fn index_value(&mut self, scope: &mut Scope, e: &Expr) -> Option<Lin> {
        match e.kind() {
            ExprKind::Unary(UnOp::Neg, a) => self.value(scope, a).scaled(-1),
            ExprKind::Select(c, a, b) => {
                let (x, y) = (self.value(scope, a), self.value(scope, b));
                let yes = self.formula(scope, c, true);
                let no = self.formula(scope, c, false);
                let m = Lin::atom(self.system.fresh());
                let first = Formula::All(vec![yes, Formula::One(eq(&m, &x)?)]);
                let second = Formula::All(vec![no, Formula::One(eq(&m, &y)?)]);
                self.add(Formula::Any(vec![first, second]));
                Some(m)
            }
            ExprKind::Binary(op, a, b) => {
                let (x, y) = (self.value(scope, a), self.value(scope, b));
                let by = y.as_constant();
                match op {
                    BinOp::Add => x.plus(&y, 1),
                    BinOp::Sub => x.minus(&y),
                    BinOp::Mul => match by {
                        Some(k) => x.scaled(k),
                        None if x.terms.is_empty() => y.scaled(x.constant),
                        None => None,
                    },
                    BinOp::FloorDiv => self.quotient(&x, by?),
                    BinOp::FloorMod => {
                        let q = self.quotient(&x, by?)?;
                        x.combine(1, &q, by?.checked_neg()?)
                    }
                    BinOp::TruncDiv => self.truncated(&x, by?),
                    BinOp::TruncRem => {
                        let q = self.truncated(&x, by?)?;
                        x.combine(1, &q, by?.checked_neg()?)
                    }
                    BinOp::Min | BinOp::Max => {
                        let m = Lin::atom(self.system.fresh());
                        let smaller = *op == BinOp::Min;
                        let mut alternatives = Vec::new();
                        for part in [&x, &y] {
                            let bound = if smaller { ge(part, &m) } else { ge(&m, part) };
                            self.system.push(bound);
                            alternatives.push(vec![eq(&m, part)?]);
                        }
                        self.system.clause(alternatives);
                        Some(m)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// `x // k` for a constant: an unknown `q` with `k q <= x < k (q + 1)`.
    fn quotient(&mut self, x: &Lin, k: i64) -> Option<Lin> {
        let (x, k) = match k {
            0 => return None,
            k if k < 0 => (x.scaled(-1)?, k.checked_neg()?),
            k => (x.clone(), k),
        };
        if k == 1 {
            return Some(x);
        }
        let q = Lin::atom(self.system.fresh());
        let rest = x.combine(1, &q, -k)?;
        self.system.ge(&rest, &Lin::default());
        self.system.ge(&Lin::constant(k - 1), &rest);
        Some(q)
    }

    /// `x tdiv k`: the quotient of the magnitude, with the sign put back.
    fn truncated(&mut self, x: &Lin, k: i64) -> Option<Lin> {
        let floor = self.quotient(x, k)?;
        let ceil = self.quotient(&x.scaled(-1)?, k)?.scaled(-1)?;
        let m = Lin::atom(self.system.fresh());
        // The quotient is not negative where the signs agree: it is then rounded down, else up.
        let signed = if k > 0 { x.clone() } else { x.scaled(-1)? };
        self.system.clause(vec![
            vec![ge(&signed, &Lin::default())?, eq(&m, &floor)?],
            vec![gt(&Lin::default(), &signed)?, eq(&m, &ceil)?],
        ]);
        Some(m)
    }

    /// Evidently not negative: what remains to be known about a product of sizes.
    fn is_natural(&self, e: &Expr) -> bool {
        use BinOp::{Add, FloorDiv, FloorMod, Max, Min, Mul};
        fold(e, &mut |e, parts: Vec<bool>| match (e.kind(), parts.as_slice()) {
            (ExprKind::Int(v), _) => *v >= 0,
            (ExprKind::Var(v), _) => self.counting.contains(v),
            (ExprKind::Binary(Mul, a, b), _) if a == b => true,
            (ExprKind::Binary(Mul | Add | Min, ..), [a, b]) => *a && *b,
            (ExprKind::Binary(Max, ..), [a, b]) => *a || *b,
            (ExprKind::Binary(FloorDiv, _, by), [a, _]) => *a && by.as_int().is_some_and(|k| k > 0),
            (ExprKind::Binary(FloorMod, _, by), _) => by.as_int().is_some_and(|k| k > 0),
            _ => false,
        })
    }

    /// An unknown for a value that nothing is known about but its type and sign.
    fn opaque(&mut self, e: &Expr) -> Lin {
        let col = self.system.fresh();
        self.system.exact = false;
        if e.ty().is_index() && self.is_natural(e) {
            self.system.ge(&Lin::atom(col), &Lin::default());
        }
        if let Some(s) = e.ty().scalar() {
            self.typed(col, s);
        }
        Lin::atom(col)
    }

    fn typed(&mut self, col: Col, s: Scalar) {
        let (lo, hi) = match s {
            Scalar::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
            Scalar::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            Scalar::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            Scalar::U8 => (0, i64::from(u8::MAX)),
            Scalar::U16 => (0, i64::from(u16::MAX)),
            Scalar::U32 => (0, i64::from(u32::MAX)),
            _ => return,
        };
        self.system.ge(&Lin::atom(col), &Lin::constant(lo));
        self.system.ge(&Lin::constant(hi), &Lin::atom(col));
    }

    /// Adds that a condition has the given value.
    pub fn assert(&mut self, scope: &mut Scope, cond: &Expr, holds: bool) {
        let f = self.formula(scope, cond, holds);
        self.add(f);
    }

    /// Alternatives of which one holds where a condition has the given value, with what cannot be said left out.
    pub fn ways(&mut self, scope: &mut Scope, cond: &Expr, holds: bool) -> Vec<Conj> {
        let f = self.formula(scope, cond, holds);
        alternatives(&f, &mut self.system.exact).unwrap_or_else(|| {
            self.system.exact = false;
            vec![Conj::new()]
        })
    }

    fn formula(&mut self, scope: &mut Scope, cond: &Expr, holds: bool) -> Formula {
        self.formula_of(scope, cond, holds, &mut { MAX_FORMULA })
    }

    /// A formula is a tree: parts of a condition that are shared are written out, as many as are `left`.
    fn formula_of(&mut self, scope: &mut Scope, cond: &Expr, holds: bool, left: &mut usize) -> Formula {
        if *left == 0 {
            return Formula::Unknown;
        }
        *left -= 1;
        match cond.kind() {
            ExprKind::Bool(v) => Formula::Known(*v == holds),
            ExprKind::Unary(UnOp::Not, a) => self.formula_of(scope, a, !holds, left),
            ExprKind::Binary(op @ (BinOp::And | BinOp::Or), ..) => {
                let parts = distinct_operands(*op, cond);
                let both = parts.iter().map(|p| self.formula_of(scope, p, holds, left)).collect();
                if (*op == BinOp::And) == holds { Formula::All(both) } else { Formula::Any(both) }
            }
            ExprKind::Binary(op, a, b) if op.is_comparison() && comparable(a) => {
                let (x, y) = (self.value(scope, a), self.value(scope, b));
                compare(*op, &x, &y, holds).unwrap_or(Formula::Unknown)
            }
            _ => Formula::Unknown,
        }
    }

    fn add(&mut self, f: Formula) {
        match f {
            Formula::Known(true) => {}
            Formula::Known(false) => self.system.cons.push(Con { lin: Lin::constant(-1), eq: false }),
            Formula::Unknown => self.system.exact = false,
            Formula::One(c) => self.system.cons.push(c),
            Formula::All(fs) => fs.into_iter().for_each(|f| self.add(f)),
            any @ Formula::Any(_) => match alternatives(&any, &mut self.system.exact) {
                Some(alts) if alts.iter().any(Vec::is_empty) => {}
                Some(alts) if alts.is_empty() => self.add(Formula::Known(false)),
                Some(alts) => self.system.clause(alts),
                None => self.system.exact = false,
            },
        }
    }
}

/// The disjunctive normal form, with what is unknown left out; `None` if it is too large.
fn alternatives(f: &Formula, exact: &mut bool) -> Option<Vec<Conj>> {
    Some(match f {
        Formula::Known(true) => vec![Vec::new()],
        Formula::Known(false) => Vec::new(),
        Formula::Unknown => {
            *exact = false;
            vec![Vec::new()]
        }
        Formula::One(c) => vec![vec![c.clone()]],
        Formula::Any(fs) => {
            let mut out = Vec::new();
            for f in fs {
                out.extend(alternatives(f, exact)?);
                if out.len() > MAX_ALTERNATIVES {
                    return None;
                }
            }
            out
        }
        Formula::All(fs) => {
            let mut out: Vec<Conj> = vec![Vec::new()];
            for f in fs {
                let parts = alternatives(f, exact)?;
                if out.len() * parts.len() > MAX_ALTERNATIVES {
                    return None;
                }
                out = out
                    .iter()
                    .flat_map(|a| parts.iter().map(move |b| a.iter().chain(b).cloned().collect()))
                    .collect();
            }
            out
        }
    })
}

fn compare(op: BinOp, x: &Lin, y: &Lin, holds: bool) -> Option<Formula> {
    let op = match (op, holds) {
        (op, true) => op,
        (BinOp::Eq, false) => BinOp::Ne,
        (BinOp::Ne, false) => BinOp::Eq,
        (BinOp::Lt, false) => BinOp::Ge,
        (BinOp::Le, false) => BinOp::Gt,
        (BinOp::Gt, false) => BinOp::Le,
        (BinOp::Ge, false) => BinOp::Lt,
        _ => return None,
    };
    Some(match op {
        BinOp::Eq => Formula::One(eq(x, y)?),
        BinOp::Ne => Formula::Any(vec![Formula::One(gt(x, y)?), Formula::One(gt(y, x)?)]),
        BinOp::Lt => Formula::One(gt(y, x)?),
        BinOp::Le => Formula::One(ge(y, x)?),
        BinOp::Gt => Formula::One(gt(x, y)?),
        BinOp::Ge => Formula::One(ge(x, y)?),
        _ => return None,
    })
}

/// Integers whose mathematical values [`Builder::value`] stands for.
fn comparable(e: &Expr) -> bool {
    e.ty().scalar().is_some_and(|s| s.is_int() && s != Scalar::U64)
}

/// The conversion keeps every value.
fn widens(from: &Expr, to: &Expr) -> bool {
    let (Some(a), Some(b)) = (from.ty().scalar(), to.ty().scalar()) else { return false };
    if !a.is_int() || !b.is_int() || a == Scalar::U64 {
        return false;
    }
    match (a.is_signed(), b.is_signed()) {
        (true, true) => b.bits() >= a.bits(),
        (false, false) => b.bits() >= a.bits(),
        (false, true) => b.bits() > a.bits(),
        (true, false) => false,
    }
}
