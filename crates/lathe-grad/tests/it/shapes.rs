//! What derived functions look like: nothing for what is inactive, statements in index notation where there were, no
//! tape for what still stands.

use crate::common::{derive, kernel};
use lathe_grad::{Mode, Request, differentiate};
use lathe_ir::text::print_function;
use lathe_ir::visit::walk;
use lathe_ir::{Combine, Function, Stmt};

fn statements(f: &Function) -> Vec<Stmt> {
    let mut out = Vec::new();
    walk(&f.body, &mut |s, _| {
        if s.label().is_some() {
            out.push(s.clone());
        }
        true
    });
    out
}

fn names(f: &Function) -> Vec<String> {
    f.params.iter().map(|p| format!("{} {}", p.mode.name(), p.name())).collect()
}

#[test]
fn the_adjoint_of_a_product_is_two_products() {
    let (m, f) = kernel(
        "kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }",
    );
    let d = derive(&m, &f, Mode::Reverse).expect("a derivative");
    assert_eq!(names(&d.func), ["in A", "in B", "in C_bar", "out A_bar", "out B_bar"]);
    let all = statements(&d.func);
    let text = print_function(&d.func);
    assert_eq!(all.len(), 2, "{text}");
    for s in &all {
        let c = s.as_compute().expect("index notation");
        assert!(c.update.is_none() && c.guard.is_none(), "{text}");
        assert_eq!(c.dims.iter().filter(|d| d.combine != Combine::Concat).count(), 1, "{text}");
    }
    let only = Request { wrt: vec!["B".into()], ..Request::new(Mode::Reverse, "g") };
    let d = differentiate(&m, &f, &only).expect("a derivative");
    assert_eq!(names(&d.func), ["in A", "in B", "in C_bar", "out B_bar"]);
    assert_eq!(statements(&d.func).len(), 1);
    let d = derive(&m, &f, Mode::Forward).expect("a derivative");
    assert_eq!(names(&d.func), ["in A", "in B", "in A_dot", "in B_dot", "out C", "out C_dot"]);
}

#[test]
fn a_gather_stays_a_box_that_writes_every_element_once() {
    let (m, f) =
        kernel("kernel conv(I: f32[H], F: f32[R]) -> (O: f32[H - R + 1]) { O[p] = sum[r](I[p + r] * F[r]) }");
    let d = derive(&m, &f, Mode::Reverse).expect("a derivative");
    for s in statements(&d.func) {
        let c = s.as_compute().expect("index notation");
        assert!(c.guard.is_none() && c.update.is_none(), "{}", print_function(&d.func));
    }
}

#[test]
fn linear_loops_keep_nothing() {
    let (m, f) = kernel(
        "kernel heat(u: inout f32[N], a: f32) {
            var v: f32[N]
            for t in 0..10 {
                for x in 1..N - 1 { v[x] = u[x] + 0.25 * (u[x - 1] + u[x + 1]) }
                for x in 1..N - 1 { u[x] = v[x] }
            }
        }",
    );
    let request = Request { wrt: vec!["u".into()], ..Request::new(Mode::Reverse, "g") };
    let d = differentiate(&m, &f, &request).expect("a derivative");
    assert!(d.kept.is_empty(), "{}", print_function(&d.func));
    assert!(statements(&d.func).iter().all(|s| s.label().is_some_and(|l| !l.as_str().ends_with("tape"))));
}

#[test]
fn what_is_written_along_a_dimension_of_time_is_read_again() {
    let (m, f) = kernel(
        "kernel wave(u: inout f32[T, X]) {
            for t in 0..T - 1 { for x in 1..X - 1 { u[t + 1, x] = u[t, x] * u[t, x - 1] * u[t, x + 1] } }
        }",
    );
    let d = derive(&m, &f, Mode::Reverse).expect("a derivative");
    assert!(d.kept.is_empty(), "{}", print_function(&d.func));
}

