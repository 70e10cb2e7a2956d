"""Kernels of Lathe and their derivatives on buffers of `lathe.device`: programs that run as those of device_programs.py do."""

import os
import sys

import numpy as np

import lathe
from device_programs import CASES, GEMM, main, opened, programs, refused
from lathe.device import Buffer, Part, PinnedBuffer, read, write

# Derivatives: time loops with tapes and with checkpoints, gathers, scatters, conditions, `while`, scans, products. The others
# only where there is time.
EXAMPLES = ["charges", "gmm", "heat:heat_few", "kmeans", "lookup", "norm", "polynomial"]
MORE = ["bundle", "determinant", "hand:hand_jvp", "heat", "least_squares", "logsumexp", "lstm", "minimax:highest", "network", "ode",
        "reprojection", "runge_kutta", "saddle:saddle_hvp"]


def kernels_of_lathe_on_buffers():
    devices, rng = opened(2), np.random.default_rng(1)
    gemm = lathe.kernel(GEMM)
    a, b = rng.random((33, 20), np.float32), rng.random((20, 48), np.float32)
    A, B, C = Buffer(devices, a), PinnedBuffer(devices, b), Buffer.empty(devices, (33, 48), np.float32)
    launch = devices[1].launch(gemm, A, B, C)
    assert np.allclose(C.numpy(), a @ b, rtol=1e-5) and launch.compiled in ("new", "cached")
    # What one device made, another one uses; rows of a buffer are an array, too.
    D = Buffer.empty(devices, (1, 48), np.float32)
    devices[0].launch(gemm, A[32:], B, D)
    assert np.allclose(D.numpy(), a[32:] @ b, rtol=1e-5)
    double = lathe.kernel("kernel double(x: f32[N], a: f32) -> (y: f32[N]) { y[i] = a * x[i] } strategy mine for double = split(i, 4)")
    y = Buffer.empty(devices, 48, np.float32)
    devices[1].launch(double, D.reshape(48), 2.5, y)
    assert np.allclose(y.numpy(), 2.5 * (a[32] @ b), rtol=1e-5)
    any_ = lathe.kernel("kernel twice<T in {f32, f64, i32}>(x: T[N]) -> (y: T[N]) { y[i] = x[i] + x[i] }")
    for dtype in (np.int32, np.float64, np.float32):
        x, y = Buffer(devices, np.arange(7, dtype=dtype)), Buffer.empty(devices, 7, dtype)
        devices[0].launch(any_, x, y)
        assert y.numpy().tolist() == [0, 2, 4, 6, 8, 10, 12]
    total = lathe.kernel("kernel total(x: i32[N], t: inout i32[N]) { t[i] += x[i] }")
    t = Buffer(devices, np.arange(5, dtype=np.int32))
    x = Buffer(devices, np.full(5, 3, np.int32))
    for d in devices:
        d.launch(total, x, t)
    assert t.numpy().tolist() == [6, 7, 8, 9, 10]
    with refused(lathe.DtypeError, "E0808", "C"):
        devices[0].launch(gemm, A, B)
    with refused(lathe.DtypeError, "E0809", "`B`"):
        devices[0].launch(gemm, A, Buffer(devices, b.astype(np.float64)), C)
    with refused(lathe.ShapeError, "E0810"):
        devices[0].launch(gemm, A, B.reshape(960), C)
    with refused(lathe.ShapeError, "E0811"):
        devices[0].launch(gemm, A, B, D)
    with refused(lathe.OverlapError, "E0812"):
        devices[0].launch(total, t, t)
    # The first buffer of other devices has the number of the first one of these.
    with refused(lathe.ArgumentError, "E0850"):
        devices[0].launch(gemm, A, B, Buffer.empty(opened(1), (33, 48), np.float32))
    with refused(lathe.ArgumentError, "E0850"):
        devices[0].launch(gemm, a, B, C)
    with refused(lathe.ArgumentError, "E0850"):
        devices[0].launch(gemm, read(A), read(B), write(C))
    with refused(lathe.OptionError, "E0917"):
        devices[0].launch(gemm, A, B, C, threads=2)
    with refused(lathe.StrategyError, "E0903"):
        devices[0].launch(gemm, A, B, C, strategy="none of them")
    with refused(lathe.ArgumentError, "E0850", "16"):
        devices[0].launch(total, x[1:3], t[1:3])


