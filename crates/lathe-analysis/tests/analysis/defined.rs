//! Outputs that are written everywhere, and those that are not; reads before writes.

use crate::kit::*;
use lathe_analysis::{Env, prove_defined, written_before_read};
use lathe_ir::build::{add, ceil_div, eq, float, floor_mod, lt, min, mul, sub, var};
use lathe_ir::{
    BinOp, Buffer, Combine, Compute, Dim, Executor, Expr, Label, Layout, Mode, ReduceOp, Scalar, Space, Stmt,
    StmtKind, Type,
};
use std::sync::Arc;

fn zero() -> Expr {
    float(Scalar::F32, 0.0)
}

fn messages(kit: &Kit, body: Stmt) -> Vec<String> {
    let (module, func) = kit.with_body(body);
    prove_defined(&module, &func).iter().map(ToString::to_string).collect()
}

#[test]
fn whole_tiled_and_split_outputs_are_written() {
    let mut kit = Kit::new(&["N", "M"]);
    let (n, m) = (kit.size(0), kit.size(1));
    let c = kit.array("C", vec![n.clone(), m.clone()], Mode::Out);
    let (i, j, o, ii) = (kit.binder("i"), kit.binder("j"), kit.binder("o"), kit.binder("i.i"));
    let plain = for_(
        &i,
        k(0),
        n.clone(),
        for_(&j, k(0), m.clone(), store("C", vec![], c, vec![var(&i), var(&j)], zero())),
    );
    assert!(messages(&kit, plain).is_empty());
    let row = add(mul(var(&o), k(8)), var(&ii));
    let body = for_(&j, k(0), m.clone(), store("C", vec![], c, vec![row, var(&j)], zero()));
    let body = for_(&ii, k(0), min(k(8), sub(n.clone(), mul(var(&o), k(8)))), body);
    assert!(messages(&kit, for_(&o, k(0), ceil_div(n.clone(), 8), body)).is_empty());
    // Border and interior, even and odd columns.
    let border = for_(&j, k(0), m.clone(), store("C", vec![], c, vec![k(0), var(&j)], zero()));
    let border = if_(lt(k(0), n.clone()), border);
    let odd = eq(floor_mod(var(&j), k(2)), k(1));
    let cell = |label: &str| store(label, vec![], c, vec![var(&i), var(&j)], zero());
    let both = Stmt::seq([if_(odd.clone(), cell("C.2")), if_(lathe_ir::build::not(odd), cell("C.3"))]);
    let rest = for_(&i, k(1), n, for_(&j, k(0), m, both));
    assert!(messages(&kit, Stmt::seq([border, rest])).is_empty());
}

#[test]
fn unwritten_cells_are_named() {
    let mut kit = Kit::new(&["N"]);
    let n = kit.size(0);
    let b = kit.array("B", vec![n.clone()], Mode::Out);
    let i = kit.binder("i");
    let body = for_(&i, k(1), n.clone(), store("B", vec![], b, vec![var(&i)], zero()));
    let found = messages(&kit, body);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("error[E0502]: `B[0]` is never written, with N = 1"), "{found:?}");
    assert!(found[0].contains("`inout`"), "{found:?}");
    // Only every second cell.
    let half = for_(&i, k(0), n, store("B", vec![], b, vec![mul(var(&i), k(2))], zero()));
    assert_eq!(messages(&kit, half).len(), 1);
}

#[test]
fn a_condition_on_data_needs_both_branches() {
    let mut kit = Kit::new(&["N"]);
    let n = kit.size(0);
    let a = kit.array("A", vec![n.clone()], Mode::In);
    let b = kit.array("B", vec![n.clone()], Mode::Out);
    let i = kit.binder("i");
    let positive = lathe_ir::build::binary(BinOp::Gt, load(a, vec![var(&i)]), zero());
    let write = |label: &str| store(label, vec![], b, vec![var(&i)], zero());
    let one = if_(positive.clone(), write("B"));
    assert_eq!(messages(&kit, for_(&i, k(0), n.clone(), one)).len(), 1);
    let two = Stmt::of(StmtKind::If { cond: positive, then: write("B"), other: Some(write("B.2")) });
    assert!(messages(&kit, for_(&i, k(0), n, two)).is_empty());
}

