//! Kernels of every kind of statement.

use crate::common::{Draw, check, check_twice};

fn plain(text: &str, sizes: &[(&str, i64)]) {
    check(text, sizes, Draw::default());
}

fn twice(text: &str, sizes: &[(&str, i64)]) {
    check_twice(text, sizes, Draw::default());
}

#[test]
fn products_of_matrices() {
    twice(
        "kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }",
        &[("M", 3), ("K", 4), ("N", 2)],
    );
}

#[test]
fn convolutions_plain_and_strided() {
    let text = "kernel conv(I: f32[H, W], F: f32[R, S]) -> (O: f32[H - R + 1, W - S + 1]) {
        O[p, q] = sum[r, s](I[p + r, q + s] * F[r, s])
    }";
    twice(text, &[("H", 5), ("W", 6), ("R", 3), ("S", 2)]);
    let strided = "kernel conv(I: f32[H], F: f32[R]) -> (O: f32[(H - R) // 2 + 1]) {
        O[p] = sum[r](I[2 * p + r] * F[r])
    }";
    for h in [3, 6, 7, 8] {
        twice(strided, &[("H", h), ("R", 3)]);
    }
}

#[test]
fn statements_in_place_and_after_one_another() {
    let mlp = "kernel mlp(x: f32[M, K], w: f32[K, N], bias: f32[N]) -> (y: f32[M, N]) {
        y[i, j] = sum[k](x[i, k] * w[k, j])
        act: y[i, j] = max(y[i, j] * y[i, j] + bias[j], 1)
    }";
    twice(mlp, &[("M", 3), ("K", 2), ("N", 4)]);
    let softmax = "kernel softmax(x: f32[M, N]) -> (y: f32[M, N]) {
        var top: f32[M]
        var total: f32[M]
        top[i] = max[j](x[i, j])
        y[i, j] = exp(x[i, j] - top[i])
        total[i] = sum[j](y[i, j])
        y[i, j] = y[i, j] / total[i]
    }";
    twice(softmax, &[("M", 2), ("N", 3)]);
    let layernorm = "kernel ln(x: f32[M, N], gamma: f32[N], beta: f32[N], eps: f32) -> (y: f32[M, N]) {
        var mean: f32[M]
        var variance: f32[M]
        mean[i] = sum[j](x[i, j]) / f32(N)
        variance[i] = sum[j]((x[i, j] - mean[i]) * (x[i, j] - mean[i])) / f32(N)
        y[i, j] = gamma[j] * ((x[i, j] - mean[i]) / sqrt(variance[i] + eps)) + beta[j]
    }";
    plain(layernorm, &[("M", 3), ("N", 4)]);
}

#[test]
fn stencils_in_time_loops() {
    let wave = "kernel wave(u: inout f32[T, X], c: f32) {
        for t in 0..T - 2 { for x in 1..X - 1 {
            u[t + 2, x] = 2 * u[t + 1, x] - u[t, x] + c * (u[t + 1, x + 1] * u[t + 1, x] + u[t + 1, x - 1])
        } }
    }";
    plain(wave, &[("T", 5), ("X", 6)]);
    let heat = "kernel heat(u: inout f32[2, N], a: f32[T]) {
        for t in 0..T { for x in 1..N - 1 {
            u[(t + 1) % 2, x] = u[t % 2, x] + a[t] * u[t % 2, x - 1] * u[t % 2, x + 1]
        } }
    }";
    plain(heat, &[("N", 6), ("T", 4)]);
    let in_place = "kernel seidel(u: inout f32[N]) {
        for t in 0..3 { for x in 1..N - 1 { u[x] = u[x - 1] * u[x] + 0.5 * u[x + 1] } }
    }";
    twice(in_place, &[("N", 5)]);
    let whole = "kernel steps(u: inout f32[N], v: f32[N]) {
        for t in 0..4 { u[i] = u[i] * v[i] + 0.25 * u[i] * u[i] }
    }";
    twice(whole, &[("N", 3)]);
}

/// Adjoints of elements and of a short range of the same array, one after the other.
#[test]
fn elements_and_ranges_that_have_none_in_common() {
    let text = "kernel r(x: f32[N], u: inout f32[N], w: inout f32[N]) {
    u[3] += (x[3] / (1.5 + (w[0] + 0.5) * (w[0] + 0.5)))
    if x[2] > 0.6 {
        w[4] = x[1] * x[1]
    } else {
        for i in 1..4 {
            w[i + 1] += max(x[i + 1], x[i + 1] + x[i - 1])
        }
        u[3] = x[1] * x[1]
    }
}
";
    plain(text, &[("N", 5)]);
    twice(text, &[("N", 5)]);
}

