//! Accesses as the model sees them: linear subscripts, and the dimension that is contiguous in memory.

use lathe_ir::interp::evaluate;
use lathe_ir::layout::LayoutStep;
use lathe_ir::lower::address;
use lathe_ir::visit::{map_expr, mentions, substitute, walk, walk_expr};
use lathe_ir::{
    Access, BinOp, BufId, Buffer, Executor, Expr, ExprKind, Function, Loop, Param, Stmt, VarId, build,
};
use lathe_poly::{Affine, Linear};
use std::collections::HashMap;
use std::sync::Arc;

/// One access to a known buffer.
pub struct Place {
    pub buffer: Arc<Buffer>,
    /// A linear form of loop variables per logical dimension, with the one of two bounds that counts where the variables have their
    /// typical values; `None` where data or divisions decide.
    pub subscripts: Vec<Option<Affine>>,
    /// The subscripts themselves, with what `let` names in place of names.
    pub exprs: Vec<Expr>,
    /// Which variables each of them mentions, for all who ask about one.
    variables: Vec<Vec<VarId>>,
}

impl Place {
    /// `None` behind a pointer. `values`: those of the loop variables around.
    pub fn of(a: &Access, known: &Known, values: &HashMap<VarId, i64>) -> Option<Place> {
        let (id, mut exprs) = address::resolve(a).ok()?;
        let buffer = known.buffers.get(&id)?.clone();
        if !known.lets.is_empty() {
            exprs.iter_mut().for_each(|e| *e = substitute(e, &known.lets));
        }
        let subscripts = exprs.iter().map(|e| Affine::of(&counting(e, values))).collect();
        let variables = exprs.iter().map(variables).collect();
        Some(Place { buffer, subscripts, exprs, variables })
    }

    pub fn mentions(&self, v: VarId) -> bool {
        self.variables.iter().any(|all| all.contains(&v))
    }

    /// Whether a vector that begins here has elements of one that begins at `stored`, or of the one before that, and
    /// others.
    pub fn crosses(&self, stored: &Place, width: i64) -> bool {
        let last = innermost(&self.buffer);
        let apart = |d: usize| {
            let (a, b) = (self.subscripts[d].as_ref()?, stored.subscripts[d].as_ref()?);
            a.same_terms(b).then(|| a.constant.saturating_sub(b.constant))
        };
        self.buffer.id == stored.buffer.id
            && (0..self.subscripts.len()).all(|d| match apart(d) {
                Some(n) if Some(d) == last => n != 0 && n != -width && (-2 * width < n && n < width),
                n => n == Some(0),
            })
    }

    /// How many iterations of a loop earlier another place of the same form was where this one is, if that is one number for all
    /// subscripts; 0 where none moves.
    pub fn steps_from(&self, stored: &Place, v: VarId) -> Option<i64> {
        let mut steps = None;
        let same = self.subscripts.iter().zip(&stored.subscripts).all(|(a, b)| {
            let (Some(a), Some(b)) = (a, b) else { return false };
            let (apart, each) = (b.constant.saturating_sub(a.constant), a.coefficient(&v));
            if each == 0 {
                return apart == 0;
            }
            let here = apart / each;
            apart % each == 0 && *steps.get_or_insert(here) == here
        });
        same.then_some(steps.unwrap_or(0))
    }

    /// How far neighbours in `v` lie apart.
    pub fn along(&self, v: VarId) -> Along {
        if !self.mentions(v) {
            return Along::Same;
        }
        let last = innermost(&self.buffer);
        let mut found = Along::Apart;
        for (d, s) in self.subscripts.iter().enumerate() {
            match s {
                // What is clamped is no row.
                _ if !self.variables[d].contains(&v) => {}
                Some(_) if bounded(&self.exprs[d], v) => return Along::Apart,
                Some(form) => match form.coefficient(&v) {
                    0 => {}
                    1 if Some(d) == last => found = Along::Next,
                    -1 if Some(d) == last => found = Along::Before,
                    _ => return Along::Apart,
                },
                None => match steps(&self.exprs[d], v) {
                    Some(1) if Some(d) == last => found = Along::Next,
                    Some(-1) if Some(d) == last => found = Along::Before,
                    _ => return Along::Apart,
                },
            }
        }
        found
    }
}

/// The variables of an expression, each once.
fn variables(e: &Expr) -> Vec<VarId> {
    let mut out = Vec::new();
    walk_expr(e, &mut |x| out.extend(x.as_var().filter(|v| !out.contains(v))));
    out
}

/// How far neighbours in a variable lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    Same,
    Next,
    /// The next one is the neighbour before: a vector is reversed once it is loaded.
    Before,
    Apart,
}

