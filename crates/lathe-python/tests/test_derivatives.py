"""Derivatives of kernels from Python."""

import linecache
import pickle

import numpy as np
import pytest

import lathe

loss = lathe.kernel("""kernel loss(A: f64[M, N], x: f64[N], b: f64[M], n: i32) -> (y: f64) {
    var r: f64[M]
    r[i] = sum[j](A[i, j] * x[j]) - b[i]
    y = sum[i](r[i] * r[i] * r[i]) * f64(n)
}""")


def arguments():
    rng = np.random.default_rng(1)
    return rng.random((3, 4)), rng.random(4), rng.random(3), 2


def test_gradients_of_a_number():
    A, x, b, n = arguments()
    r = A @ x - b
    want = {"A": 3 * n * np.outer(r * r, x), "x": 3 * n * A.T @ (r * r), "b": -3 * n * r * r}
    for got, w in zip(lathe.grad(loss)(A, x, b, n), want.values()):
        np.testing.assert_allclose(got, w)
    np.testing.assert_allclose(lathe.grad(loss, "x")(A, x, n=n, b=b), want["x"])
    value, (gA, gb) = lathe.value_and_grad(loss, ("b", "A"))(A, x, b, n)
    np.testing.assert_allclose(value, n * (r ** 3).sum())
    np.testing.assert_allclose(gA, want["A"])
    np.testing.assert_allclose(gb, want["b"])
    np.testing.assert_allclose(lathe.hessian(loss, "x")(A, x, b, n), 6 * n * A.T @ (r[:, None] * A), rtol=1e-12)


def test_products_are_kernels():
    gemm = lathe.kernel("kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }")
    back = lathe.vjp(gemm, wrt=("A", "B"))
    assert isinstance(back, lathe.Kernel) and back.name == "gemm_vjp"
    assert [p[0] for p in back.parameters] == ["A", "B", "C_bar", "A_bar", "B_bar"]
    rng = np.random.default_rng(2)
    A, B, C = (rng.random(s, dtype=np.float32) for s in ((3, 4), (4, 5), (3, 5)))
    for got, want in zip(back(A, B, C), (C @ B.T, A.T @ C)):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    value, tangent = lathe.jvp(gemm, wrt="A")(A, B, 2 * A)
    np.testing.assert_allclose(tangent, 2 * value, rtol=1e-5)
    # Of a derivative again, under a name of its own.
    again = lathe.vjp(back, wrt="C_bar", of="A_bar")
    np.testing.assert_allclose(again(A, B, C, A), A @ B, rtol=1e-5)
    assert lathe.vjp(gemm, wrt="A").name == "gemm_vjp"


def test_what_has_no_gradient_says_so():
    total = lathe.kernel("kernel total(x: f32[N], t: inout f32[N]) { t[i] += x[i] }")
    steps = lathe.kernel("kernel steps(x: f32[N]) -> (y: f32) { y = sum[i](floor(x[i])) }")
    square = lathe.kernel("kernel square(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] * x[i] }")
    for call in (lambda: lathe.grad(total), lambda: lathe.grad(steps), lambda: lathe.grad(square), lambda: lathe.vjp(square, "z"),
                 lambda: lathe.grad(loss, "n")):
        with pytest.raises(lathe.GradientError):
            call()
    for call in (lambda: lathe.grad("x"), lambda: lathe.vjp(square, 3), lambda: lathe.vjp(square, "a b"), lambda: lathe.hessian(loss)):
        with pytest.raises((lathe.OptionError, TypeError)):
            call()
    one = np.ones(2, np.float32)
    np.testing.assert_allclose(lathe.vjp(steps, allow_steps=True)(one, np.float32(1)), 0 * one)
    # The array that a kernel changes has a cotangent before and after.
    t_bar = 3 * one
    np.testing.assert_allclose(lathe.vjp(total)(one, one, t_bar), 3 * one)


