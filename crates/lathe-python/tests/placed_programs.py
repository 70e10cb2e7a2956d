"""Programs whose arrays are on a CUDA device: arrays of JAX, and contractions and tuning of those of PyTorch, CuPy and JAX.
`python placed_programs.py [NAME...]` runs them and prints what became of each."""

import os
import sys
import tempfile
import warnings

import numpy as np

import lathe
from device_programs import Skipped, main, programs, refused

add = lathe.kernel("kernel add(x: f32[N], y: f32[N]) -> (z: f32[N]) { z[i] = x[i] + y[i] }")
gemm = lathe.kernel("kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }")
axpy = lathe.kernel("kernel axpy(a: f32, x: f32[N], y: f32[N]) -> (z: f32[N]) { z[i] = a * x[i] + y[i] }")


def of_jax():
    try:
        import jax
    except ImportError:
        raise Skipped("no JAX") from None
    try:
        device = jax.devices("cuda")[0]
    except RuntimeError:
        raise Skipped("JAX has no CUDA device") from None
    return jax, device


def of_torch():
    try:
        import torch
    except ImportError:
        raise Skipped("no PyTorch") from None
    if not torch.cuda.is_available():
        raise Skipped("PyTorch has no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch


def numbers(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def arrays_of_jax_are_used_where_they_are():
    jax, device = of_jax()
    a, b = numbers(33, 20), numbers(20, 7, seed=1)
    A, B = jax.device_put(a, device), jax.device_put(b, device)
    C = gemm(A, B)
    assert isinstance(C, jax.Array) and C.devices() == {device} and np.allclose(C, a @ b, atol=1e-4)
    for n in (0, 1, 31, 1 << 20):
        x = numbers(n)
        assert np.array_equal(add(jax.device_put(x, device), jax.device_put(x, device)), x + x)
    x = numbers(1000)
    X = jax.device_put(x, device)
    assert np.allclose(axpy(2.5, X, X), 3.5 * x, atol=1e-5)
    # In order with what JAX itself computes.
    for n in range(10):
        X = add(X * 1, X * 1)
    assert np.allclose(X, 1024 * x, rtol=1e-5)


def operators_of_jax_are_part_of_programs():
    jax, device = of_jax()
    import jax.numpy as jnp

    import lathe.jax

    op, scaled = lathe.jax.op(gemm), lathe.jax.op(axpy)
    a, b = numbers(64, 32), numbers(32, 48, seed=1)
    A, B = jax.device_put(a, device), jax.device_put(b, device)
    f = jax.jit(lambda p, q: jnp.tanh(op(p * 2, q)) + 1)
    assert np.allclose(f(A, B), np.tanh(2 * a @ b) + 1, atol=1e-4)
    for _ in range(50):
        out = f(A, B)
    assert np.allclose(out, np.tanh(2 * a @ b) + 1, atol=1e-4)
    x = numbers(100)
    X = jax.device_put(x, device)
    g = jax.jit(lambda s, v: scaled(s * 2, v, v))
    assert np.allclose(g(jnp.float32(1.5), X), 4 * x, atol=1e-5)
    grad = jax.jit(jax.grad(lambda p, q: (op(p, q) ** 2).sum(), argnums=(0, 1)))
    ga, gb = grad(A, B)
    c = a @ b
    assert np.allclose(ga, 2 * c @ b.T, atol=1e-2) and np.allclose(gb, 2 * a.T @ c, atol=1e-2)
    batch = jax.device_put(numbers(5, 64, 32), device)
    assert np.allclose(jax.vmap(op, in_axes=(0, None))(batch, B), np.asarray(batch) @ b, atol=1e-4)

    def step(carry, _):
        return scaled(0.5, carry, carry), None

    out, _ = jax.lax.scan(step, X, None, length=3)
    assert np.allclose(out, 1.5**3 * x, atol=1e-4)


def failures_inside_of_xla_are_exceptions():
    jax, device = of_jax()
    divide = lathe.kernel("kernel divide(x: i32[N], y: i32[N]) -> (q: i32[N]) { q[i] = x[i] // y[i] }")
    x = jax.device_put(np.arange(10, dtype=np.int32), device)
    assert np.array_equal(divide(x, x + 1), np.arange(10) // np.arange(1, 11))
    with refused(lathe.DivisionError, "E0815"):
        divide(x, x)
    assert np.array_equal(divide(x, x + 1), np.arange(10) // np.arange(1, 11))
    with refused(lathe.ShapeError, "E0811"):
        add(jax.device_put(numbers(3), device), jax.device_put(numbers(4), device))
    with refused(lathe.DtypeError, "E0809"):
        add(x, x)


def mixed_places_are_refused_or_copied():
    jax, device = of_jax()
    x = numbers(10)
    X, host = jax.device_put(x, device), jax.device_put(x, jax.devices("cpu")[0])
    for other in (x, host):
        with refused(lathe.DeviceError, "E0916", "`y`"):
            add(X, other)
        with refused(lathe.DeviceError, "E0916", "`x`"):
            add(other, y=X)
        with warnings.catch_warnings(record=True) as w:
            warnings.simplefilter("always")
            assert np.array_equal(add(X, other, copy=True), x + x)
        assert [i.category for i in w] == [lathe.CopyWarning], w
    with refused(lathe.DeviceError, "E0916"):
        add(X, X, out=np.empty(10, np.float32))
    assert np.array_equal(add(host, host), x + x)


CONTRACTIONS = ["ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->", "ij->i", "ii->i", "ii->", "i,i->", "i,j->ij", "bij,bjk,kl->bil",
                "ij,kj->ik", "abc,cd,ae->ebd", "ij,ij->ij", "i,i,i->i", ",ij->ij", "bhqd,bhkd->bhqk"]


def _operands(text, dtype):
    sizes = dict(zip("abcdehijklq", (3, 5, 4, 6, 7, 2, 9, 9, 8, 10, 11)))
    made = [numbers(*(sizes[x] for x in t), dtype=dtype, seed=n) for n, t in enumerate(text.split("->")[0].split(","))]
    return [np.asarray(m, dtype) for m in made]


def _contractions(put, get):
    for text in CONTRACTIONS:
        for dtype in (np.float32, np.float64, np.int32):
            given = _operands(text, dtype) if dtype != np.int32 else [np.asarray(3 * m).astype(dtype) for m in _operands(text, np.float64)]
            made = get(lathe.einsum(text, *map(put, given)))
            assert made.dtype == dtype and np.allclose(made, np.einsum(text, *given), rtol=1e-3, atol=1e-3), text


def contractions_of_pytorch():
    torch = of_torch()
    seen = []

    def get(a):
        assert a.is_cuda
        seen.append(a)
        return a.cpu().numpy()

    _contractions(lambda a: torch.from_numpy(a).cuda(), get)
    a, b = torch.randn(20, 30, device="cuda", requires_grad=True), torch.randn(30, 10, device="cuda")
    lathe.einsum("ij,jk->ik", a, b).square().sum().backward()
    mine, a.grad = a.grad, None
    torch.einsum("ij,jk->ik", a, b).square().sum().backward()
    assert torch.allclose(mine, a.grad, rtol=1e-3, atol=1e-3)
    half = torch.randn(16, 16, device="cuda").half()
    assert torch.allclose(lathe.einsum("ij,jk->ik", half, half), half @ half, rtol=1e-2, atol=1e-2)
    line = torch.randn(9, device="cuda")
    assert torch.allclose(lathe.einsum("i,i->i", line[1:], line[:8]), line[1:] * line[:8])
    f = torch.compile(lambda p, q: lathe.einsum("ij,jk->ik", p, q) + 1, fullgraph=True)
    assert torch.allclose(f(a.detach(), b), a.detach() @ b + 1, rtol=1e-3, atol=1e-3)
    with refused(lathe.DeviceError, "E0916"):
        lathe.einsum("ij,jk->ik", a.detach(), b.cpu())
    assert len(seen) == 3 * len(CONTRACTIONS)


def contractions_of_complex_numbers():
    torch = of_torch()
    a, b = numbers(6, 5) + 1j * numbers(6, 5, seed=1), numbers(5, 4) + 1j * numbers(5, 4, seed=2)
    a, b = a.astype(np.complex64), b.astype(np.complex64)
    made = lathe.einsum("ij,jk->ik", torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda())
    assert np.allclose(made.cpu().numpy(), a @ b, atol=1e-4)


def contractions_of_cupy():
    try:
        import cupy
    except ImportError:
        raise Skipped("no CuPy") from None
    _contractions(cupy.asarray, cupy.asnumpy)
    with refused(lathe.DeviceError, "E0916"):
        lathe.einsum("i,i->", cupy.ones(3), np.ones(3))


def contractions_of_jax():
    jax, device = of_jax()
    jax.config.update("jax_enable_x64", True)
    try:
        _contractions(lambda a: jax.device_put(a, device), np.asarray)
        a, b = (jax.device_put(numbers(20, 30, seed=n), device) for n in range(2))
        f = jax.jit(lambda p, q: lathe.einsum("ij,kj->ik", p, q) + 1)
        assert np.allclose(f(a, b), np.asarray(a) @ np.asarray(b).T + 1, atol=1e-3)
        g = jax.grad(lambda p: (lathe.einsum("ij,kj->ik", p, b) ** 2).sum())(a)
        assert np.allclose(g, 2 * np.asarray(a) @ np.asarray(b).T @ np.asarray(b), rtol=1e-2, atol=1e-2)
    finally:
        jax.config.update("jax_enable_x64", False)


def tuning_on_the_device():
    torch = of_torch()
    k = lathe.kernel("""kernel scale(x: f32[N]) -> (y: f32[N]) { y[i] = 2 * x[i] }
strategy device(t = 256 in 64..=512 step 64) for scale = split(i, t) ; bind(i.o, grid) ; bind(i.i, block)""")
    x = torch.randn(1 << 20, device="cuda")
    store = os.path.join(tempfile.mkdtemp(), "results.sqlite")
    os.environ["LATHE_STORE"] = store
    best = k.tune(x, until="4 evaluations", budget="40s")
    assert best.params["t"] in range(64, 513, 64) and 0 < best.cost < 1e-3 and best.sizes == {"N": 1 << 20}, best
    y = k(x)
    assert torch.equal(y, 2 * x)
    made = lathe.kernel(k.source()).compile(x)
    assert made.source == "stored" and int(made.params["t"]) == int(best.params["t"]), made


if __name__ == "__main__":
    sys.exit(0 if main([f for f in programs(sys.modules["__main__"]) if not f.__name__.startswith(("_", "of_", "numbers"))],
                       sys.argv[1:]) else 1)
