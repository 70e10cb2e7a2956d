//! Rows of registers that are computed in whole vectors, where lanes beyond the last column are read by nobody.
//!
//! A tile at the edge of an array has fewer columns than its vectors have lanes. Masked, every update of the tile blends its
//! new values with the old ones. Where all accesses to the tile's buffer stop at the same column, the lanes behind it may
//! hold anything: the tile is updated in whole vectors, and only what is read from elsewhere is read under the mask, with
//! zeros in the lanes that are masked off.

use crate::pitches::MAX_FRAME;
use lathe_ir::build::{float, index, lt, select, var};
use lathe_ir::stmt::AccessMode;
use lathe_ir::visit::{self, map_expr, vars_of};
use lathe_ir::{
    Access, BinOp, BufId, Buffer, Executor, Expr, ExprKind, Function, Loop, MathFn, Scalar, Space, Stmt,
    StmtKind, Store, UnOp, VarId, View,
};
use lathe_poly::{Linear, Ranges};
use std::collections::HashSet;
use std::sync::Arc;

/// The function with such rows.
pub fn whole(func: &Function) -> Function {
    Function { body: Rows { ranges: Ranges::of_function(func) }.stmt(&func.body), ..func.clone() }
}

struct Rows {
    ranges: Ranges,
}

impl Rows {
    fn stmt(&mut self, s: &Stmt) -> Stmt {
        let edge = s.as_alloc().and_then(|(b, body)| Some((Edge::of(b, body)?, b, body)));
        let s = match edge {
            Some((edge, b, body)) => {
                let body = self.free(body, &edge);
                let mut extents = b.extents.clone();
                if let Some(row) = extents.last_mut() {
                    *row = index(edge.row);
                }
                s.with_kind(StmtKind::Alloc { buffer: Arc::new(Buffer { extents, ..(**b).clone() }), body })
            }
            None => s.clone(),
        };
        self.children(&s, Rows::stmt)
    }

    fn children(&mut self, s: &Stmt, mut f: impl FnMut(&mut Rows, &Stmt) -> Stmt) -> Stmt {
        let mut new = Vec::new();
        for (position, c) in s.children().enumerate() {
            let mark = self.ranges.enter_child(s, position);
            new.push(f(self, c));
            self.ranges.leave(mark);
        }
        let same = s.children().zip(&new).all(|(a, b)| a.ptr_eq(b));
        if same { s.clone() } else { s.with_children(new) }
    }

    /// The masked loops that write such rows, without masks.
    fn free(&mut self, s: &Stmt, edge: &Edge) -> Stmt {
        let Some((l, store)) = edge.row_written(s) else {
            return self.children(s, |rows, c| rows.free(c, edge));
        };
        let v = var(&l.binder);
        let inside = lt(v, l.hi.clone());
        let guarded = |e: &Expr| {
            map_expr(e, &mut |x| match x.kind() {
                ExprKind::Load(a)
                    if a.view != View::Buffer(edge.id) && vars_of(&x).contains(&l.binder.id) =>
                {
                    let zero = x.ty().scalar().map(|s| float(s, 0.0));
                    zero.map_or(x.clone(), |zero| select(inside.clone(), x.clone(), zero))
                }
                _ => x,
            })
        };
        let store = Store { value: guarded(&store.value), ..store.clone() };
        let body = l.body.with_kind(StmtKind::Store(store));
        let lanes = s.with_kind(StmtKind::Loop(Loop { hi: index(edge.width), body, ..l.clone() }));
        if self.ranges.lt(&l.lo, &l.hi) {
            return lanes;
        }
        let cond = lt(l.lo.clone(), l.hi.clone());
        Stmt::new(StmtKind::If { cond, then: lanes, other: None }, s.places().clone())
    }
}

/// Where the rows of a buffer end for all that access them.
struct Edge {
    id: BufId,
    width: i64,
    /// Elements of a row with the lanes behind its end.
    row: i64,
    /// Columns before which all that is read stops.
    ends: Vec<Linear>,
}

