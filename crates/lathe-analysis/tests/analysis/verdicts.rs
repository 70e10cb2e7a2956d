//! Changes of order whose verdict is known.

use crate::kit::*;
use lathe_analysis::{DepKind, Env, OrderProof, OrderRefusal, Violation, order_preserved};
use lathe_diagnostics::Code;
use lathe_ir::build::{add, ceil_div, float, floor_div, lt, max, min, mul, sub, var};
use lathe_ir::{Executor, Expr, Mode, Scalar, Stmt};

fn decide(kit: &Kit, before: &Stmt, after: &Stmt) -> Result<OrderProof, OrderRefusal> {
    let (module, func) = kit.with_body(before.clone());
    order_preserved(&Env::root(&module, &func), before, after)
}

fn violation(kit: &Kit, before: &Stmt, after: &Stmt) -> Violation {
    match decide(kit, before, after) {
        Err(OrderRefusal::Violation(v)) => *v,
        other => panic!("expected a violation, got {other:?}"),
    }
}

fn one() -> Expr {
    float(Scalar::F32, 1.0)
}

/// `for t in 0..T { for i in 1..N-1 { A[i] = A[i-1] + A[i] + A[i+1] } }` (Gauss–Seidel), plain and tiled
/// with and without a skew of `i` by `t`.
struct Seidel {
    kit: Kit,
    before: Stmt,
    tiled: Stmt,
    skewed: Stmt,
}

fn seidel() -> Seidel {
    let mut kit = Kit::new(&["T", "N"]);
    let (tt, n) = (kit.size(0), kit.size(1));
    let a = kit.array("A", vec![n.clone()], Mode::InOut);
    let (t, i) = (kit.binder("t"), kit.binder("i"));
    let body = |t: Expr, i: Expr| {
        let value = add(
            add(load(a, vec![sub(i.clone(), k(1))]), load(a, vec![i.clone()])),
            load(a, vec![add(i.clone(), k(1))]),
        );
        store("A", vec![t, i.clone()], a, vec![i], value)
    };
    let last = sub(n.clone(), k(1));
    let before = for_(&t, k(0), tt.clone(), for_(&i, k(1), last.clone(), body(var(&t), var(&i))));
    let (to, io) = (kit.binder("t.o"), kit.binder("i.o"));
    let (ti, ii) = (kit.binder("t.i"), kit.binder("i.i"));
    let width = 4;
    // for t.o, i.o, t.i, i.i with t = 4 t.o + t.i, i = 1 + 4 i.o + i.i
    let at = add(mul(var(&to), k(width)), var(&ti));
    let pos = add(add(k(1), mul(var(&io), k(width))), var(&ii));
    let points = sub(n.clone(), k(2));
    let inner =
        for_(&ii, k(0), min(k(width), sub(points.clone(), mul(var(&io), k(width)))), body(at.clone(), pos));
    let inner = for_(&ti, k(0), min(k(width), sub(tt.clone(), mul(var(&to), k(width)))), inner);
    let tiled =
        for_(&to, k(0), ceil_div(tt.clone(), width), for_(&io, k(0), ceil_div(points.clone(), width), inner));
    // skewed: p = i + t runs over 1+t .. N-1+t; tiles over p.
    let p = add(mul(var(&io), k(width)), var(&ii));
    let inner = for_(
        &ii,
        max(k(0), sub(add(at.clone(), k(1)), mul(var(&io), k(width)))),
        min(k(width), sub(add(at.clone(), last), mul(var(&io), k(width)))),
        body(at.clone(), sub(p, at)),
    );
    let inner = for_(&ti, k(0), min(k(width), sub(tt.clone(), mul(var(&to), k(width)))), inner);
    let skewed =
        for_(&to, k(0), ceil_div(tt.clone(), width), for_(&io, k(0), ceil_div(add(n, tt), width), inner));
    Seidel { kit, before, tiled, skewed }
}

