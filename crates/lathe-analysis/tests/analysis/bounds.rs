//! Accesses proved, checked, assumed and refused.

use crate::kit::*;
use lathe_analysis::{Assumptions, prove_accesses};
use lathe_ir::build::{add, and, float, floor_div, le, lt, min, mul, select, sub, var};
use lathe_ir::visit::walk;
use lathe_ir::{Access, Expr, ExprKind, Function, Mode, Scalar, Status, Stmt, StmtKind, Type};

fn zero() -> Expr {
    float(Scalar::F32, 0.0)
}

/// Statuses of all accesses, stores' targets last in each statement.
fn statuses(f: &Function) -> Vec<Status> {
    let mut out = Vec::new();
    walk(&f.body, &mut |s, _| {
        for e in s.exprs() {
            lathe_ir::visit::walk_expr(e, &mut |e| {
                if let ExprKind::Load(a) = e.kind() {
                    out.push(a.status.clone());
                }
            });
        }
        match s.kind() {
            StmtKind::Store(st) => out.push(st.target.status.clone()),
            StmtKind::Reduce(r) => out.extend(r.targets.iter().map(|t| t.status.clone())),
            StmtKind::Compute(c) => out.extend(c.targets.iter().map(|t| t.status.clone())),
            _ => {}
        }
        true
    });
    out
}

fn proved(kit: &Kit, body: Stmt) {
    let (module, func) = kit.with_body(body);
    let (func, diagnostics) = prove_accesses(&module, &func, Assumptions::Checked);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let found = statuses(&func);
    assert!(found.iter().all(|s| *s == Status::Proved), "{found:?}");
}

fn refused(kit: &Kit, body: Stmt) -> String {
    let (module, func) = kit.with_body(body);
    let (_, diagnostics) = prove_accesses(&module, &func, Assumptions::Checked);
    assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
    assert_eq!(diagnostics[0].code.0, "E0501");
    diagnostics[0].to_string()
}

#[test]
fn gemm_in_tiles_is_proved() {
    let mut kit = Kit::new(&["M", "N", "K"]);
    let (m, n, kk) = (kit.size(0), kit.size(1), kit.size(2));
    let a = kit.array("A", vec![m.clone(), kk.clone()], Mode::In);
    let b = kit.array("B", vec![kk.clone(), n.clone()], Mode::In);
    let c = kit.array("C", vec![m.clone(), n.clone()], Mode::InOut);
    let (io, ii, j, l) = (kit.binder("i.o"), kit.binder("i.i"), kit.binder("j"), kit.binder("k"));
    let i = add(mul(var(&io), k(32)), var(&ii));
    let value = mul(load(a, vec![i.clone(), var(&l)]), load(b, vec![var(&l), var(&j)]));
    let body = reduce("C", vec![i.clone(), var(&j), var(&l)], c, vec![i, var(&j)], value, true);
    let body = for_(&ii, k(0), min(k(32), sub(m.clone(), mul(var(&io), k(32)))), body);
    let body = for_(&l, k(0), kk, body);
    let body = for_(&j, k(0), n, body);
    let body = for_(&io, k(0), lathe_ir::build::ceil_div(m, 32), body);
    proved(&kit, body);
}

#[test]
fn convolution_stencil_and_triangle_are_proved() {
    let mut kit = Kit::new(&["N", "R"]);
    let (n, r) = (kit.size(0), kit.size(1));
    // X[N + R - 1] needs N + R >= 1: the loops say so.
    let x = kit.array("X", vec![sub(add(n.clone(), r.clone()), k(1))], Mode::In);
    let y = kit.array("Y", vec![n.clone()], Mode::InOut);
    let l = kit.array("L", vec![n.clone(), n.clone()], Mode::InOut);
    let (i, p, j) = (kit.binder("i"), kit.binder("p"), kit.binder("j"));
    let conv =
        reduce("Y", vec![var(&i), var(&p)], y, vec![var(&i)], load(x, vec![add(var(&i), var(&p))]), true);
    let conv = for_(&i, k(0), n.clone(), for_(&p, k(0), r, conv));
    let three = add(load(y, vec![sub(var(&i), k(1))]), load(y, vec![add(var(&i), k(1))]));
    let stencil = for_(&i, k(1), sub(n.clone(), k(1)), store("Y.2", vec![var(&i)], y, vec![var(&i)], three));
    let triangle = for_(
        &i,
        k(0),
        n.clone(),
        for_(
            &j,
            var(&i),
            n.clone(),
            store(
                "L",
                vec![var(&i), var(&j)],
                l,
                vec![var(&j), sub(var(&j), var(&i))],
                load(y, vec![floor_div(add(var(&i), var(&j)), k(2))]),
            ),
        ),
    );
    proved(&kit, Stmt::seq([conv, stencil, triangle]));
}