def calls_on_buffers_run_where_they_are():
    devices, rng = opened(), np.random.default_rng(3)
    gemm = lathe.kernel(GEMM)
    a, b = rng.random((33, 20), np.float32), rng.random((20, 48), np.float32)
    A, B = Buffer(devices, a), Buffer(devices, b)
    C = gemm(A, B)
    assert isinstance(C, Buffer) and C.devices is devices and np.allclose(C.numpy(), a @ b, rtol=1e-5)
    assert np.allclose(gemm(B=B, A=A).numpy(), a @ b, rtol=1e-5)
    out = Buffer.empty(devices, (33, 48), np.float32)
    assert gemm(A, B, out=out) is out and np.allclose(out.numpy(), a @ b, rtol=1e-5)
    two = lathe.kernel("kernel two<T in {f32, f64}>(x: T[N], a: T) -> (y: T[N], s: T) { y[i] = a * x[i]\n s = sum[i](x[i]) }")
    for dtype in (np.float32, np.float64):
        x = rng.random(100).astype(dtype)
        y, s = two(Buffer(devices, x), 2.0)
        assert y.dtype == s.dtype == dtype and np.allclose(y.numpy(), 2 * x) and np.allclose(s.numpy(), x.sum())
    total = lathe.kernel("kernel total(x: i32[N], t: inout i32[N]) { t[i] += x[i] }")
    t = Buffer(devices, np.arange(5, dtype=np.int32))
    assert total(Buffer(devices, np.full(5, 3, np.int32)), t) is None and t.numpy().tolist() == [3, 4, 5, 6, 7]
    with refused(lathe.ArgumentError, "E0850", "`B`"):
        gemm(A, b)
    with refused(lathe.ShapeError, "E0811"):
        gemm(A, A)
    with refused(lathe.DtypeError, "E0808"):
        gemm(A)
    with refused(lathe.OptionError, "E0917", "threads"):
        gemm(A, B, threads=2)
    more = opened(2)
    with refused(lathe.DeviceError, "E0916", "2 devices"):
        gemm(Buffer(more, a), Buffer(more, b))


def derivatives_run_where_their_arguments_are():
    devices, rng = opened(), np.random.default_rng(4)
    loss = lathe.kernel("""kernel loss(A: f64[M, N], x: f64[N], b: f64[M], n: i32) -> (y: f64) {
        var r: f64[M]
        r[i] = sum[j](A[i, j] * x[j]) - b[i]
        y = sum[i](r[i] * r[i] * r[i]) * f64(n)
    }""")
    squares = lathe.kernel("kernel squares(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] * x[max(i - 1, 0)] }")
    given = rng.random((3, 40)), rng.random(40), rng.random(3)
    there = [Buffer(devices, g) for g in given]

    def same(mine, want):
        assert isinstance(mine, Part) and mine.devices is devices and tuple(mine.shape) == want.shape, mine
        np.testing.assert_allclose(mine.numpy(), want, rtol=1e-5)

    before = devices.counters()
    made = lathe.grad(loss)(*there, 2)
    after = devices.counters()
    # Arguments went there once, with the cotangent; nothing came back.
    moved = [after[n] - before[n] for n in ("to_device_bytes", "from_device_bytes")]
    assert moved == [sum(g.nbytes for g in given) + 8, 0], moved
    for mine, want in zip(made, lathe.grad(loss)(*given, 2)):
        same(mine, want)
    (value, gradient), (v, g) = (lathe.value_and_grad(loss, "x")(*args, n=2) for args in (there, given))
    same(value, v)
    same(gradient, g)
    same(lathe.hessian(loss, "x")(*there, 2), lathe.hessian(loss, "x")(*given, 2))
    for n in (1, 5, 300):
        x = rng.random(n, np.float32)
        for mode in ("forward", "reverse"):
            same(lathe.jacobian(squares, mode=mode)(Buffer(devices, x)), lathe.jacobian(squares, mode=mode)(x))
    X = Buffer(devices, x)
    for mine, want in zip(lathe.jvp(squares)(X, X), lathe.jvp(squares)(x, x)):
        same(mine, want)
    same(lathe.vjp(squares)(X, X), lathe.vjp(squares)(x, x))
    same(lathe.hvp(loss, "x")(*there, 2, Buffer(devices, np.ones(())), there[1])[1], lathe.hvp(loss, "x")(*given, 2, np.ones(()), given[1])[1])
    for call in (lambda: lathe.sparsity(squares)(X), lambda: lathe.jacobian(squares, pattern="static")(X),
                 lambda: lathe.jacobian(squares, pattern=([0], [0]))(X)):
        with refused(lathe.DeviceError, "E0916", "host"):
            call()
    with refused(lathe.ArgumentError, "E0850", "`x`"):
        lathe.grad(loss)(there[0], given[1], there[2], 2)