/// Loops in both branches: an element is written if it is after each of them, in the same iteration of what is around.
#[test]
fn branches_on_data_are_joined_element_by_element() {
    let mut kit = Kit::new(&["M", "N"]);
    let (m, n) = (kit.size(0), kit.size(1));
    let a = kit.array("A", vec![m.clone()], Mode::In);
    let b = kit.array("B", vec![m.clone(), n.clone()], Mode::Out);
    let (r, i) = (kit.binder("r"), kit.binder("i"));
    let choose = |at: Expr, then: Stmt, other: Stmt| {
        let cond = lathe_ir::build::binary(BinOp::Gt, load(a, vec![at]), zero());
        Stmt::of(StmtKind::If { cond, then, other: Some(other) })
    };
    let row =
        |row: Expr, lo: Expr, hi: Expr| for_(&i, lo, hi, store("B", vec![], b, vec![row, var(&i)], zero()));
    let whole = || row(var(&r), k(0), n.clone());
    let split = |gap: i64| {
        let from = add(k(2), k(gap));
        Stmt::seq([row(var(&r), k(0), min(k(2), n.clone())), row(var(&r), from, n.clone())])
    };
    let fine = |body: Stmt| {
        let found = messages(&kit, for_(&r, k(0), m.clone(), body));
        assert!(found.iter().all(|m| m.starts_with("error[E0502]: `B` cannot be shown")), "{found:?}");
        found.is_empty()
    };
    assert!(fine(choose(var(&r), whole(), whole())));
    assert!(fine(choose(var(&r), whole(), split(0))));
    assert!(fine(choose(var(&r), split(0), whole())));
    // One branch leaves an element out.
    assert!(!fine(choose(var(&r), whole(), split(1))));
    assert!(!fine(choose(var(&r), split(1), whole())));
    assert!(!fine(choose(var(&r), whole(), row(var(&r), k(1), n.clone()))));
    assert!(!fine(choose(var(&r), whole(), Stmt::empty())));
    // Conditions within the branches, on other data and on the iteration.
    let nested = |last: Stmt| choose(k(0), whole(), choose(var(&r), split(0), last));
    assert!(fine(choose(var(&r), nested(whole()), nested(split(0)))));
    assert!(!fine(choose(var(&r), nested(whole()), nested(split(1)))));
    let early = lt(var(&r), k(3));
    let known = |then, other| Stmt::of(StmtKind::If { cond: early.clone(), then, other: Some(other) });
    assert!(fine(choose(k(0), known(whole(), split(0)), whole())));
    assert!(!fine(choose(k(0), known(whole(), split(1)), whole())));
    // Each branch writes a row, but not the same one; all rows where the condition does not change.
    let next = row(add(var(&r), k(1)), k(0), n.clone());
    let inside = |s: Stmt| if_(lt(add(var(&r), k(1)), m.clone()), s);
    assert!(!fine(choose(var(&r), whole(), inside(next))));
    let turned = row(sub(sub(m.clone(), k(1)), var(&r)), k(0), n.clone());
    assert!(!fine(choose(var(&r), whole(), turned.clone())));
    let all = |s: Stmt| for_(&r, k(0), m.clone(), s);
    assert!(messages(&kit, choose(k(0), all(whole()), all(turned))).is_empty());
    // What is written before is not taken away.
    let first = row(var(&r), k(2), n.clone());
    let start = |hi: i64| row(var(&r), k(0), min(k(hi), n.clone()));
    assert!(fine(Stmt::seq([first.clone(), choose(var(&r), whole(), start(2))])));
    assert!(!fine(Stmt::seq([first, choose(var(&r), whole(), start(1))])));
}