#[test]
fn gathers_and_scatters() {
    let gather = "kernel gather(X: f32[N], I: i32[A]) -> (Z: f32[A]) { Z[i] = X[I[i]] * X[I[i]] }";
    twice(gather, &[("N", 4), ("A", 6)]);
    let scatter = "kernel scatter(x: f32[N], I: i32[N], y: inout f32[B]) { count: y[I[e]] += x[e] * x[e] }";
    twice(scatter, &[("N", 5), ("B", 4)]);
    let through = "kernel put(x: f32[N], I: i32[N], y: inout f32[B]) {
        for e in 0..N { y[I[e]] = y[I[e]] * x[e] }
    }";
    twice(through, &[("N", 5), ("B", 4)]);
    let diagonal = "kernel d(A: f32[N, N]) -> (s: f32[N]) { s[i] = A[i, i] * A[i, N - 1 - i] }";
    twice(diagonal, &[("N", 4)]);
}

#[test]
fn smallest_largest_and_products() {
    let pool = "kernel pool(I: f32[H, W]) -> (O: f32[H // 2, W // 2]) {
        O[p, q] = max[r in 0..2, s in 0..2](I[2 * p + r, 2 * q + s] * I[2 * p + r, 2 * q + s])
    }";
    twice(pool, &[("H", 5), ("W", 4)]);
    plain("kernel low(x: f32[N]) -> (m: f32) { m = min[i](x[i] * 2) }", &[("N", 6)]);
    // Where it was largest is needed forward, to keep what is overwritten there.
    let chain = "kernel chain(x: f32[N], u: inout f32[N]) -> (s: f32) {
        s = 0.0
        for i in 0..3 {
            s += max[q](x[q] * u[q])
            u[j] = u[j] * u[j]
        }
    }";
    plain(chain, &[("N", 4)]);
    let running = "kernel run(x: f32[N]) -> (m: f32) { m = x[0]
        for i in 1..N { m = min(m, x[i] * x[i]) }
    }";
    plain(running, &[("N", 6)]);
    let product = "kernel product(x: f32[N]) -> (p: f32) { p = prod[i](x[i]) }";
    twice(product, &[("N", 4)]);
    let two = "kernel two(x: f32[M, N]) -> (p: f32[M]) { p[i] = 1.0
        p[i] *= x[i, j]
    }";
    plain(two, &[("M", 2), ("N", 3)]);
    plain("kernel s(x: f32[N]) -> (s: f32[N]) { s[i] = scan(sum)[i](x[i] * x[i]) }", &[("N", 5)]);
    plain("kernel s(x: f32[N]) -> (s: f32[N]) { s[i] = scan(prod)[i](x[i]) }", &[("N", 5)]);
}

#[test]
fn loops_of_every_shape() {
    let triangle = "kernel tri(A: f32[N, N]) -> (s: f32[N]) {
        for i in 0..N { s[i] = 1.0
            for j in 0..i + 1 { s[i] = s[i] * A[i, j] + A[j, i] }
        }
    }";
    twice(triangle, &[("N", 4)]);
    let rows = "kernel csr(p: i32[R + 1], x: f32[N]) -> (y: f32[R]) {
        for i in 0..R { y[i] = 0.5
            for k in index(i)..index(i) + index(p[i]) { y[i] = y[i] * x[k] + sin(x[k]) }
        }
    }";
    check(rows, &[("R", 4), ("N", 8)], Draw { below: 5, ..Draw::default() });
    let steps = "kernel strided(x: inout f32[N]) {
        for i in 0..N - 3 step 3 { x[i + 1] = x[i] * x[i + 1]
            x[i + 3] += sin(x[i + 1])
        }
    }";
    for n in 3..9 {
        plain(steps, &[("N", n)]);
    }
}