#[test]
fn a_tape_has_the_shape_of_the_loops() {
    let (m, f) = kernel(
        "kernel k(u: inout f32[N], a: f32[T]) {
            for t in 0..T { for x in 0..N { u[x] = u[x] * u[x] * a[t] } }
        }",
    );
    let d = derive(&m, &f, Mode::Reverse).expect("a derivative");
    assert_eq!(d.kept.len(), 1, "{}", print_function(&d.func));
    assert_eq!(d.kept[0].extents.len(), 2);
}

#[test]
fn places_that_read_the_same_value_share_a_tape() {
    let text = "kernel k(u: inout f32[N], a: f32[T]) {
        for t in 0..T { for x in 0..N {
            let p = sin(u[x]) * a[t]
            let q = cos(u[x]) * u[x]
            u[x] = p * q
            if a[t] > 0.5 { u[x] = u[x] * exp(u[x]) }
        } }
    }";
    let (m, f) = kernel(text);
    let d = derive(&m, &f, Mode::Reverse).expect("a derivative");
    // One before the first write, one after it.
    assert_eq!(d.kept.len(), 2, "{}", print_function(&d.func));
    crate::common::check(text, &[("N", 3), ("T", 4)], crate::common::Draw::default());
}

/// Statements that are not in index notation.
fn in_loops(f: &Function) -> usize {
    statements(f).iter().filter(|s| s.as_compute().is_none()).count()
}

#[test]
fn loops_over_elements_of_their_own_are_index_notation() {
    let heat = "kernel heat(u: inout f32[N], c: f32[N], T: i32) {
        var v: f32[N]
        for t in 0..T {
            for x in 1..N - 1 { v[x] = u[x] + c[x] * (u[x - 1] - 2 * u[x] + u[x + 1]) * u[x] }
            for x in 1..N - 1 { u[x] = v[x] }
        }
    }";
    let (m, f) = kernel(heat);
    let d = derive(&m, &f, Mode::Reverse).expect("a derivative");
    assert_eq!(in_loops(&d.func), 0, "{}", print_function(&d.func));
    // The three neighbours are read from one tape; what an iteration fills itself is not kept.
    assert_eq!(d.kept.len(), 1, "{}", print_function(&d.func));
    for n in 0..6 {
        crate::common::check(heat, &[("N", n)], crate::common::Draw::default());
    }
    let product = "kernel gemm(A: f32[M, K], B: f32[K, N], C: inout f32[M, N]) {
        for i in 0..M { for j in 0..N { for k in 0..K { C[i, j] += A[i, k] * B[k, j] } } }
    }";
    let (m, f) = kernel(product);
    let d = derive(&m, &f, Mode::Reverse).expect("a derivative");
    assert_eq!(in_loops(&d.func), 0, "{}", print_function(&d.func));
    crate::common::check(product, &[("M", 2), ("N", 3), ("K", 4)], crate::common::Draw::default());
    let cell = "kernel cell(x: f32[T, H], w: f32[2, H], c: inout f32[H]) -> (y: f32[H]) {
        var h: f32[H]
        h[j] = 0
        for t in 0..T { for j in 0..H {
            let forget = sigmoid(x[t, j] * w[0, j] + h[j])
            let leave = tanh(x[t, j] * w[1, j] + h[j])
            c[j] = forget * c[j] + x[t, j]
            h[j] = leave * tanh(c[j])
        } }
        y[j] = h[j]
    }";
    let (m, f) = kernel(cell);
    let d = derive(&m, &f, Mode::Reverse).expect("a derivative");
    assert_eq!(in_loops(&d.func), 0, "{}", print_function(&d.func));
    for (t, h) in [(0, 2), (1, 1), (3, 4)] {
        crate::common::check(cell, &[("T", t), ("H", h)], crate::common::Draw::default());
    }
}