impl Edge {
    fn of(b: &Buffer, body: &Stmt) -> Option<Edge> {
        let framed = matches!(b.space, Space::Stack | Space::Register) && b.layout.is_row_major();
        let float = matches!(b.elem.scalar(), Some(Scalar::F32 | Scalar::F64));
        let extents: Vec<i64> = b.extents.iter().map(|x| x.as_int()).collect::<Option<_>>()?;
        let row = *extents.last().filter(|n| framed && float && **n > 0)?;
        let mut found = Found { id: b.id, width: None, uses: Vec::new(), bound: HashSet::new(), fits: true };
        found.stmt(body, None, &[]);
        let width = found.width.filter(|_| found.fits)?;
        let row = row.checked_add(width - 1)? / width * width;
        let count = extents[..extents.len() - 1].iter().try_fold(row, |n, x| n.checked_mul((*x).max(0)))?;
        let bytes = u64::try_from(count).ok()?.checked_mul(b.elem.bytes())?;
        // Where all that is masked stops when it is written, which is the same at every time and everywhere.
        let same = |e: &Linear| e.terms.iter().all(|t| vars_of(&t.0).is_disjoint(&found.bound));
        let mut masked = found.uses.iter().filter(|u| u.masked).map(|u| &u.ends);
        let ends = masked.next().filter(|ends| !ends.is_empty() && ends.iter().all(same))?.clone();
        let agree = masked.all(|others| same_set(others, &ends));
        let read = found.uses.iter().all(|u| u.writes || ends.iter().all(|e| u.ends.contains(e)));
        (agree && read && bytes <= MAX_FRAME).then_some(Edge { id: b.id, width, row, ends })
    }

    /// The loop, if it writes a part of a row of the buffer and nothing else, under a mask that ends at the edge.
    fn row_written<'s>(&self, s: &'s Stmt) -> Option<(&'s Loop, &'s Store)> {
        let l = s
            .as_loop()
            .filter(|l| matches!(l.exec, Executor::Vector(_)) && l.hi.as_int() != Some(self.width))?;
        let store = l.body.as_store().filter(|_| plain(&l.body))?;
        let column = store.target.indices.last()?;
        let own = store.target.view == View::Buffer(self.id);
        (own && same_set(&ends(l, column), &self.ends)).then_some((l, store))
    }
}

/// An access to the buffer.
struct Use {
    writes: bool,
    /// A write by a loop that is to do without its mask.
    masked: bool,
    /// Columns before which it stops.
    ends: Vec<Linear>,
}

/// All accesses to a buffer in its scope.
struct Found {
    id: BufId,
    width: Option<i64>,
    uses: Vec<Use>,
    /// Variables that have several values in the scope.
    bound: HashSet<VarId>,
    /// All of them are by lanes along rows.
    fits: bool,
}

impl Found {
    fn stmt(&mut self, s: &Stmt, lanes: Option<&Loop>, conditions: &[(Expr, Expr)]) {
        self.bound.extend(s.binders().iter().map(|b| b.0.id));
        let masked = lanes.filter(|l| l.body.ptr_eq(s) && l.hi.as_int() != self.width && plain(s));
        let mut seen = Vec::new();
        for (a, _) in s.accesses().filter(|a| a.1 != AccessMode::Read) {
            seen.push((a.clone(), true, masked.is_some(), s.as_store().is_some()));
        }
        seen.extend(s.exprs().into_iter().flat_map(visit::loads_of).map(|a| (a, false, false, true)));
        for (a, writes, masked, known) in seen {
            if a.view.buffer() != Some(self.id) {
                continue;
            }
            self.fits &= known && a.view.as_buffer().is_some();
            match lanes.and_then(|l| self.ends(l, &a, conditions)) {
                Some(ends) => self.uses.push(Use { writes, masked, ends }),
                None => self.fits = false,
            }
        }
        let vector = s.as_loop().filter(|l| matches!(l.exec, Executor::Vector(w) if w > 1));
        let cond = s.as_if().and_then(|(c, ..)| match c.kind() {
            ExprKind::Binary(BinOp::Lt, a, b) => Some((a.clone(), b.clone())),
            _ => None,
        });
        for (position, c) in s.children().enumerate() {
            let mut inner = conditions.to_vec();
            inner.extend(cond.clone().filter(|_| position == 0));
            if let Some(l) = vector {
                let Executor::Vector(w) = l.exec else { continue };
                // Lanes inside of lanes, and rows of several kinds of vectors, are left alone.
                self.stmt(c, Some(l), &[]);
                self.width = self.width.or(Some(i64::from(w)));
            } else {
                self.stmt(c, lanes, &inner);
            }
        }
    }

