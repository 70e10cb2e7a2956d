//! Accesses as the model sees them: linear subscripts, and the dimension that is contiguous in memory.

use lathe_ir::interp::evaluate;
use lathe_ir::layout::LayoutStep;
use lathe_ir::lower::address;
use lathe_ir::visit::{map_expr, substitute, vars_of, walk, walk_expr};
use lathe_ir::{Access, BinOp, BufId, Buffer, Expr, ExprKind, Function, Param, Stmt, VarId, build};
use lathe_poly::Affine;
use std::collections::HashMap;
use std::sync::Arc;

/// One access to a known buffer.
pub struct Place {
    pub buffer: Arc<Buffer>,
    /// A linear form of loop variables per logical dimension; `None` where data or divisions decide.
    pub subscripts: Vec<Option<Affine>>,
    /// The subscripts themselves, with what `let` names in place of names.
    pub exprs: Vec<Expr>,
}

impl Place {
    /// `None` behind a pointer.
    pub fn of(a: &Access, known: &Known) -> Option<Place> {
        let (id, mut exprs) = address::resolve(a).ok()?;
        let buffer = known.buffers.get(&id)?.clone();
        exprs.iter_mut().for_each(|e| *e = first_bound(&substitute(e, &known.lets)));
        Some(Place { buffer, subscripts: exprs.iter().map(Affine::of).collect(), exprs })
    }

    pub fn mentions(&self, v: VarId) -> bool {
        self.exprs.iter().any(|e| vars_of(e).contains(&v))
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

    /// Whether a place of the same form is where another one was some iterations of a loop earlier.
    pub fn steps_from(&self, stored: &Place, v: VarId) -> bool {
        let mut steps = None;
        self.subscripts.iter().zip(&stored.subscripts).all(|(a, b)| {
            let (Some(a), Some(b)) = (a, b) else { return false };
            let (apart, each) = (b.constant.saturating_sub(a.constant), a.coefficient(&v));
            if each == 0 {
                return apart == 0;
            }
            let here = apart / each;
            apart % each == 0 && here > 0 && *steps.get_or_insert(here) == here
        })
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
                Some(form) => match form.coefficient(&v) {
                    0 => {}
                    1 if Some(d) == last => found = Along::Next,
                    -1 if Some(d) == last => found = Along::Before,
                    _ => return Along::Apart,
                },
                None if vars_of(&self.exprs[d]).contains(&v) => return Along::Apart,
                None => {}
            }
        }
        found
    }
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

/// Where a row begins at the larger of two bounds, the first one, as in tiles that begin within an array: which ones begin
/// at its end does not matter. A subscript that is clamped as a whole is no row from a bound on.
fn first_bound(e: &Expr) -> Expr {
    if is_bound(e) {
        return e.clone();
    }
    map_expr(e, &mut |e| match e.kind() {
        ExprKind::Binary(_, a, b) if is_bound(&e) && Affine::of(a).is_some() && Affine::of(b).is_some() => {
            a.clone()
        }
        _ => e,
    })
}

fn is_bound(e: &Expr) -> bool {
    e.ty().is_index() && matches!(e.kind(), ExprKind::Binary(BinOp::Max | BinOp::Min, ..))
}

/// Whether all iterations of a loop load an element that one of them stores, where each stores one of its own: no compiler makes
/// lanes of them. `range`: the first value of the loop's variable, and the one behind the last.
pub fn reads_its_own(
    body: &Stmt,
    (v, (lo, hi)): (VarId, (i64, i64)),
    known: &Known,
    values: &HashMap<VarId, i64>,
) -> bool {
    let (mut stored, mut loaded) = (Vec::new(), Vec::new());
    walk(body, &mut |s, _| {
        stored.extend(s.as_store().and_then(|st| Place::of(&st.target, known)));
        loaded.extend(loads(s).iter().filter_map(|a| Place::of(a, known)));
        true
    });
    let mut at = values.clone();
    at.insert(v, 0);
    let meets = |p: &Place, q: &Place| {
        (0..q.exprs.len()).all(|d| match q.subscripts[d].as_ref().map_or(0, |f| f.coefficient(&v)) {
            0 => p.exprs[d] == q.exprs[d],
            1 => {
                let apart = build::sub(p.exprs[d].clone(), q.exprs[d].clone());
                evaluate(&apart, &at).is_some_and(|n| (lo..hi).contains(&n))
            }
            _ => false,
        })
    };
    let mut own = stored.iter().filter(|q| q.along(v) == Along::Next);
    own.any(|q| loaded.iter().any(|p| p.buffer.id == q.buffer.id && !p.mentions(v) && meets(p, q)))
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