#[test]
fn loops_that_are_no_index_notation_keep_their_order() {
    let all = [
        // Values of the iteration before.
        "kernel k(u: inout f32[N]) { for x in 1..N { u[x] = u[x] * u[x - 1] } }",
        // Of the iteration after it, and of another statement.
        "kernel k(u: inout f32[N], v: inout f32[N]) { for x in 0..N - 1 { v[x] = u[x] * u[x]
            u[x] = v[x + 1] * u[x] } }",
        // What is overwritten before it is used.
        "kernel k(u: inout f32[N], v: inout f32[N]) { for x in 0..N { let old = u[x]
            u[x] = v[x] * v[x]
            v[x] = old * u[x] } }",
        // What an inner loop overwrites.
        "kernel k(u: inout f32[N]) { for x in 0..N { let first = u[x]
            for y in 0..3 { u[x] = u[x] * first } } }",
        "kernel k(u: inout f32[N], v: inout f32[N]) { for x in 0..N { let first = exp(u[0] * v[x])
            for y in 0..3 { v[x] += first * u[x] } } }",
        // Sums into an element that is read.
        "kernel k(u: f32[N], s: inout f32) { for x in 0..N { s += u[x] * s } }",
        "kernel k(u: inout f32[N], s: inout f32) { for x in 0..N { s += u[x] * u[x]
            u[x] = u[x] * s } }",
        // Ranges that are no boxes.
        "kernel k(u: f32[N], v: inout f32[N]) { for x in 0..N { for y in 0..x { v[x] += u[y] * u[x] } } }",
        // One element from two ends.
        "kernel k(u: inout f32[N]) { for x in 0..N { u[x] = u[x] * u[N - 1 - x] } }",
    ];
    for text in all {
        for n in [1, 2, 5] {
            crate::common::check(text, &[("N", n)], crate::common::Draw::default());
        }
    }
}

#[test]
fn arrays_that_an_iteration_fills_are_its_own() {
    let text = "kernel k(p: inout f32[N], steps: i32) {
        var r: f32[N, N]
        var a: f32[N]
        for t in 0..steps {
            r[i, j] = (p[i] - p[j]) * (p[i] - p[j]) + 1
            a[i] = sum[j](p[j] / r[i, j])
            p[i] = p[i] + 0.1 * a[i]
        }
    }";
    let (m, f) = kernel(text);
    let d = derive(&m, &f, Mode::Reverse).expect("a derivative");
    assert_eq!(d.kept.len(), 1, "{}", print_function(&d.func));
    assert_eq!(d.kept[0].extents.len(), 2, "{}", print_function(&d.func));
    crate::common::check_twice(text, &[("N", 3)], crate::common::Draw::default());
    // Filled in part only, or read before: what was there is needed.
    let part = "kernel k(p: inout f32[N]) {
        var a: f32[N]
        a[i] = 1
        for t in 0..3 {
            for i in 1..N { a[i] = a[i - 1] * p[i] }
            p[i] = p[i] * a[i]
        }
    }";
    crate::common::check(part, &[("N", 4)], crate::common::Draw::default());
}

#[test]
fn cotangents_of_an_element_are_one_sum() {
    let norm = "kernel norm(x: f32[N]) -> (y: f32[N]) {
        var mag: f32
        mag = sqrt(sum[i](x[i] * x[i]))
        y[i] = x[i] / mag
    }";
    let (m, f) = kernel(norm);
    let d = derive(&m, &f, Mode::Reverse).expect("a derivative");
    let x_bar =
        d.func.params.iter().find(|p| &**p.name() == "x_bar").and_then(|p| p.array()).expect("an array").id;
    let writers =
        statements(&d.func).iter().filter(|s| s.written().any(|v| v.buffer() == Some(x_bar))).count();
    assert_eq!(writers, 1, "{}", print_function(&d.func));
    crate::common::check_twice(norm, &[("N", 4)], crate::common::Draw::default());
}

/// Statements that evaluate `exp`.
fn exponentials(f: &Function) -> usize {
    let has = |s: &&Stmt| {
        let mut found = false;
        for e in s.exprs() {
            lathe_ir::visit::walk_expr(e, &mut |x| {
                found |= matches!(x.kind(), lathe_ir::ExprKind::Math(lathe_ir::MathFn::Exp, _));
            });
        }
        found
    };
    statements(f).iter().filter(has).count()
}