def test_checkpoints_keep_few_states_and_the_same_bits():
    march = lathe.kernel("""kernel march(u0: f64[N], T: i32) -> (y: f64) {
        var u: f64[N]
        u[i] = u0[i]
        for t in 0..T { for i in 1..N { u[i] = u[i] * (1 - 0.3 * u[i] * u[i - 1]) } }
        y = sum[i](u[i])
    }""")
    u = np.linspace(0.1, 0.9, 7)
    for steps in (0, 1, 23):
        all_kept = lathe.grad(march, "u0")(u, steps)
        for n in (1, 3, 50):
            assert (lathe.grad(march, "u0", checkpoints=n)(u, steps) == all_kept).all()
    for wrong in (0, -1, 1.5, True, 1 << 16):
        with pytest.raises(lathe.OptionError):
            lathe.vjp(march, checkpoints=wrong)


def test_jacobians_in_both_modes():
    f = lathe.kernel("""kernel f(x: f64[M, N], c: f64) -> (s: f64[M], y: f64[N, M]) {
        s[i] = sum[j](x[i, j] * x[i, j]) * c
        y[j, i] = x[i, j] * x[i, j] * c
    }""")
    x, c = np.random.default_rng(3).random((2, 3)), 1.5
    by_s = np.zeros((2, 2, 3))
    by_y = np.zeros((3, 2, 2, 3))
    for i, j in np.ndindex(2, 3):
        by_s[i, i, j] = by_y[j, i, i, j] = 2 * c * x[i, j]
    for mode in (None, "forward", "reverse"):
        np.testing.assert_allclose(lathe.jacobian(f, "x", "s", mode=mode)(x, c), by_s)
        np.testing.assert_allclose(lathe.jacobian(f, "x", "y", mode=mode)(x, c=c), by_y)
        np.testing.assert_allclose(lathe.jacobian(f, "c", "s", mode=mode)(x, c), (x * x).sum(1))
    assert lathe.jacobian(f, "x", "s")(np.zeros((2, 0)), c).shape == (2, 2, 0)
    number = lathe.kernel("kernel number(x: f32) -> (y: f32) { y = x * x }")
    for mode in ("forward", "reverse"):
        got = lathe.jacobian(number, mode=mode)(3.0)
        assert got == 6 and got.shape == () and got.dtype == np.float32


    turn = lathe.kernel("kernel turn(x: c128[N], r: f64[N]) -> (y: c128[N], s: f64[N]) { y[i] = x[i] * x[i]\n s[i] = r[i] * r[i] }")
    for wrt, of in (("x", "y"), ("r", "y"), ("x", "s")):
        with pytest.raises(lathe.GradientError):
            lathe.jacobian(turn, wrt, of)
    assert lathe.jacobian(turn, "r", "s")(np.ones(1, complex), np.ones(1)) == 2


def test_rules_of_the_user_are_used():
    @lathe.kernel
    def rounded(x: lathe.f64["N"], y: lathe.out(lathe.f64["N"])):
        for i in range(x.shape[0]):
            y[i] = round(x[i])

    def through(x: lathe.f64["N"], y_bar: lathe.f64["N"], x_bar: lathe.out(lathe.f64["N"])):
        for i in range(x.shape[0]):
            x_bar[i] = y_bar[i] * 2

    def along(x: lathe.f64["N"], x_dot: lathe.f64["N"], y: lathe.out(lathe.f64["N"]), y_dot: lathe.out(lathe.f64["N"])):
        for i in range(x.shape[0]):
            y[i] = round(x[i])
            y_dot[i] = x_dot[i] * 2

    with pytest.raises(lathe.LatheError):
        lathe.vjp(rounded)
    ruled = rounded.with_derivative(through, lathe.kernel(along))
    x, w = np.array([0.2, 1.7]), np.array([3.0, 4.0])
    assert ruled.__wrapped__ is rounded.__wrapped__ and (ruled(x) == [0, 2]).all()
    np.testing.assert_array_equal(lathe.vjp(ruled)(x, w), 2 * w)
    np.testing.assert_array_equal(lathe.jvp(ruled)(x, w)[1], 2 * w)
    np.testing.assert_array_equal(lathe.jacobian(ruled)(x), 2 * np.eye(2))
    text = """kernel soft(x: f64[N]) -> (y: f64[N]) { y[i] = log(1.0 + exp(x[i])) }
    kernel given(x: f64[N], y_bar: f64[N]) -> (x_bar: f64[N]) { x_bar[i] = y_bar[i] / (1.0 + exp(-x[i])) }
    kernel wrong(x: f64[N], y_bar: f64[N]) -> (x_bar: f64[N]) { x_bar[i] = y_bar[i] / (1.0 + exp(x[i])) }"""
    soft, given, wrong = (lathe.kernel(text, n) for n in ("soft", "given", "wrong"))
    np.testing.assert_allclose(lathe.vjp(soft.with_derivative(given))(x, w), w / (1 + np.exp(-x)))
    with pytest.raises(lathe.LatheError) as e:
        soft.with_derivative(wrong)
    assert e.value.code == "E1307"
    with pytest.raises(lathe.LatheError):
        soft.with_derivative(3)