#[test]
fn skewed_tiling_of_gauss_seidel_is_legal() {
    let s = seidel();
    let proof = decide(&s.kit, &s.before, &s.skewed).expect("legal");
    assert_eq!(proof.pairs, 1);
    assert!(proof.used_licence.is_empty());
}

#[test]
fn unskewed_tiling_of_gauss_seidel_is_not() {
    let s = seidel();
    let v = violation(&s.kit, &s.before, &s.tiled);
    assert_eq!(&*v.buffer, "A");
    assert_eq!(v.carried_by.as_deref(), Some("t"));
    assert!(v.element.is_some());
    let (p, q) = (&v.first.1, &v.second.1);
    assert!(p[0] < q[0], "{v:?}");
    let d = v.to_diagnostic(Code("E0601"), "tile");
    assert!(d.message.contains("`tile`") && d.message.contains("`A["), "{d}");
    assert!(d.notes.iter().any(|n| n.contains("`t`")), "{d}");
}

/// `for i in 0..N { A[i + shift] = A[i] }`
fn copy(shift: i64) -> (Kit, Stmt, impl Fn(&mut Kit, Executor, bool) -> Stmt) {
    let mut kit = Kit::new(&["N"]);
    let n = kit.size(0);
    let a = kit.array("A", vec![add(n.clone(), k(shift))], Mode::InOut);
    let build = move |kit: &mut Kit, exec: Executor, reversed: bool| {
        let i = kit.binder("i");
        let n = kit.size(0);
        let at = if reversed { sub(sub(n.clone(), k(1)), var(&i)) } else { var(&i) };
        let body = store("A", vec![at.clone()], a, vec![add(at.clone(), k(shift))], load(a, vec![at]));
        for_exec(&i, k(0), n, exec, body)
    };
    let before = build(&mut kit, Executor::Serial, false);
    (kit, before, build)
}

#[test]
fn reversal_is_legal_only_without_a_carried_dependence() {
    let (mut kit, before, build) = copy(0);
    let after = build(&mut kit, Executor::Serial, true);
    decide(&kit, &before, &after).expect("legal");
    let (mut kit, before, build) = copy(1);
    let after = build(&mut kit, Executor::Serial, true);
    let v = violation(&kit, &before, &after);
    assert_eq!(v.kind, DepKind::Flow);
    assert!(!v.concurrent);
    assert_eq!(v.first.1[0] + 1, v.second.1[0]);
}

#[test]
fn a_recurrence_cannot_be_vectorized_or_run_in_parallel() {
    for exec in [Executor::Vector(8), Executor::Cpu] {
        let (mut kit, before, build) = copy(1);
        let after = build(&mut kit, exec.clone(), false);
        let v = violation(&kit, &before, &after);
        assert!(v.concurrent);
        assert_eq!(v.carried_by.as_deref(), Some("i"));
        let (mut kit, before, build) = copy(0);
        let after = build(&mut kit, exec, false);
        decide(&kit, &before, &after).expect("legal");
    }
}

/// `for i, j, k { C[i, j] += A[i, k] * B[k, j] }` with the loops in some order and one made parallel.
fn gemm(licence: bool, order: [usize; 3], parallel: Option<usize>) -> (Kit, Stmt, Stmt) {
    let mut kit = Kit::new(&["M", "N", "K"]);
    let sizes: Vec<Expr> = (0..3).map(|s| kit.size(s)).collect();
    let a = kit.array("A", vec![sizes[0].clone(), sizes[2].clone()], Mode::In);
    let b = kit.array("B", vec![sizes[2].clone(), sizes[1].clone()], Mode::In);
    let c = kit.array("C", vec![sizes[0].clone(), sizes[1].clone()], Mode::InOut);
    let binders: Vec<_> = ["i", "j", "k"].iter().map(|n| kit.binder(n)).collect();
    let v: Vec<Expr> = binders.iter().map(var).collect();
    let value = mul(load(a, vec![v[0].clone(), v[2].clone()]), load(b, vec![v[2].clone(), v[1].clone()]));
    let body = reduce("C", v.clone(), c, vec![v[0].clone(), v[1].clone()], value, licence);
    let nest = |order: [usize; 3], parallel: Option<usize>| {
        order.iter().rev().fold(body.clone(), |s, l| {
            let exec = if parallel == Some(*l) { Executor::Cpu } else { Executor::Serial };
            for_exec(&binders[*l], k(0), sizes[*l].clone(), exec, s)
        })
    };
    let (before, after) = (nest([0, 1, 2], None), nest(order, parallel));
    (kit, before, after)
}