#[test]
fn multiples_of_a_sum_use_the_sum() {
    let text = "kernel lse(x: f32[M, N]) -> (y: f32[M]) {
        var top: f32[M]
        var total: f32[M]
        top[i] = max[j](x[i, j])
        total[i] = sum[j](exp(x[i, j] - top[i]))
        y[i] = log(total[i]) + top[i]
    }";
    let (m, f) = kernel(text);
    let d = derive(&m, &f, Mode::Reverse).expect("a derivative");
    assert_eq!(exponentials(&d.func), 2, "{}", print_function(&d.func));
    for (r, c) in [(2, 3), (1, 1), (0, 2)] {
        crate::common::check_twice(text, &[("M", r), ("N", c)], crate::common::Draw::default());
    }
}

#[test]
fn functions_of_few_indices_are_evaluated_once() {
    let text = "kernel k(x: f32[N, D], q: f32[K, D]) -> (e: f32[N, K]) {
        e[n, k] = sum[d](exp(2 * q[k, d]) * x[n, d] * x[n, d])
    }";
    let (m, f) = kernel(text);
    let d = derive(&m, &f, Mode::Reverse).expect("a derivative");
    assert_eq!(exponentials(&d.func), 1, "{}", print_function(&d.func));
    // Not into an array that is larger than what it is a function of.
    let pairs = "kernel k(x: f32[N], y: f32[M], w: f32[N, M, D]) -> (s: f32[D]) {
        s[d] = sum[n, m](exp(x[n] * y[m]) * w[n, m, d])
    }";
    let (m, f) = kernel(pairs);
    let d = derive(&m, &f, Mode::Reverse).expect("a derivative");
    let locals = |s: &Stmt| s.allocated().is_some_and(|b| b.name.contains("once"));
    let mut found = false;
    walk(&d.func.body, &mut |s, _| {
        found |= locals(s);
        true
    });
    assert!(!found, "{}", print_function(&d.func));
    for (n, d) in [(2, 3), (0, 2), (2, 0)] {
        crate::common::check_twice(text, &[("N", n), ("D", d), ("K", 2)], crate::common::Draw::default());
    }
}

#[test]
fn adjoints_of_stencils_are_stencils() {
    let line = "kernel k(u: f32[N]) -> (v: f32[N]) { v[x] = 0
        for x in 1..N - 2 { v[x] = u[x - 1] * u[x] * u[x + 2] } }";
    let (m, f) = kernel(line);
    let d = derive(&m, &f, Mode::Reverse).expect("a derivative");
    let u_bar =
        d.func.params.iter().find(|p| &**p.name() == "u_bar").and_then(|p| p.array()).expect("an array").id;
    let reads = |s: &Stmt| s.exprs().into_iter().flat_map(lathe_ir::visit::loads_of).count();
    let all = statements(&d.func);
    let widest = all.iter().filter(|s| s.written().any(|v| v.buffer() == Some(u_bar))).map(reads).max();
    // Three terms of three factors each, in one statement.
    assert!(widest >= Some(8), "{}", print_function(&d.func));
    for n in 0..8 {
        crate::common::check(line, &[("N", n)], crate::common::Draw::default());
    }
    let plane = "kernel k(u: inout f32[M, N], T: i32) {
        var v: f32[M, N]
        for t in 0..T {
            for x in 1..M - 1 { for y in 1..N - 1 {
                v[x, y] = u[x, y] + 0.1 * u[x, y] * (u[x - 1, y] + u[x + 1, y] + u[x, y - 1] + u[x, y + 1])
            } }
            for x in 1..M - 1 { for y in 1..N - 1 { u[x, y] = v[x, y] } }
        }
    }";
    for (m, n) in [(0, 3), (1, 1), (2, 5), (3, 3), (4, 3), (3, 5), (5, 6)] {
        crate::common::check(plane, &[("M", m), ("N", n)], crate::common::Draw::default());
    }
}