def test_patterns_are_found_by_data_flow():
    net = lathe.kernel("""kernel net(x: f64[N], w: f64[M], a: i32[M], b: i32[M]) -> (y: f64[M], n: i32) {
        for i in 0..M { y[i] = w[i] * sin(x[a[i]]) * select(w[i] > 0.5, x[b[i]], 2.0) }
        n = 3
    }""")
    rng = np.random.default_rng(7)
    x, w, a = rng.random(300), rng.random(400), rng.integers(0, 300, 400).astype(np.int32)
    b = (a + 7) % 300
    find = lathe.sparsity(net, "x", "y")
    rows, columns = find(x, w, a, b)
    assert sorted(zip(rows, columns)) == sorted({*zip(range(400), a), *zip(range(400), b)})
    assert find(x, 1 - w, a, b=b)[0] is rows and find(x, w, b, b)[0].size == 400
    J = lathe.jacobian(net, "x", "y")(x, w, a, b)
    for mode in (None, "forward", "reverse"):
        np.testing.assert_allclose(lathe.jacobian(net, "x", "y", mode=mode, pattern="static")(x, w, a, b), J)
    np.testing.assert_allclose(lathe.jacobian(net, "x", "y", pattern=(rows, columns))(x, w, a, b), J[rows, columns])
    none = np.zeros(0)
    assert find(none, w[:0], a[:0], b[:0])[0].size == 0
    assert lathe.jacobian(net, "x", "y", pattern="static")(none, w[:0], a[:0], b[:0]).shape == (0, 0)
    # Where floats decide, nothing is known, and all products are computed.
    data = lathe.kernel("kernel data(x: f64[N]) -> (y: f64[N]) { for i in 0..N { if x[i] > 0.5 { y[i] = x[i] } else { y[i] = x[N - 1 - i] } } }")
    assert lathe.sparsity(data)(x) is None
    np.testing.assert_array_equal(lathe.jacobian(data, pattern="static")(x), lathe.jacobian(data)(x))
    with pytest.raises(lathe.OptionError):
        lathe.jacobian(net, "x", "y", pattern="dynamic")


def test_structs_have_gradients_of_their_type():
    pull = lathe.kernel("""struct Body { x: f64, y: f64, kind: i32 }
    kernel pull(p: Body[N], w: f64) -> (e: f64) { e = sum[i](p[i].x * p[i].x * p[i].y * f64(p[i].kind) * w) }""")
    p = np.zeros(3, pull.dtype("p"))
    p["x"], p["y"], p["kind"] = [1, 2, 3], [4, 5, 6], [1, 0, 2]
    by_p, by_w = lathe.grad(pull)(p, 1.5)
    assert by_p.dtype == p.dtype and not by_p["kind"].any()
    np.testing.assert_allclose(by_p["x"], 3 * p["x"] * p["y"] * p["kind"])
    np.testing.assert_allclose(by_p["y"], 1.5 * p["x"] ** 2 * p["kind"])
    np.testing.assert_allclose(by_w, (p["x"] ** 2 * p["y"] * p["kind"]).sum())
    np.testing.assert_allclose(lathe.jvp(pull, "p")(p, 1.5, by_p)[1], (by_p["x"] ** 2 + by_p["y"] ** 2).sum())
    seeds = np.zeros((3, 2), p.dtype)
    seeds[:, 0], seeds[:, 1] = by_p, by_p[::-1]
    both = lathe.jvp(pull, "p", directions=True)(p, 1.5, seeds)[1]
    np.testing.assert_allclose(both, (by_p["x"][:, None] * seeds["x"] + by_p["y"][:, None] * seeds["y"]).sum(0))
    for call in (lambda: lathe.hessian(pull, "p"), lambda: lathe.jacobian(pull, "p"), lambda: lathe.hessian(lathe.kernel(
            "kernel h(z: c128[N]) -> (y: f64) { y = sum[i](z[i].re * z[i].im) }"))):
        with pytest.raises(lathe.GradientError):
            call()