/// The logical dimension whose neighbours are neighbours in memory.
pub fn innermost(b: &Buffer) -> Option<usize> {
    let mut dims: Vec<usize> = (0..b.extents.len()).collect();
    for step in &b.layout.steps {
        match step {
            LayoutStep::Permute(order) => dims = order.iter().filter_map(|d| dims.get(*d).copied()).collect(),
            LayoutStep::Tile { dim, .. } => {
                let of = *dims.get(*dim)?;
                dims.insert(*dim, of);
            }
            LayoutStep::Pad { .. } | LayoutStep::Swizzle { .. } | LayoutStep::Distribute { .. } => {}
        }
    }
    dims.last().copied()
}

/// What a function says of names, wherever they are in scope.
#[derive(Default)]
pub struct Known {
    pub buffers: HashMap<BufId, Arc<Buffer>>,
    /// What integers that `let` names are, in loop variables.
    pub lets: HashMap<VarId, Expr>,
    /// Of arrays in bounds of loops, such as the places where rows of a sparse matrix begin, how much an element is above the
    /// one before: as much as there are elements of what these loops run over, per row.
    pub growth: HashMap<BufId, i64>,
}

impl Known {
    pub fn of(f: &Function) -> Known {
        let mut all = Known::default();
        all.buffers.extend(f.params.iter().filter_map(Param::array).map(|b| (b.id, b.clone())));
        walk(&f.body, &mut |s, _| {
            all.buffers.extend(s.allocated().map(|b| (b.id, b.clone())));
            if let Some((binder, value, _)) = s.as_let().filter(|l| l.1.ty().is_int()) {
                all.lets.insert(binder.id, substitute(value, &all.lets));
            }
            true
        });
        all.growth = growth(f, &all.buffers);
        all
    }

    /// Whether data say where a loop begins, or ends.
    pub fn by_data(&self, l: &Loop) -> bool {
        let reads = |e: &Expr| {
            let mut found = false;
            walk_expr(e, &mut |x| {
                let of = x.as_var().and_then(|v| self.lets.get(&v));
                found |=
                    matches!(x.kind(), ExprKind::Load(_)) || of.is_some_and(lathe_ir::expr::touches_memory);
            });
            found
        };
        reads(&l.lo) || reads(&l.hi)
    }
}

/// Rows are taken to have at most so many elements.
const LONGEST: i64 = 4096;

fn growth(f: &Function, buffers: &HashMap<BufId, Arc<Buffer>>) -> HashMap<BufId, i64> {
    // Variables and arrays that a subscript is a sum of; not those that say which element of another array is taken.
    fn direct(e: &Expr, vars: &mut Vec<VarId>, arrays: &mut Vec<BufId>) {
        match e.kind() {
            ExprKind::Load(a) => arrays.extend(a.view.buffer()),
            _ => {
                vars.extend(e.as_var());
                e.children().into_iter().for_each(|c| direct(c, vars, arrays));
            }
        }
    }
    let last = |id: BufId| buffers.get(&id)?.extents.last()?.as_int();
    let (mut over, mut out): (HashMap<VarId, Vec<BufId>>, HashMap<BufId, i64>) = Default::default();
    walk(&f.body, &mut |s, _| {
        if let Some(l) = s.as_loop() {
            let mut arrays = Vec::new();
            [&l.lo, &l.hi].into_iter().for_each(|e| direct(e, &mut Vec::new(), &mut arrays));
            if !arrays.is_empty() {
                over.insert(l.binder.id, arrays);
            }
        }
        if !over.is_empty() {
            let all = loads(s).into_iter().chain(s.accesses().map(|(a, _)| a.clone()));
            for (x, at) in all.filter_map(|a| Some((a.view.buffer()?, a.indices.last()?.clone()))) {
                let (mut vars, mut arrays) = (Vec::new(), Vec::new());
                direct(&at, &mut vars, &mut arrays);
                arrays.extend(vars.iter().filter_map(|v| over.get(v)).flatten());
                for rows in arrays {
                    if let (Some(all), Some(rows_of)) = (last(x), last(rows)) {
                        let each = (all / rows_of.max(1)).clamp(1, LONGEST);
                        out.entry(rows).and_modify(|n| *n = each.min(*n)).or_insert(each);
                    }
                }
            }
        }
        true
    });
    out
}

