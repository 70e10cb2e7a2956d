//! `promote` without an argument: cells that are stored to once become values.

use lathe_analysis::{Memory, Place};
use lathe_ir::stmt::block::{Item, map_blocks};
use lathe_ir::visit::{loads_of, map_expr};
use lathe_ir::{BufId, Expr, ExprKind, Function, Stmt, View, build, visit};
use std::collections::HashSet;

/// Every local array without dimensions that one store of its own block fills, before anything reads it, becomes a
/// `let`.
pub fn cells_to_values(func: &mut Function) {
    let memory = Memory::of(func);
    let body = func.body.clone();
    func.body = map_blocks(&body, &mut |items| block(&memory, func, items));
}

fn block(memory: &Memory, func: &mut Function, mut items: Vec<Item>) -> Vec<Item> {
    let cells: Vec<BufId> = items
        .iter()
        .filter_map(|i| match i {
            Item::Alloc(b, _) if b.extents.is_empty() && b.elem.scalar().is_some() => Some(b.id),
            _ => None,
        })
        .collect();
    for cell in cells {
        let Some(at) = only_store(memory, &items, cell) else { continue };
        let Item::Do(s) = &items[at] else { continue };
        let Some(st) = s.as_store() else { continue };
        let ty = st.value.ty().scalar();
        let Some(ty) = ty.filter(|t| lathe_ir::Type::from(*t) == st.target.elem) else { continue };
        let name = items.iter().find_map(|i| match i {
            Item::Alloc(b, _) if b.id == cell => Some(b.name.to_string()),
            _ => None,
        });
        let b = func.fresh_var(name.unwrap_or_default(), ty);
        let bound = Item::Let(b.clone(), st.value.clone(), s.places().clone());
        let value = build::var(&b);
        items[at] = bound;
        for i in items.iter_mut().skip(at + 1) {
            *i = match &*i {
                Item::Let(b, e, p) => Item::Let(b.clone(), read(e, cell, &value), p.clone()),
                Item::Alloc(..) => i.clone(),
                Item::Do(s) => Item::Do(visit::map_exprs(s, &mut |e| read(e, cell, &value))),
            };
        }
        items.retain(|i| !matches!(i, Item::Alloc(b, _) if b.id == cell));
    }
    items
}

fn read(e: &Expr, cell: BufId, value: &Expr) -> Expr {
    map_expr(e, &mut |x| match x.kind() {
        ExprKind::Load(a) if a.view == View::Buffer(cell) => value.clone(),
        _ => x,
    })
}

/// The store of the block that is the only statement to touch a cell other than by plain loads, all of which come after
/// it.
fn only_store(memory: &Memory, items: &[Item], cell: BufId) -> Option<usize> {
    let place = Place::Buffer(cell);
    let mut found = None;
    for (n, i) in items.iter().enumerate() {
        match i {
            Item::Alloc(b, _) => {
                if b.extents.iter().flat_map(loads_of).any(|a| a.view.buffer() == Some(cell)) {
                    return None;
                }
            }
            Item::Let(_, e, _) => {
                if found.is_none() && memory.read_by(e).contains(&place) {
                    return None;
                }
            }
            Item::Do(s) => {
                let touched = memory.touched(s);
                let own = s.as_store().is_some_and(|st| st.target.view == View::Buffer(cell));
                if own && found.is_none() && !touched.reads.contains(&place) {
                    found = Some(n);
                    continue;
                }
                let before = found.is_none() && touched.reads.contains(&place);
                if before || touched.writes.contains(&place) || names(s, cell) {
                    return None;
                }
            }
        }
    }
    found
}

/// Whether a statement or what it holds touches a cell otherwise than by a load of it.
fn names(s: &Stmt, cell: BufId) -> bool {
    let touched: HashSet<BufId> = s.touches().iter().filter_map(|t| t.0.buffer()).collect();
    let through = s.evaluated().into_iter().flat_map(loads_of);
    touched.contains(&cell)
        || through.into_iter().any(|a| a.view.buffer() == Some(cell) && a.view != View::Buffer(cell))
        || s.children().any(|c| names(c, cell))
}