def test_several_directions_are_one_call():
    f = lathe.kernel("""kernel f(x: f64[N], K: i32, w: f64) -> (y: f64[N], s: f64) {
        var u: f64[N]
        u[i] = x[i]
        for t in 0..K { for i in 1..N { u[i] = sin(u[i]) * u[i - 1] * w } }
        y[i] = u[i]
        s = sum[i](u[i] * u[i])
    }""")
    rng = np.random.default_rng(5)
    x, w = rng.random(4), 1.25
    x_dot, w_dot = rng.random((4, 3)), rng.random(3)
    y_bar, s_bar = rng.random((4, 2)), rng.random(2)
    y, s, y_dot, s_dot = lathe.jvp(f, wrt=("x", "w"), directions=True)(x, 3, w, x_dot, w_dot)
    x_bar, w_bar = lathe.vjp(f, wrt=("x", "w"), directions=True)(x, 3, w, y_bar, s_bar)
    one, back = lathe.jvp(f, wrt=("x", "w")), lathe.vjp(f, wrt=("x", "w"))
    for k in range(3):
        want = one(x, 3, w, x_dot[:, k].copy(), w_dot[k])
        for got, right in zip((y, s, y_dot[:, k], s_dot[k]), want):
            np.testing.assert_allclose(got, right, rtol=1e-12)
    for k in range(2):
        for got, right in zip((x_bar[:, k], w_bar[k]), back(x, 3, w, y_bar[:, k].copy(), s_bar[k])):
            np.testing.assert_allclose(got, right, rtol=1e-12)
    # More directions than one call has, and none.
    square = lathe.kernel("kernel square(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] * x[i] }")
    many = rng.random(300, dtype=np.float32)
    for mode in ("forward", "reverse"):
        np.testing.assert_array_equal(lathe.jacobian(square, mode=mode)(many), np.diag(2 * many))
        assert lathe.jacobian(square, mode=mode)(many[:0]).shape == (0, 0)
    cubes = lathe.kernel("kernel cubes(x: f64[M, N]) -> (y: f64) { y = sum[i, j](x[i, j] * x[i, j] * x[i, j]) }")
    H = lathe.hessian(cubes)(x.reshape(2, 2))
    np.testing.assert_allclose(H.reshape(4, 4), np.diag(6 * x), rtol=1e-12)


def test_jacobians_by_colouring():
    stencil = lathe.kernel("""kernel stencil(x: f64[N]) -> (y: f64[N]) {
        y[i] = x[i] * x[i] * x[max(i - 1, 0)] + sin(x[min(i + 1, N - 1)])
    }""")
    n = 31
    pattern = tuple(np.transpose([(i, j) for i in range(n) for j in (i + 1, i - 1, i) if 0 <= j < n]))
    x = np.random.default_rng(4).random(n)
    whole = lathe.jacobian(stencil)(x)
    for mode in (None, "forward", "reverse"):
        J = lathe.jacobian(stencil, mode=mode, pattern=pattern)
        np.testing.assert_allclose(J(x), whole[pattern], rtol=1e-12)
    assert lathe.derivatives._coloured(pattern[1], pattern[0]).max() == 2, "three products"
    # A column, a row, nothing: one product, in the mode that is right for it.
    for rows, columns in (([0, 1, 2], [0, 0, 0]), ([0, 0, 0], [0, 1, 2]), ([], [])):
        assert lathe.derivatives._Pattern((rows, columns), None).colours.max(initial=0) == 0
    # A derivative that the pattern leaves out, alone or beside another one.
    for leave in (0, 45):
        fewer = tuple(np.delete(p, leave) for p in pattern)
        for mode in ("forward", "reverse"):
            with pytest.raises(lathe.GradientError):
                lathe.jacobian(stencil, mode=mode, pattern=fewer)(x)
            lathe.jacobian(stencil, mode=mode, pattern=fewer, check=False)(x)
    with pytest.raises(lathe.GradientError):
        lathe.jacobian(stencil, pattern=([], []))(x)
    for wrong in (([0], [0, 1]), ([0.5], [0]), ([-1], [0]), ([0, 0], [1, 1]), 3, ([0], "x"), ([[0]], [[0]])):
        with pytest.raises(lathe.OptionError):
            lathe.jacobian(stencil, pattern=wrong)
    for call in (lambda: lathe.jacobian(stencil, pattern=([0], [n]))(x), lambda: lathe.jacobian(stencil, mode="sideways"),
                 lambda: lathe.jacobian(loss), lambda: lathe.jacobian(stencil, of=("y", "y"))):
        with pytest.raises(lathe.OptionError):
            call()