#[test]
fn a_licensed_reduction_may_be_reordered_but_not_run_in_parallel() {
    // Interchanging keeps the order of each sum.
    let (kit, before, after) = gemm(false, [2, 0, 1], None);
    decide(&kit, &before, &after).expect("legal");
    let (kit, before, after) = gemm(true, [2, 0, 1], Some(0));
    let proof = decide(&kit, &before, &after).expect("legal");
    assert!(proof.used_licence.is_empty());
    let (kit, before, after) = gemm(true, [0, 1, 2], Some(2));
    let v = violation(&kit, &before, &after);
    assert!(v.concurrent);
    assert_eq!(v.carried_by.as_deref(), Some("k"));
}

#[test]
fn reversing_a_sum_uses_its_licence() {
    for licence in [true, false] {
        let mut kit = Kit::new(&["N"]);
        let n = kit.size(0);
        let x = kit.array("X", vec![n.clone()], Mode::In);
        let s = kit.array("S", vec![], Mode::InOut);
        let i = kit.binder("i");
        let body = |at: Expr| reduce("S", vec![at.clone()], s, vec![], load(x, vec![at]), licence);
        let before = for_(&i, k(0), n.clone(), body(var(&i)));
        let r = kit.binder("r");
        let after = for_(&r, k(0), n.clone(), body(sub(sub(n, k(1)), var(&r))));
        match decide(&kit, &before, &after) {
            Ok(p) if licence => assert_eq!(p.used_licence.len(), 1),
            Err(OrderRefusal::Violation(_)) if !licence => {}
            other => panic!("{other:?}"),
        }
    }
}

/// `for i { A[i] = 1 }; for i { B[i] = A[i + shift] }` fused.
fn fusion(shift: i64) -> (Kit, Stmt, Stmt) {
    let mut kit = Kit::new(&["N"]);
    let n = kit.size(0);
    let a = kit.array("A", vec![add(n.clone(), k(4))], Mode::InOut);
    let b = kit.array("B", vec![n.clone()], Mode::Out);
    let (i, j, f) = (kit.binder("i"), kit.binder("i"), kit.binder("i"));
    let first = |i: Expr| store("A", vec![i.clone()], a, vec![add(i, k(2))], one());
    let second =
        |i: Expr| store("B", vec![i.clone()], b, vec![i.clone()], load(a, vec![add(i, k(2 + shift))]));
    let before =
        Stmt::seq([for_(&i, k(0), n.clone(), first(var(&i))), for_(&j, k(0), n.clone(), second(var(&j)))]);
    let after = for_(&f, k(0), n, Stmt::seq([first(var(&f)), second(var(&f))]));
    (kit, before, after)
}

#[test]
fn fusion_needs_the_producer_first() {
    for shift in [-2, -1, 0] {
        let (kit, before, after) = fusion(shift);
        decide(&kit, &before, &after).expect("legal");
        // and back
        match decide(&kit, &after, &before) {
            Ok(_) => {}
            other => panic!("{other:?}"),
        }
    }
    let (kit, before, after) = fusion(1);
    let v = violation(&kit, &before, &after);
    assert_eq!(v.kind, DepKind::Flow);
    assert_eq!(v.carried_by, None);
}