#[test]
fn an_overrun_is_refused_with_numbers() {
    for (shift, subscript) in [(1, "i + 1"), (-1, "i - 1")] {
        let mut kit = Kit::new(&["N"]);
        let n = kit.size(0);
        let a = kit.array("A", vec![n.clone()], Mode::In);
        let b = kit.array("B", vec![n.clone()], Mode::Out);
        let i = kit.binder("i");
        let value = load(a, vec![add(var(&i), k(shift))]);
        let text = refused(&kit, for_(&i, k(0), n, store("B", vec![var(&i)], b, vec![var(&i)], value)));
        assert!(text.contains(&format!("`A[{subscript}]` can be out of bounds")), "{text}");
        let note = if shift > 0 {
            "with N = 1, at i = 0, the subscript `i + 1` is 1, but `N` is 1"
        } else {
            "the subscript `i - 1` is -1"
        };
        assert!(text.contains(note), "{text}");
    }
}

#[test]
fn select_and_if_guard_an_access() {
    let mut kit = Kit::new(&["N"]);
    let n = kit.size(0);
    let a = kit.array("A", vec![n.clone()], Mode::In);
    let b = kit.array("B", vec![n.clone()], Mode::Out);
    let i = kit.binder("i");
    let next = add(var(&i), k(1));
    let value = select(lt(next.clone(), n.clone()), load(a, vec![next.clone()]), zero());
    let first = for_(&i, k(0), n.clone(), store("B", vec![var(&i)], b, vec![var(&i)], value));
    let second = for_(
        &i,
        k(-3),
        n.clone(),
        if_(
            and(le(k(0), var(&i)), lt(next.clone(), n)),
            store("B.2", vec![var(&i)], b, vec![next], load(a, vec![var(&i)])),
        ),
    );
    let (module, func) = kit.with_body(Stmt::seq([first, second]));
    let (func, diagnostics) = prove_accesses(&module, &func, Assumptions::Checked);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    use Status::{Checked, Proved};
    assert_eq!(statuses(&func), vec![Checked, Proved, Checked, Checked]);
}

#[test]
fn a_gather_is_checked_before_the_statement() {
    let mut kit = Kit::new(&["N", "M"]);
    let (n, m) = (kit.size(0), kit.size(1));
    let x = kit.array("X", vec![m.clone()], Mode::In);
    let at = kit.typed_array("I", vec![n.clone()], Mode::In, Type::I32);
    let y = kit.array("Y", vec![n.clone()], Mode::Out);
    let i = kit.binder("i");
    let slot = lathe_ir::build::cast(
        Type::INDEX,
        lathe_ir::build::load(Access::buffer(at, Type::I32, vec![var(&i)])),
    );
    let body = store("Y", vec![var(&i)], y, vec![var(&i)], load(x, vec![slot]));
    let (module, func) = kit.with_body(for_(&i, k(0), n, body));
    let (func, diagnostics) = prove_accesses(&module, &func, Assumptions::Checked);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let StmtKind::Loop(l) = func.body.kind() else { panic!() };
    let StmtKind::Seq(list) = l.body.kind() else { panic!("{:?}", l.body) };
    assert!(matches!(list[0].kind(), StmtKind::Check { code, .. } if &**code == "bounds"));
    // Proving again proves the guarded access by the check, and adds none.
    let (again, diagnostics) = prove_accesses(&module, &func, Assumptions::Checked);
    assert!(diagnostics.is_empty());
    assert_eq!(again, func);
}