/// An expression with the one of two bounds that counts for these values of variables in place of both, as in tiles that begin within
/// an array.
fn counting(e: &Expr, values: &HashMap<VarId, i64>) -> Expr {
    let bound = |e: &Expr| matches!(e.kind(), ExprKind::Binary(BinOp::Max | BinOp::Min, ..));
    let mut some = false;
    walk_expr(e, &mut |e| some |= bound(e));
    if !some {
        return e.clone();
    }
    map_expr(e, &mut |e| match e.kind() {
        ExprKind::Binary(op @ (BinOp::Max | BinOp::Min), a, b) if e.ty().is_index() => {
            match (evaluate(a, values), evaluate(b, values)) {
                (Some(x), Some(y)) if (*op == BinOp::Max) == (x >= y) => a.clone(),
                (Some(_), Some(_)) => b.clone(),
                _ => e,
            }
        }
        _ => e,
    })
}

/// How far a subscript moves from one iteration to the next, where something else, such as data that say where a row begins, is the same
/// for all of them.
fn steps(e: &Expr, v: VarId) -> Option<i64> {
    let mut own = 0;
    for (atom, k) in Linear::of(e).terms {
        match atom.as_var() {
            Some(w) if w == v => own += k,
            _ if mentions(&atom, v) => return None,
            _ => {}
        }
    }
    Some(own)
}

/// Whether one of two bounds depends on a variable.
fn bounded(e: &Expr, v: VarId) -> bool {
    let mut found = false;
    walk_expr(e, &mut |e| {
        let bound = matches!(e.kind(), ExprKind::Binary(BinOp::Max | BinOp::Min, ..));
        found |= bound && mentions(e, v);
    });
    found
}

/// Whether all iterations of a loop load an element that one of them may store, where each stores one of its own: no compiler makes
/// lanes of them unless the bounds of the loop say that it stores others.
pub fn reads_its_own(l: &Loop, known: &Known, values: &HashMap<VarId, i64>) -> bool {
    let v = l.binder.id;
    let (mut stored, mut loaded) = (Vec::new(), Vec::new());
    walk(&l.body, &mut |s, _| {
        stored.extend(s.as_store().and_then(|st| Place::of(&st.target, known, values)));
        loaded.extend(loads(s).iter().filter_map(|a| Place::of(a, known, values)));
        true
    });
    let meets = |p: &Place, q: &Place| {
        (0..q.exprs.len()).all(|d| match q.subscripts[d].as_ref().map_or(0, |f| f.coefficient(&v)) {
            0 => p.exprs[d] == q.exprs[d],
            1 => {
                // The iteration that stores what is loaded.
                let var = build::var(&l.binder);
                let own = build::add(build::sub(p.exprs[d].clone(), q.exprs[d].clone()), var);
                !before(&own, &l.lo, 1) && !before(&l.hi, &own, 0)
            }
            _ => false,
        })
    };
    let mut own = stored.iter().filter(|q| q.along(v) == Along::Next);
    own.any(|q| loaded.iter().any(|p| p.buffer.id == q.buffer.id && !p.mentions(v) && meets(p, q)))
}

/// Whether one number is below another one by so much, whatever the variables are.
fn before(a: &Expr, b: &Expr, by: i64) -> bool {
    match (a.kind(), b.kind()) {
        (ExprKind::Binary(BinOp::Min, x, y), _) => before(x, b, by) || before(y, b, by),
        (_, ExprKind::Binary(BinOp::Max, x, y)) => before(a, x, by) || before(a, y, by),
        _ => Linear::difference(b, a).is_some_and(|d| d >= by),
    }
}

/// The loads in the values of a statement, subscripts of loads included, each once.
pub fn loads(s: &Stmt) -> Vec<Access> {
    let mut out: Vec<Access> = Vec::new();
    for e in s.evaluated() {
        walk_expr(e, &mut |x| {
            if let ExprKind::Load(a) = x.kind()
                && !out.contains(a)
            {
                out.push(a.clone());
            }
        });
    }
    out
}

/// Whether a loop copies neighbours in memory from one array to another, and does nothing else: whatever is around it, the compiler below
/// makes one `memcpy` of it, which has the widest vectors that the machine has.
pub fn copies(l: &Loop) -> bool {
    let Some(st) = l.body.as_store().filter(|_| l.exec == Executor::Serial && l.step == 1) else {
        return false;
    };
    let ExprKind::Load(from) = st.value.kind() else { return false };
    let row = |a: &Access| {
        let next = |e: &Expr| Affine::of(e).is_some_and(|f| f.coefficient(&l.binder.id) == 1);
        let others = |all: &[Expr]| !all.iter().any(|e| mentions(e, l.binder.id));
        a.indices.split_last().is_some_and(|(last, rest)| next(last) && others(rest))
    };
    let (a, b) = (st.target.view.buffer(), from.view.buffer());
    a.is_some() && b.is_some() && a != b && row(&st.target) && row(from)
}