def test_random_patterns_are_coloured():
    rng = np.random.default_rng(5)
    for _ in range(50):
        rows, columns = np.nonzero(rng.random((rng.integers(1, 9), rng.integers(1, 9))) < rng.random())
        colours = lathe.derivatives._coloured(columns, rows)
        for a in range(len(rows)):
            for b in range(a):
                assert columns[a] != columns[b] or colours[a] == colours[b]
                assert rows[a] != rows[b] or columns[a] == columns[b] or colours[a] != colours[b]


WELL = lathe.kernel("kernel well(x: f64[N], a: f64) -> (y: f64) { y = sum[i](square(square(x[i]) - a)) }")
SLOPE = lathe.vjp(WELL, wrt="x")
WITH_VALUE = lathe.vjp(WELL, value=True)


@lathe.kernel
def plus(x: lathe.f64["N"], by: lathe.f64 = 1.0) -> lathe.f64["N"]:
    return lambda i: x[i] + by


@lathe.kernel
def descent(start: lathe.f64["N"], a: lathe.f64, steps: lathe.i32, x: lathe.out(lathe.f64["N"]), z: lathe.out(lathe.f64["N"])):
    g: lathe.f64["N"]
    h: lathe.f64["N"]
    for i in range(len(start)):
        x[i] = start[i]
    for t in range(steps):
        g = SLOPE(x, a, 1.0)
        for i in range(len(x)):
            x[i] -= 0.05 * g[i]
    value, h, by_a = WITH_VALUE(x, a + 1, 2.0)
    z = plus(x)
    for i in range(len(x)):
        z[i] = z[i] + value * by_a * h[i]


def test_decorated_functions_call_kernels_and_derivatives():
    start, a = np.array([1.0, 1.2, -0.8]), 0.7
    x = start.copy()
    for _ in range(4):
        x -= 0.05 * 4 * x * (x * x - a)
    r = x * x - (a + 1)
    z = x + 1 + (r @ r) * (-4 * r.sum()) * (8 * x * r)
    found = descent(start, a, 4)
    np.testing.assert_allclose(found[0], x, rtol=1e-12)
    np.testing.assert_allclose(found[1], z, rtol=1e-12)
    back, along = lathe.vjp(descent), lathe.jvp(descent)
    v, w = np.array([0.3, -1.0, 0.5]), (np.array([1.0, 2.0, -1.0]), np.array([0.2, -0.1, 0.4]))
    by_start, by_a = back(start, a, 4, *w)
    x_dot, z_dot = along(start, a, 4, v, 0.9)[2:]
    np.testing.assert_allclose(v @ by_start + 0.9 * by_a, w[0] @ x_dot + w[1] @ z_dot, rtol=1e-10)
    # What several kernels are made of stands there once; names that are taken have numbers.
    assert descent.source().count("kernel well(") == 1 and "well_vjp_2" in descent.source()


def _calls(body):
    scope = {"lathe": lathe, "SLOPE": SLOPE, "WELL": WELL}
    text = "@lathe.kernel\ndef k(x: lathe.inout(lathe.f64['N']), a: lathe.f64):\n    g: lathe.f64['N']\n    " + body + "\n"
    name = f"<calls {body}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), scope)


@pytest.mark.parametrize("body", ["g = SLOPE(x, a)", "g = SLOPE(x, a, 1.0, 2.0)", "x[0] = SLOPE(x, a, 1.0)", "h = SLOPE(x, a, 1.0)", "e, f = WELL(x, a)",
                                  "x[0] = WELL(x, a) + 1", "e = WELL(x[0], a)", "e = WELL(x, a=a)", "g = WELL(x, a)", "SLOPE(x, a, 1.0)"])