#[test]
fn a_compute_writes_its_cells_even_with_nothing_to_reduce() {
    let mut kit = Kit::new(&["N", "K"]);
    let (n, kk) = (kit.size(0), kit.size(1));
    let x = kit.array("X", vec![n.clone(), kk.clone()], Mode::In);
    let y = kit.array("Y", vec![n.clone()], Mode::Out);
    let (i, l) = (kit.binder("i"), kit.binder("k"));
    let compute = |update| {
        Stmt::of(StmtKind::Compute(Compute {
            label: Label::new("Y"),
            dims: vec![
                Dim { binder: i.clone(), lo: k(0), hi: n.clone(), combine: Combine::Concat },
                Dim { binder: l.clone(), lo: k(0), hi: kk.clone(), combine: Combine::Reduce(ReduceOp::Sum) },
            ],
            targets: vec![access(y, vec![var(&i)])],
            values: vec![load(x, vec![var(&i), var(&l)])],
            guard: None,
            update,
        }))
    };
    assert!(messages(&kit, compute(None)).is_empty());
    assert_eq!(messages(&kit, compute(Some(ReduceOp::Sum))).len(), 1);
}

#[test]
fn local_arrays_are_written_before_they_are_read() {
    let mut kit = Kit::new(&["N"]);
    let n = kit.size(0);
    let x = kit.array("X", vec![n.clone()], Mode::InOut);
    let t = kit.func.fresh_buf();
    let buffer = Arc::new(Buffer {
        id: t,
        name: "t".into(),
        elem: Type::F32,
        extents: vec![n.clone()],
        space: Space::Host,
        layout: Layout::row_major(),
    });
    let (i, j) = (kit.binder("i"), kit.binder("j"));
    let write = |lo: i64| for_(&i, k(lo), n.clone(), store("t", vec![var(&i)], t, vec![var(&i)], zero()));
    let read = for_(&j, k(0), n.clone(), store("X", vec![var(&j)], x, vec![var(&j)], load(t, vec![var(&j)])));
    let alloc = |body: Vec<Stmt>| Stmt::of(StmtKind::Alloc { buffer: buffer.clone(), body: Stmt::seq(body) });
    assert!(messages(&kit, alloc(vec![write(0), read.clone()])).is_empty());
    let found = messages(&kit, alloc(vec![write(1), read.clone()]));
    assert!(
        found[0].starts_with("error[E0503]: `t[0]` is read before it is written, by `X[0]`"),
        "{found:?}"
    );
    assert_eq!(messages(&kit, alloc(vec![read, write(0)])).len(), 1);
    // A recurrence: the first element, then each from the one before.
    let first = if_(lt(k(0), n.clone()), store("t", vec![], t, vec![k(0)], zero()));
    let value = load(t, vec![sub(var(&i), k(1))]);
    let scan = for_(&i, k(1), n.clone(), store("t.2", vec![var(&i)], t, vec![var(&i)], value));
    assert!(messages(&kit, alloc(vec![first.clone(), scan.clone()])).is_empty());
    assert_eq!(messages(&kit, alloc(vec![scan, first])).len(), 1);
}

