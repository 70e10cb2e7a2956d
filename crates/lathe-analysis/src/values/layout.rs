//! Where the elements of arrays lie.

use super::align::equal;
use super::{Change, allocated};
use crate::env::Env;
use crate::solve::{Answer, Reduced, solve_from};
use crate::system::{Lin, ge, gt};
use crate::translate::Builder;
use lathe_ir::visit::{self, Path};
use lathe_ir::{
    Access, BufId, Buffer, Expr, Function, Layout, LayoutStep, Scalar, Space, Stmt, StmtKind, VarId, View,
    build, lower,
};
use lathe_poly::Ranges;
use std::collections::HashSet;
use std::sync::Arc;

/// Whether a step changed nothing but where local arrays of a name are, and how they are laid out; whether the storage of
/// each has room for every element and keeps different ones apart; and whether all that touches them goes by subscripts,
/// which every engine maps by the layout. Gives how many accesses were looked at.
///
/// # Errors
/// What could not be shown, in words.
pub fn relaid(c: &Change, name: &str) -> Result<usize, String> {
    let place = c.place()?;
    let before = allocated(place.old);
    let is = |b: &Buffer| before.iter().any(|o| o.id == b.id && &*o.name == name);
    if erased(place.old, &is) != erased(place.new, &is) {
        return Err("something else was changed".into());
    }
    let mut changed: Vec<(Path, Arc<Buffer>)> = Vec::new();
    visit::walk(place.new, &mut |s, p| {
        if let Some(b) = s.allocated().filter(|b| is(b)) {
            changed.push((place.path.iter().chain(p).copied().collect(), b.clone()));
        }
        true
    });
    let mut accesses = 0;
    for (path, b) in &changed {
        let old = before.iter().find(|o| o.id == b.id).ok_or("the array is new")?;
        if old.layout != b.layout {
            injective(c, path, b)?;
        }
        accesses += by_subscripts(place.new, b.id, b.layout.is_row_major() || old.layout == b.layout)
            .ok_or_else(|| format!("`{name}` is touched otherwise than by subscripts"))?;
    }
    Ok(accesses)
}

/// The statement without what layouts and spaces say.
fn erased(s: &Stmt, is: &impl Fn(&Buffer) -> bool) -> Stmt {
    visit::map_stmts(s, &mut |s| match s.as_alloc() {
        Some((b, body)) if is(b) => {
            let plain = Buffer { layout: Layout::row_major(), space: Space::Host, ..(**b).clone() };
            s.with_kind(StmtKind::Alloc { buffer: Arc::new(plain), body: body.clone() })
        }
        _ => s,
    })
}

/// How many accesses there are to an array, if each goes through the layout.
fn by_subscripts(s: &Stmt, id: BufId, any: bool) -> Option<usize> {
    let (mut count, mut plain) = (0, true);
    let mut see = |a: &Access| {
        if a.view.buffer() == Some(id) {
            count += 1;
            plain &= any || through_layout(&a.view);
        }
    };
    let mut whole = false;
    visit::walk(s, &mut |s, _| {
        s.accesses().for_each(|(a, _)| see(a));
        for e in s.exprs() {
            visit::loads_of(e).iter().for_each(&mut see);
            visit::walk_expr(e, &mut |x| {
                if let lathe_ir::ExprKind::Address(a) = x.kind() {
                    whole |= a.view.buffer() == Some(id);
                }
            });
        }
        whole |= s.touches().iter().any(|(t, _)| t.element().is_none() && t.buffer() == Some(id));
        true
    });
    (plain && (any || !whole)).then_some(count)
}

fn through_layout(v: &View) -> bool {
    match v {
        View::Buffer(_) => true,
        View::Slice { base, .. } => through_layout(base),
        View::Reshape { .. } | View::Reinterpret { .. } | View::Deref { .. } | View::Global(_) => false,
    }
}