def test_wrong_calls_of_kernels_are_refused(body):
    with pytest.raises(lathe.SourceError) as e:
        _calls(body)
    assert e.value.code == "E0918" and e.value.line == 4


TREE = """extern nowhere(N)(x: in f64[N], y: out f64[N]) effects (read x[0..N], write y[0..N])
extern other(N)(x: in f64[N], y: out f64[N]) effects (read x[0..N], write y[0..N])

func nowhere_rule(N)(x: in f64[N], y_bar: in f64[N], x_bar: out f64[N]) stage plain {
  for i in 0..N { 'x_bar'[i]: x_bar[i] = 2.0:f64 * x[i] * y_bar[i] }
}

derivative nowhere = nowhere_rule

func loss(N)(x: in f64[N], s: out f64[]) stage plain {
  alloc y: f64[N]
  call nowhere(&x, &y)
  's.init'[]: s[] = 0.0:f64
  for i in 0..N { 's'[i]: s[] sum= y[i] * 3.0:f64 licensed }
}

func unknown(N)(x: in f64[N], s: out f64[]) stage plain {
  alloc y: f64[N]
  call other(&x, &y)
  's.init'[]: s[] = 0.0:f64
  for i in 0..N { 's'[i]: s[] sum= y[i] licensed }
}

func plain(N)(x: in f64[N], s: out f64[]) stage plain {
  's.init'[]: s[] = 0.0:f64
  for i in 0..N { 's'[i]: s[] sum= x[i] * x[i] * x[i] licensed }
}
"""


def test_trees_declare_externals_and_their_rules(tmp_path):
    file = tmp_path / "externals.tree"
    file.write_text(TREE)
    x = np.array([0.5, 1.0, -2.0])
    loss = lathe.load(file, "loss")
    np.testing.assert_allclose(lathe.grad(loss)(x), 6 * x)
    # The kernel keeps the text that its derivative was made of, wherever it goes.
    again = pickle.loads(pickle.dumps(lathe.vjp(loss)))
    np.testing.assert_allclose(again(x, np.array(2.0)), 12 * x)
    # Nobody said what the external is; test_externals.py does.
    for call in (lambda: loss(x), lambda: lathe.value_and_grad(loss)(x)):
        with pytest.raises(lathe.MachineError) as e:
            call()
        assert e.value.code == "E0826" and "nowhere" in str(e.value)
    with pytest.raises(lathe.GradientError) as e:
        lathe.grad(lathe.load(file, "unknown"))
    assert e.value.code == "E1302"
    plain = lathe.load(file, "plain")
    value, gradient = lathe.value_and_grad(plain)(x)
    np.testing.assert_allclose((value, *gradient), ((x ** 3).sum(), *(3 * x * x)))
    np.testing.assert_allclose(lathe.jvp(plain)(x, x)[1], 3 * (x ** 3).sum())
    np.testing.assert_allclose(lathe.hessian(plain)(x), np.diag(6 * x))
    np.testing.assert_allclose(lathe.jacobian(plain, mode="forward")(x), 3 * x * x)
    with pytest.raises(lathe.OptionError):
        lathe.sparsity(plain)


def test_what_is_on_no_device_that_is_known_is_refused():
    class Array:
        def __init__(self, shape, typestr="<f8"):
            self.__cuda_array_interface__ = {"shape": shape, "typestr": typestr, "strides": None, "data": (1 << 20, False), "version": 3}
            self.shape = shape

        def __dlpack_device__(self):
            return (2, 0)

    cube = lathe.kernel("kernel cube(x: f64[N]) -> (y: f64) { y = sum[i](x[i] * x[i] * x[i]) }")
    square = lathe.kernel("kernel square(x: f64[N]) -> (y: f64[N]) { y[i] = x[i] * x[i] }")
    there = Array((4,))
    for call in (lambda: lathe.grad(cube)(there), lambda: lathe.value_and_grad(cube)(there), lambda: lathe.hessian(cube)(there),
                 lambda: lathe.sparsity(square)(there), lambda: lathe.jacobian(square, pattern="static")(there),
                 lambda: lathe.jacobian(square, pattern=([0], [0]))(there)):
        with pytest.raises(lathe.DeviceError) as e:
            call()
        assert e.value.code == "E0916", e.value
