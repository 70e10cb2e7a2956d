//! Bounds of remapped nests, compared with the image point by point.

use crate::kit::*;
use lathe_analysis::{Env, scan_affine};
use lathe_ir::build::{add, floor_div, max, min, sub, var};
use lathe_ir::{BinOp, Binder, Expr, ExprKind, Loop, Stmt, StmtKind, UnOp, VarId};
use lathe_poly::Affine;
use std::collections::{BTreeMap, HashMap};

fn eval(e: &Expr, at: &HashMap<VarId, i64>) -> i64 {
    match e.kind() {
        ExprKind::Int(v) => *v,
        ExprKind::Var(v) => at[v],
        ExprKind::Unary(UnOp::Neg, a) => -eval(a, at),
        ExprKind::Binary(op, a, b) => {
            let (x, y) = (eval(a, at), eval(b, at));
            match op {
                BinOp::Add => x + y,
                BinOp::Sub => x - y,
                BinOp::Mul => x * y,
                BinOp::FloorDiv => x.div_euclid(y),
                BinOp::FloorMod => x.rem_euclid(y),
                BinOp::Min => x.min(y),
                BinOp::Max => x.max(y),
                BinOp::Eq => i64::from(x == y),
                _ => panic!("{op:?}"),
            }
        }
        _ => panic!("{e:?}"),
    }
}

type Point = Vec<i64>;

fn points(loops: &[(Binder, Expr, Expr)], at: &mut HashMap<VarId, i64>, out: &mut Vec<HashMap<VarId, i64>>) {
    let Some(((b, lo, hi), rest)) = loops.split_first() else {
        out.push(at.clone());
        return;
    };
    for v in eval(lo, at)..eval(hi, at) {
        at.insert(b.id, v);
        points(rest, at, out);
    }
    at.remove(&b.id);
}

/// Remaps a nest by a matrix and compares executed old points, for sizes 0..7.
fn check(
    sizes: usize,
    make: impl Fn(&mut Kit) -> Vec<(Binder, Expr, Expr)>,
    matrix: &[&[i64]],
    shift: i64,
) -> String {
    let mut kit = Kit::new(&["N", "T"][..sizes]);
    let nest = make(&mut kit);
    let new: Vec<(Binder, Affine)> = matrix
        .iter()
        .enumerate()
        .map(|(i, row)| {
            let mut f = Affine::constant(shift * i as i64);
            for (k, (b, _, _)) in row.iter().zip(&nest) {
                f = f.plus(&Affine::atom(b.id), *k).expect("small");
            }
            (kit.binder(&format!("p{i}")), f)
        })
        .collect();
    let stmt = nest.iter().rev().fold(Stmt::empty(), |s, (b, lo, hi)| for_(b, lo.clone(), hi.clone(), s));
    let mut loops: Vec<&Loop> = Vec::new();
    let mut here = &stmt;
    while let StmtKind::Loop(l) = here.kind() {
        loops.push(l);
        here = &l.body;
    }
    let (module, func) = kit.with_body(stmt.clone());
    let scan = scan_affine(&Env::root(&module, &func), &loops, &new).expect("a bijection");
    for n in 0..7 {
        for t in 0..if sizes > 1 { 5 } else { 1 } {
            let mut at: HashMap<VarId, i64> = func.sizes.iter().map(|b| b.id).zip([n, t]).collect();
            let mut old = Vec::new();
            points(&nest, &mut at, &mut old);
            let old: Vec<Point> = old.iter().map(|p| nest.iter().map(|l| p[&l.0.id]).collect()).collect();
            let mut found = Vec::new();
            points(&scan.loops, &mut at, &mut found);
            let mut count: BTreeMap<Point, usize> = BTreeMap::new();
            for p in &found {
                if scan.guards.iter().all(|g| eval(g, p) == 1) {
                    *count.entry(scan.old.iter().map(|(_, e)| eval(e, p)).collect()).or_default() += 1;
                }
            }
            assert!(count.values().all(|c| *c == 1), "{scan:?}");
            let mut expected = old.clone();
            expected.sort();
            assert_eq!(count.into_keys().collect::<Vec<_>>(), expected, "N = {n}, T = {t}: {scan:?}");
        }
    }
    format!("{:?}", scan.loops.iter().map(|l| (&l.1, &l.2)).collect::<Vec<_>>())
}

fn rectangle(kit: &mut Kit) -> Vec<(Binder, Expr, Expr)> {
    let (n, t) = (kit.size(0), kit.size(1));
    vec![(kit.binder("t"), k(0), t), (kit.binder("i"), k(1), sub(n, k(1)))]
}

#[test]
fn skews_and_wavefronts_of_a_rectangle() {
    let skewed = check(2, rectangle, &[&[1, 0], &[1, 1]], 0);
    assert_eq!(skewed, "[(0, %1), ((%3 + 1), ((%0 + %3) + -1))]".replace("%3", "%4"), "readable bounds");
    check(2, rectangle, &[&[1, 1], &[1, 0]], 0);
    check(2, rectangle, &[&[2, 1], &[1, 0]], 3);
    check(2, rectangle, &[&[0, 1], &[1, 0]], 0);
    check(2, rectangle, &[&[-1, 0], &[0, -1]], 0);
}

#[test]
fn a_diamond_has_guards() {
    check(2, rectangle, &[&[1, 1], &[1, -1]], 0);
    check(2, rectangle, &[&[2, 0], &[0, 3]], 1);
}

#[test]
fn triangles_minima_and_floor_bounds() {
    let triangle = |kit: &mut Kit| {
        let n = kit.size(0);
        let (i, j) = (kit.binder("i"), kit.binder("j"));
        let lo = max(k(0), sub(var(&i), k(2)));
        let hi = min(n.clone(), add(floor_div(var(&i), k(2)), k(2)));
        vec![(i, k(0), n), (j, lo, hi)]
    };
    check(1, triangle, &[&[1, 1], &[0, 1]], 0);
    check(1, triangle, &[&[0, 1], &[1, 0]], 0);
    let cube = |kit: &mut Kit| {
        let n = kit.size(0);
        let (i, j, l) = (kit.binder("i"), kit.binder("j"), kit.binder("k"));
        let inner = (l, var(&i), add(var(&j), k(1)));
        vec![(i.clone(), k(0), n.clone()), (j, var(&i), n), inner]
    };
    check(1, cube, &[&[1, 1, 1], &[0, 1, 0], &[0, 0, 1]], 0);
    check(1, cube, &[&[0, 0, 1], &[1, 0, 0], &[0, 1, 0]], 0);
}

#[test]
fn a_singular_map_is_refused() {
    let mut kit = Kit::new(&["N"]);
    let n = kit.size(0);
    let (i, j) = (kit.binder("i"), kit.binder("j"));
    let stmt = for_(&i, k(0), n.clone(), for_(&j, k(0), n, Stmt::empty()));
    let StmtKind::Loop(outer) = stmt.kind() else { panic!() };
    let StmtKind::Loop(inner) = outer.body.kind() else { panic!() };
    let f = Affine::atom(i.id).plus(&Affine::atom(j.id), 1).expect("small");
    let new = vec![(kit.binder("p"), f.clone()), (kit.binder("q"), f)];
    let (module, func) = kit.with_body(stmt.clone());
    let refused = scan_affine(&Env::root(&module, &func), &[outer, inner], &new);
    assert!(refused.is_err());
}