#[test]
fn each_iteration_has_its_own_local_buffer() {
    use lathe_ir::{Buffer, Layout, Space, StmtKind, Type};
    let mut kit = Kit::new(&["N"]);
    let n = kit.size(0);
    let x = kit.array("X", vec![n.clone()], Mode::InOut);
    let i = kit.binder("i");
    let t = kit.func.fresh_buf();
    let buffer = std::sync::Arc::new(Buffer {
        id: t,
        name: "t".into(),
        elem: Type::F32,
        extents: vec![],
        space: Space::Register,
        layout: Layout::row_major(),
    });
    let body = Stmt::seq([
        store("t", vec![var(&i)], t, vec![], load(x, vec![var(&i)])),
        store("X", vec![var(&i)], x, vec![var(&i)], load(t, vec![])),
    ]);
    let nest = |exec: Executor, outside: bool| {
        let alloc = |body: Stmt| Stmt::of(StmtKind::Alloc { buffer: buffer.clone(), body });
        if outside {
            alloc(for_exec(&i, k(0), n.clone(), exec, body.clone()))
        } else {
            for_exec(&i, k(0), n.clone(), exec, alloc(body.clone()))
        }
    };
    decide(&kit, &nest(Executor::Serial, false), &nest(Executor::Cpu, false)).expect("legal");
    let v = violation(&kit, &nest(Executor::Serial, true), &nest(Executor::Cpu, true));
    assert_eq!(&*v.buffer, "t");
}

#[test]
fn gathers_are_over_approximated() {
    use lathe_ir::{Access, Type};
    let mut kit = Kit::new(&["N", "M"]);
    let (n, m) = (kit.size(0), kit.size(1));
    let h = kit.array("H", vec![m], Mode::InOut);
    let at = kit.typed_array("I", vec![n.clone()], Mode::In, Type::INDEX);
    let i = kit.binder("i");
    let slot = lathe_ir::build::load(Access::buffer(at, Type::INDEX, vec![var(&i)]));
    let body = store("H", vec![var(&i)], h, vec![slot], one());
    let v = violation(
        &kit,
        &for_(&i, k(0), n.clone(), body.clone()),
        &for_exec(&i, k(0), n, Executor::Cpu, body),
    );
    assert_eq!(v.element, None);
}

#[test]
fn conditions_and_floor_division_are_exact() {
    // Even iterations write, odd ones read the cell before: no two iterations conflict but neighbours.
    let mut kit = Kit::new(&["N"]);
    let n = kit.size(0);
    let a = kit.array("A", vec![n.clone()], Mode::InOut);
    let i = kit.binder("i");
    let half = floor_div(var(&i), k(2));
    let body = store("A", vec![var(&i)], a, vec![mul(half, k(2))], one());
    let even = lathe_ir::build::eq(lathe_ir::build::floor_mod(var(&i), k(2)), k(0));
    let before = for_(&i, k(0), n.clone(), if_(even.clone(), body.clone()));
    let after = for_exec(&i, k(0), n.clone(), Executor::Cpu, if_(even, body.clone()));
    decide(&kit, &before, &after).expect("legal");
    let before = for_(&i, k(0), n.clone(), body.clone());
    let after = for_exec(&i, k(0), n, Executor::Cpu, body);
    let v = violation(&kit, &before, &after);
    assert_eq!(v.first.1[0] / 2, v.second.1[0] / 2);
}

#[test]
fn a_guarded_overlap_within_the_surroundings_is_used() {
    // for i in 0..N { A[i + M] = A[i] } is parallel where M >= N is known.
    let mut kit = Kit::new(&["N", "M"]);
    let (n, m) = (kit.size(0), kit.size(1));
    let a = kit.array("A", vec![add(n.clone(), m.clone())], Mode::InOut);
    let i = kit.binder("i");
    let body = store("A", vec![var(&i)], a, vec![add(var(&i), m.clone())], load(a, vec![var(&i)]));
    let nest = |exec| for_exec(&i, k(0), n.clone(), exec, body.clone());
    violation(&kit, &nest(Executor::Serial), &nest(Executor::Cpu));
    let guard = |s: Stmt| if_(lathe_ir::build::not(lt(m.clone(), n.clone())), s);
    decide(&kit, &guard(nest(Executor::Serial)), &guard(nest(Executor::Cpu))).expect("legal");
}