/// Whether the map from subscripts to storage has an inverse, stays inside, and can be computed: engines compute it.
pub(super) fn injective(c: &Change, path: &[usize], b: &Buffer) -> Result<(), String> {
    let fails = |what: &str| format!("the layout of `{}` {what}", b.name);
    let rank = b.extents.len();
    let variables: Vec<VarId> = (0..rank).map(|d| VarId(u32::MAX - d as u32)).collect();
    let subscripts: Vec<Expr> = variables.iter().map(|v| build::var_id(*v, Scalar::Index)).collect();
    let laid = lower::laid(b, subscripts.clone()).map_err(|_| fails("is one that engines do not take"))?;
    let (stored, extents): (Vec<Expr>, Vec<Expr>) = laid.into_iter().map(|d| (d.index, d.extent)).unzip();
    let ranges = Ranges::at(c.after, path);
    if !extents.iter().all(|e| ranges.fits(e)) {
        return Err(fails("has extents that may leave 64 bits"));
    }
    let back = inverse(&b.layout, rank, &stored).ok_or_else(|| fails("cannot be inverted"))?;
    let none = HashSet::new();
    let env = Env::at(c.module, c.after, path);
    if back.len() != rank || !back.iter().zip(&subscripts).all(|(x, y)| equal(&env, &none, &[], x, y)) {
        return Err(fails("may give two elements one place"));
    }
    let mut builder = Builder::new(&none);
    let mut scope = builder.surroundings(&env);
    for (v, extent) in variables.iter().zip(&b.extents) {
        builder.range(&mut scope, *v, &build::index(0), extent, 1);
    }
    let mut outside = Vec::new();
    // Exclusive or with less than a power of two stays within a multiple of it, which the extent is.
    let plain = without_swizzles(b).ok_or_else(|| fails("changes dimensions after it swizzled them"))?;
    let places = lower::laid(&plain, subscripts).map_err(|_| fails("is one that engines do not take"))?;
    for (at, extent) in places.iter().map(|d| &d.index).zip(&extents) {
        let (at, n) = (builder.value(&mut scope, at), builder.value(&mut scope, extent));
        outside.extend([gt(&Lin::default(), &at), ge(&at, &n)]);
    }
    let mut state = Reduced::default();
    let system = &builder.system;
    let inside = !state.absorb(&system.cons)
        || outside.into_iter().all(|o| {
            o.is_some_and(|o| solve_from(&state, &[o], &system.clauses, system.columns) == Answer::Empty)
        });
    if inside { Ok(()) } else { Err(fails("may leave an element without a place")) }
}

/// The buffer with a layout that has the same extents and swizzles nothing; none where steps behind one change dimensions.
fn without_swizzles(b: &Buffer) -> Option<Buffer> {
    let mut swizzled = false;
    let step = |s: &LayoutStep| match s {
        LayoutStep::Swizzle { dim, modulus, .. } => {
            swizzled = true;
            Some(LayoutStep::Pad { dim: *dim, multiple: *modulus })
        }
        LayoutStep::Pad { .. } => Some(s.clone()),
        _ => (!swizzled).then(|| s.clone()),
    };
    let steps = b.layout.steps.iter().map(step).collect::<Option<_>>()?;
    Some(Buffer { layout: Layout { steps }, ..b.clone() })
}

/// The subscripts that an element has, from where it is stored: the steps of the layout undone, last one first.
fn inverse(layout: &Layout, rank: usize, stored: &[Expr]) -> Option<Vec<Expr>> {
    let mut here = stored.to_vec();
    for step in layout.steps.iter().rev() {
        match step {
            LayoutStep::Permute(order) => {
                let mut out: Vec<Option<Expr>> = vec![None; order.len()];
                for (d, e) in order.iter().zip(&here) {
                    *out.get_mut(*d)? = Some(e.clone());
                }
                here = out.into_iter().collect::<Option<_>>()?;
            }
            LayoutStep::Tile { dim, size } => {
                if dim + 1 >= here.len() {
                    return None;
                }
                let inner = here.remove(dim + 1);
                here[*dim] = build::add(
                    build::mul(here[*dim].clone(), build::index(i64::try_from(*size).ok()?)),
                    inner,
                );
            }
            LayoutStep::Pad { .. } | LayoutStep::Distribute { .. } => {}
            LayoutStep::Swizzle { dim, by, modulus } => {
                let other =
                    build::floor_mod(here.get(*by)?.clone(), build::index(i64::try_from(*modulus).ok()?));
                let lathe_ir::ExprKind::Binary(lathe_ir::BinOp::Xor, a, b) = here.get(*dim)?.kind() else {
                    return None;
                };
                here[*dim] = (*b == other).then(|| a.clone())?;
            }
        }
    }
    (here.len() == rank).then_some(here)
}

/// Whether no statement of a function touches an array any more.
pub(super) fn untouched(func: &Function, id: BufId) -> bool {
    let mut found = false;
    visit::walk(&func.body, &mut |s, _| {
        found |= s.touches().iter().any(|(t, _)| t.buffer() == Some(id));
        found |= s.allocated().is_some_and(|b| b.id == id);
        for e in s.exprs() {
            visit::walk_expr(e, &mut |x| {
                if let lathe_ir::ExprKind::Load(a) | lathe_ir::ExprKind::Address(a) = x.kind() {
                    found |= a.view.buffer() == Some(id);
                }
            });
        }
        !found
    });
    !found
}