#[test]
fn a_fact_of_the_user_is_named() {
    let mut kit = Kit::new(&["N", "M"]);
    let (n, m) = (kit.size(0), kit.size(1));
    let a = kit.array("A", vec![m.clone()], Mode::In);
    let b = kit.array("B", vec![n.clone()], Mode::Out);
    let i = kit.binder("i");
    let body = for_(&i, k(0), n.clone(), store("B", vec![var(&i)], b, vec![var(&i)], load(a, vec![var(&i)])));
    assert!(refused(&kit, body.clone()).contains("`A[i]`"));
    let fact = Stmt::of(StmtKind::Assume { fact: le(n, m), provenance: "line 3".into() });
    // Within a loop it is checked before the loop, or trusted; at the start of the kernel it is looked at in any case.
    let t = kit.binder("t");
    let (module, plain) = kit.with_body(for_(&t, k(0), k(2), Stmt::seq([fact.clone(), body.clone()])));
    let (func, diagnostics) = prove_accesses(&module, &plain, Assumptions::Checked);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert_eq!(statuses(&func), vec![Status::Checked, Status::Proved]);
    assert_eq!(checks(&func).iter().map(|c| c.1).collect::<Vec<_>>(), vec![0]);
    let (func, diagnostics) = prove_accesses(&module, &plain, Assumptions::Trusted);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert_eq!(statuses(&func), vec![Status::Assumed("line 3".into()), Status::Proved]);
    assert!(checks(&func).is_empty());
    let (module, func) = kit.with_body(Stmt::seq([fact, body]));
    let (func, diagnostics) = prove_accesses(&module, &func, Assumptions::Checked);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert_eq!(statuses(&func), vec![Status::Checked, Status::Proved]);
    let StmtKind::Seq(list) = func.body.kind() else { panic!() };
    assert!(matches!(list[0].kind(), StmtKind::Check { code, .. } if &**code == "assume"));
}

/// The checks of a function, as conditions, and how many loops are around each.
fn checks(func: &Function) -> Vec<(Expr, usize)> {
    let mut out = Vec::new();
    walk(&func.body, &mut |s, path| {
        if let StmtKind::Check { cond, .. } = s.kind() {
            let mut here = &func.body;
            let mut loops = 0;
            for at in path {
                loops += usize::from(here.as_loop().is_some());
                here = here.child(*at).unwrap();
            }
            out.push((cond.clone(), loops));
        }
        true
    });
    out
}

#[test]
fn what_a_scalar_decides_is_checked_once() {
    // y[i, j] = x[3 j - i + n]: both ends of the two loops, before them, as bounds of n.
    let mut kit = Kit::new(&["N", "M"]);
    let (n, m) = (kit.size(0), kit.size(1));
    let x = kit.array("x", vec![n.clone()], Mode::In);
    let y = kit.array("y", vec![m.clone(), m.clone()], Mode::Out);
    let s = kit.scalar("n");
    let (i, j) = (kit.binder("i"), kit.binder("j"));
    let at = add(sub(mul(var(&j), k(3)), var(&i)), s.clone());
    let body = store("y", vec![var(&i), var(&j)], y, vec![var(&i), var(&j)], load(x, vec![at]));
    let body = for_(&i, k(0), m.clone(), for_(&j, k(0), m.clone(), body));
    let (module, func) = kit.with_body(body);
    let (func, diagnostics) = prove_accesses(&module, &func, Assumptions::Checked);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert_eq!(statuses(&func), vec![Status::Checked, Status::Proved]);
    let found = checks(&func);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found.iter().all(|(_, loops)| *loops == 0), "{found:?}");
    let last = sub(m, k(1));
    let text = format!("{:?}", found[0].0);
    for part in [le(last.clone(), s.clone()), lt(s, sub(n, mul(last, k(3))))] {
        assert!(text.contains(&format!("{part:?}")), "{part:?} in {text}");
    }
    // A subscript that turns around is looked at in every iteration.
    let mut kit = Kit::new(&["N", "M"]);
    let (n, m) = (kit.size(0), kit.size(1));
    let x = kit.array("x", vec![n], Mode::InOut);
    let (s, i) = (kit.scalar("n"), kit.binder("i"));
    let at = lathe_ir::build::floor_mod(add(var(&i), s), k(7));
    let (module, func) = kit.with_body(for_(&i, k(0), m, store("x", vec![var(&i)], x, vec![at], zero())));
    let (func, diagnostics) = prove_accesses(&module, &func, Assumptions::Checked);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    // The sum is looked at before the loop.
    assert_eq!(checks(&func).iter().map(|c| c.1).collect::<Vec<_>>(), vec![0, 1]);
}