    /// Where an access by lanes along a row stops; `None` if it is none.
    fn ends(&mut self, l: &Loop, a: &Access, conditions: &[(Expr, Expr)]) -> Option<Vec<Linear>> {
        let Executor::Vector(w) = l.exec else { return None };
        let w = i64::from(w);
        let along = (l.lo.as_int(), l.step) == (Some(0), 1) && *self.width.get_or_insert(w) == w;
        let (column, others) = a.indices.split_last()?;
        let across = others.iter().all(|i| !vars_of(i).contains(&l.binder.id));
        let first = first_column(l, column).filter(|_| along && across)?;
        // Vectors begin at multiples of their lanes, so that the last one ends with the longer row.
        let aligned = first.constant % w == 0 && first.terms.iter().all(|t| t.1 % w == 0);
        if !aligned {
            return None;
        }
        let mut out = ends(l, column);
        for (x, y) in conditions {
            // `x < y` for a lane says that its column is before `y - x + column`.
            let at = Linear::of(column).minus(&Linear::of(x))?;
            let parts = lathe_poly::mins(&Linear::of(y));
            let stops = parts.iter().filter_map(|p| p.plus(&at, 1));
            out.extend(stops.filter(|e| !e.terms.iter().any(|t| vars_of(&t.0).contains(&l.binder.id))));
        }
        Some(out)
    }
}

/// The column of a loop's first lane, where lanes lie one after the other.
fn first_column(l: &Loop, column: &Expr) -> Option<Linear> {
    let first = Linear::of(column).plus(&Linear::of(&var(&l.binder)), -1)?;
    (!first.terms.iter().any(|t| vars_of(&t.0).contains(&l.binder.id))).then_some(first)
}

/// The columns before which the bounds of a loop let its lanes stop, besides the end of a vector.
fn ends(l: &Loop, column: &Expr) -> Vec<Linear> {
    let (Some(first), Executor::Vector(w)) = (first_column(l, column), &l.exec) else { return Vec::new() };
    let parts = lathe_poly::mins(&Linear::of(&l.hi));
    let short = parts.iter().filter(|p| p.as_constant().is_none_or(|n| n < i64::from(*w)));
    short.filter_map(|p| p.plus(&first, 1)).collect()
}

fn same_set(a: &[Linear], b: &[Linear]) -> bool {
    a.iter().all(|e| b.contains(e)) && b.iter().all(|e| a.contains(e))
}

/// A store of arithmetic that every lane may do, whatever its operands are.
fn plain(s: &Stmt) -> bool {
    let Some(store) = s.as_store().filter(|st| !st.nontemporal) else { return false };
    let mut plain = true;
    visit::walk_expr(&store.value, &mut |e| {
        let float = matches!(e.ty().scalar(), Some(Scalar::F32 | Scalar::F64));
        plain &= match e.kind() {
            ExprKind::Load(_) | ExprKind::Float(_) => float,
            ExprKind::Unary(UnOp::Neg, _) => true,
            ExprKind::Binary(op, ..) => matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul),
            ExprKind::Math(f, _) => *f == MathFn::Fma,
            ExprKind::Int(_) | ExprKind::Var(_) => true,
            _ => false,
        };
    });
    plain
}