#[test]
fn reads_are_reached_by_writes_that_surely_come_before() {
    let mut kit = Kit::new(&["N"]);
    let n = kit.size(0);
    let x = kit.array("X", vec![n.clone()], Mode::In);
    let y = kit.array("Y", vec![n.clone()], Mode::Out);
    let z = kit.array("Z", vec![n.clone()], Mode::Out);
    let (t, i, j) = (kit.binder("t"), kit.binder("i"), kit.binder("j"));
    let proved = |body: Stmt, by: Option<&str>| {
        let (module, func) = kit.with_body(body);
        let buffer = func.array("Y").unwrap();
        written_before_read(&Env::root(&module, &func), &func.body, buffer, by)
    };
    let whole = |body: Stmt| for_(&i, k(0), n.clone(), body);
    let write = whole(store("Y", vec![var(&i)], y, vec![var(&i)], zero()));
    let read = for_(&j, k(0), n.clone(), store("Z", vec![var(&j)], z, vec![var(&j)], load(y, vec![var(&j)])));
    assert!(proved(Stmt::seq([write.clone(), read.clone()]), None));
    assert!(proved(Stmt::seq([write.clone(), read.clone()]), Some("Z")));
    assert!(!proved(Stmt::seq([read.clone(), write.clone()]), None));
    assert!(proved(Stmt::seq([read.clone(), write.clone()]), Some("Y")));
    // Two halves; one of them only where data say so; a write in a loop that data end.
    let half = |odd: i64, value: Expr| {
        let cond = eq(floor_mod(var(&i), k(2)), k(odd));
        whole(if_(cond, store("Y", vec![var(&i)], y, vec![var(&i)], value)))
    };
    assert!(proved(Stmt::seq([half(0, zero()), half(1, zero()), read.clone()]), None));
    assert!(!proved(Stmt::seq([half(0, zero()), half(0, zero()), read.clone()]), None));
    let positive = lathe_ir::build::binary(BinOp::Lt, zero(), load(x, vec![var(&i)]));
    let maybe = whole(if_(positive, store("Y", vec![var(&i)], y, vec![var(&i)], zero())));
    assert!(!proved(Stmt::seq([maybe, read.clone()]), None));
    // Iterations that run in order, and such that do not.
    for (exec, fine) in [(Executor::Serial, true), (Executor::Cpu, false)] {
        let early = if_(lt(var(&t), k(1)), write.clone());
        let late = if_(lt(k(0), var(&t)), read.clone());
        assert_eq!(proved(for_exec(&t, k(0), k(2), exec, Stmt::seq([late, early])), None), fine);
    }
}

/// A value that is not affine is one and the same in all that is compared: it is not chosen for each cell, nor for each
/// tree.
#[test]
fn bounds_that_are_not_affine_cover_what_they_say_only() {
    let mut kit = Kit::new(&["M", "N", "K"]);
    let (m, n, cells) = (kit.size(0), kit.size(1), kit.size(2));
    let product = mul(m.clone(), n.clone());
    let y = kit.array("y", vec![cells.clone()], Mode::Out);
    let z = kit.array("z", vec![product.clone()], Mode::Out);
    let i = kit.binder("i");
    let write = |to| store("y", vec![var(&i)], to, vec![var(&i)], zero());
    let guarded = for_(&i, k(0), product.clone(), if_(lt(var(&i), cells.clone()), write(y)));
    let whole = for_(&i, k(0), product.clone(), write(z));
    let found = messages(&kit, Stmt::seq([guarded.clone(), whole.clone()]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("error[E0502]: `y` cannot be shown"), "{found:?}");
    // What is known of the product counts.
    let enough = Stmt::of(StmtKind::Assume {
        fact: lathe_ir::build::le(cells.clone(), product.clone()),
        provenance: "a fact".into(),
    });
    assert!(messages(&kit, Stmt::seq([enough, guarded, whole.clone()])).is_empty());

    let (module, func) = kit.with_body(whole.clone());
    let env = lathe_analysis::Env::root(&module, &func);
    let preserved = |after: &Stmt| lathe_analysis::instances_preserved(&env, &whole, after).is_ok();
    let other = |to: Expr| for_(&i, k(0), to, write(z));
    assert!(preserved(&whole));
    assert!(preserved(&Stmt::seq([
        other(min(product.clone(), k(4))),
        for_(&i, k(4), product.clone(), write(z))
    ])));
    for wrong in [mul(m.clone(), cells.clone()), add(product, k(5)), mul(mul(m, n), cells)] {
        assert!(!preserved(&other(wrong)));
    }
}