#[test]
fn a_stated_fact_about_data_serves_the_gather() {
    let mut kit = Kit::new(&["N", "A"]);
    let (n, a) = (kit.size(0), kit.size(1));
    let x = kit.array("X", vec![n.clone()], Mode::In);
    let at = kit.typed_array("I", vec![a.clone()], Mode::In, Type::I32);
    let z = kit.array("Z", vec![a.clone()], Mode::Out);
    let i = kit.binder("i");
    let slot = lathe_ir::build::cast(
        Type::INDEX,
        lathe_ir::build::load(Access::buffer(at, Type::I32, vec![var(&i)])),
    );
    let fact = and(le(k(0), slot.clone()), lt(slot.clone(), n));
    let fact = Stmt::of(StmtKind::Assume { fact, provenance: "line 3".into() });
    let body = store("Z", vec![var(&i)], z, vec![var(&i)], load(x, vec![slot]));
    let (module, plain) = kit.with_body(for_(&i, k(0), a, Stmt::seq([fact, body])));
    let (func, diagnostics) = prove_accesses(&module, &plain, Assumptions::Checked);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert_eq!(checks(&func).iter().map(|c| c.1).collect::<Vec<_>>(), vec![1]);
    let (func, diagnostics) = prove_accesses(&module, &plain, Assumptions::Trusted);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert!(checks(&func).is_empty());
    assert!(statuses(&func).contains(&Status::Assumed("line 3".into())));
}

#[test]
fn products_of_sizes_are_opaque_but_equal() {
    let mut kit = Kit::new(&["N", "M"]);
    let nm = mul(kit.size(0), kit.size(1));
    let a = kit.array("A", vec![nm.clone()], Mode::InOut);
    let i = kit.binder("i");
    proved(&kit, for_(&i, k(0), nm, store("A", vec![var(&i)], a, vec![var(&i)], zero())));
}

#[test]
fn a_range_that_is_data_is_checked_before_its_loop() {
    // Rows of a sparse matrix: both ends of k are looked at before each loop over k, whose range is then within `value`.
    let mut kit = Kit::new(&["N", "M"]);
    let (n, m) = (kit.size(0), kit.size(1));
    let begin = kit.typed_array("begin", vec![add(m.clone(), k(1))], Mode::In, Type::INDEX);
    let value = kit.array("value", vec![n.clone()], Mode::In);
    let y = kit.array("y", vec![m.clone()], Mode::InOut);
    let (i, j) = (kit.binder("i"), kit.binder("k"));
    let at = |e: Expr| lathe_ir::build::load(Access::buffer(begin, Type::INDEX, vec![e]));
    let body = store("y", vec![var(&i), var(&j)], y, vec![var(&i)], load(value, vec![var(&j)]));
    let rows = for_(&j, at(var(&i)), at(add(var(&i), k(1))), body);
    let (module, func) = kit.with_body(for_(&i, k(0), m, rows));
    let (func, diagnostics) = prove_accesses(&module, &func, Assumptions::Checked);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert_eq!(checks(&func).iter().map(|c| c.1).collect::<Vec<_>>(), vec![1]);
    let mut ranges = Vec::new();
    walk(&func.body, &mut |s, _| {
        ranges.extend(s.as_loop().filter(|l| &*l.binder.name == "k").map(|l| (l.lo.clone(), l.hi.clone())));
        true
    });
    let (lo, hi) = ranges.pop().expect("the loop is still there");
    let known = lathe_poly::Ranges::of_function(&func);
    for end in [&lo, &hi] {
        assert!(known.range(end).lo >= 0, "{end:?}");
    }
    // Nothing is checked twice.
    let (again, _) = prove_accesses(&module, &func, Assumptions::Checked);
    assert_eq!(checks(&again).len(), 1);
}
