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