def gradients_of_examples():
    """Tapes are memory of the device; what data decide is one block's; checks fail there."""
    devices, rng = opened(), np.random.default_rng(5)
    folder = os.path.join(os.environ.get("LATHE_ROOT", os.path.join(os.path.dirname(__file__), "../../..")), "examples/gradients")
    for name in EXAMPLES + MORE * (CASES > 0):
        file, _, kernel = name.partition(":")
        k = lathe.load(os.path.join(folder, f"{file}.lathe"), kernel or f"{file}_vjp")
        rules, formulas = k.shape_rules()
        sizes = [3 + n % 3 for n in range(len(rules))]
        given = []
        for (p, mode, kind), extents in zip(k.parameters, formulas):
            if mode == "out":
                continue
            shape = [eval(e, {"s": sizes, "min": min, "max": max}) for e in extents]  # noqa: S307 - formulas of the package
            dtype = k.dtype(p)
            if "[" not in kind:
                given.append(4 if dtype.kind == "i" else 0.7)
            elif dtype.kind == "i":
                given.append(rng.integers(0, 3, shape, dtype))
            else:
                given.append(np.asarray(rng.random(shape) + 0.25).astype(dtype))
        there = [Buffer(devices, g) if isinstance(g, np.ndarray) else g for g in given]
        mine, want = k(*there), k(*given)
        mine, want = ([] if r is None else r if isinstance(r, tuple) else [r] for r in (mine, want))
        pairs = [*zip(mine, want), *((t, g) for t, g, p in zip(there, given, k.parameters) if p[1] == "inout")]
        assert pairs, name
        for m, w in pairs:
            np.testing.assert_allclose(m.numpy(), w, rtol=1e-4, atol=1e-4 * (abs(w).max() if w.size else 0), err_msg=name)


def complex_numbers_lie_in_buffers():
    devices, rng = opened(), np.random.default_rng(5)
    for dtype, name in (np.complex64, "c64"), (np.complex128, "c128"):
        if name == "c128" and "f64" not in devices[0].info.features:
            continue
        near = 1e-4 if name == "c64" else 1e-12
        z, w = ((rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(dtype) for s in ((33, 65), (65, 17)))
        turn = lathe.kernel(f"kernel turn(a: {name}, x: {name}[M, N]) -> (y: {name}[M, N]) {{ y[i, j] = a * x[i, j] / (x[i, j] + 2.0i) }}")
        both = lathe.kernel(f"""kernel both(A: {name}[M, K], B: {name}[K, N]) -> (C: {name}[M, N], s: {name}[M]) {{
            C[i, j] = sum[k](A[i, k] * B[k, j])
            s[i] = sum[k](conj(A[i, k]) * A[i, k])
        }}""")
        X, Y = Buffer(devices, z), Buffer.empty(devices, z.shape, dtype)
        devices[0].launch(turn, Buffer(devices, np.array(1 - 2j, dtype)), X, Y)
        np.testing.assert_allclose(Y.numpy(), (1 - 2j) * z / (z + 2j), rtol=near, atol=near)
        B, C, s = Buffer(devices, w), Buffer.empty(devices, (33, 17), dtype), Buffer.empty(devices, 33, dtype)
        for options in {}, {"strategy": "naive"}:
            devices[0].launch(both, X, B, C, s, **options)
            np.testing.assert_allclose(C.numpy(), z @ w, rtol=near, atol=near * 10)
            np.testing.assert_allclose(s.numpy(), (z.conj() * z).sum(1), rtol=near, atol=near * 10)
        with refused(lathe.DtypeError, "E0809", name):
            devices[0].launch(turn, Buffer(devices, np.array(1, z.real.dtype)), X, Y)


if __name__ == "__main__":
    sys.exit(0 if main(programs(sys.modules["__main__"]), sys.argv[2:]) else 1)