#[test]
fn local_arrays_and_lets() {
    // Products of products: small inputs keep second derivatives small.
    let calm = Draw { lo: 0.1, hi: 0.6, ..Draw::default() };
    let locals = "kernel local(x: f32[M, N]) -> (y: f32[M]) {
        for i in 0..M {
            var t: f32[N]
            var s: f32
            s = 1.0
            t[j] = x[i, j] * x[i, j]
            for j in 0..N {
                let d = t[j] + s
                s = s * d
            }
            y[i] = s * t[0]
        }
    }";
    check_twice(locals, &[("M", 2), ("N", 3)], calm);
    let late = "kernel late(x: inout f32[N]) {
        for i in 0..N - 1 {
            let a = x[i] * x[i + 1]
            x[i + 1] = exp(0.5 * a)
            x[i] = a * a + x[i + 1]
        }
    }";
    check_twice(late, &[("N", 4)], calm);
    let inner = "kernel inner(x: f32[M, N], u: inout f32[N]) {
        for i in 0..M {
            var t: f32
            t = 1.0
            for j in 0..N {
                var r: f32
                r = u[j] * t
                t = t + r * x[i, j]
                u[j] = r * r
            }
        }
    }";
    check_twice(inner, &[("M", 3), ("N", 2)], calm);
}

#[test]
fn branches_and_selections() {
    let branch = "kernel branch(x: f32[N], k: i32[N]) -> (y: f32[N]) {
        for i in 0..N {
            if k[i] == 1 { y[i] = x[i] * x[i] } else { y[i] = sin(x[i]) * 3 }
        }
    }";
    twice(branch, &[("N", 6)]);
    let lazy = "kernel lazy(x: f32[N]) -> (y: f32[N]) {
        for i in 0..N { y[i] = select(i + 1 < N, x[i] * x[i + 1], x[i] + 1) }
    }";
    twice(lazy, &[("N", 5)]);
    let notation = "kernel lazy(x: f32[N]) -> (y: f32[N]) {
        y[i] = select(i + 1 < N, x[i] * x[i + 1], select(i > 2, x[i - 1] * x[i], x[i]))
    }";
    twice(notation, &[("N", 5)]);
    let relu = "kernel relu(x: f32[N]) -> (y: f32) { y = 0.0
        for i in 0..N { if x[i] > 0 { y += x[i] * y + 1 } }
    }";
    check(relu, &[("N", 7)], Draw { lo: -1.0, hi: 1.0, ..Draw::default() });
}

#[test]
fn functions_of_numbers() {
    for f in [
        "exp(x)",
        "exp2(x)",
        "log(x)",
        "log2(x)",
        "log10(x)",
        "log1p(x)",
        "expm1(x)",
        "sin(x)",
        "cos(x)",
        "tan(x)",
        "tanh(x)",
        "sigmoid(x)",
        "erf(x)",
        "sqrt(x)",
        "atan(x)",
        "sinh(x)",
        "cosh(x)",
        "asinh(x)",
        "abs(x)",
        "asin(x * 0.5)",
        "acos(x * 0.5)",
        "atanh(x * 0.5)",
        "acosh(x + 2)",
        "pow(x, c)",
        "pow(c, x)",
        "atan2(x, c)",
        "atan2(c, x)",
        "hypot(x, c)",
        "fma(x, c, x)",
        "x / c",
        "c / x",
        "-x * c - x",
        "max(x, c)",
        "min(x, c)",
    ] {
        let text = format!("kernel f(a: f32, c: f32) -> (y: f32) {{ let x = a * 1.0\n y = {f} }}");
        twice(&text, &[]);
    }
}

#[test]
fn scalars_and_several_outputs() {
    let text = "kernel axpy(a: f32, x: f32[N], y: f32[N]) -> (z: f32[N], s: f32) {
        z[i] = a * x[i] + y[i]
        s = sum[i](z[i] * z[i]) * a
    }";
    twice(text, &[("N", 4)]);
    plain(text, &[("N", 0)]);
    plain(text, &[("N", 1)]);
    let ints = "kernel mixed(x: f32[N], n: i32[N]) -> (z: f32[N], c: i32) {
        c = sum[i](n[i])
        z[i] = x[i] * f32(n[i] + c)
    }";
    plain(ints, &[("N", 4)]);
}

#[test]
fn operators_of_users() {
    plain(
        "kernel k(x: f32[N]) -> (p: f32) { p = 2.0
        for i in 0..N { p max= x[i] * 3 }
    }",
        &[("N", 4)],
    );
}

#[test]
fn norm_divides_by_what_all_elements_give() {
    let text = "kernel norm(x: f32[N]) -> (y: f32[N]) {
        var mag: f32
        mag = sqrt(sum[i](x[i] * x[i]))
        y[i] = x[i] / mag
    }";
    twice(text, &[("N", 4)]);
}
