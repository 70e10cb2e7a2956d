"""Operators of JAX, and kernels that are called with its arrays."""

import gc
import os
import resource
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import lathe

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import lathe.jax  # noqa: E402
from refusals import refused  # noqa: E402

scale = lathe.kernel("kernel scale(a: f32, x: f32[N]) -> (y: f32[N]) { y[i] = a * x[i] }")
gemm = lathe.kernel("kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }")
both = lathe.kernel("kernel b(x: f32[N]) -> (d: f32[N], s: f32[N]) { d[i] = 2 * x[i]\n s[i] = x[i] * x[i] }")
shift = lathe.kernel("kernel shift(n: i32, x: i32[N]) -> (y: i32[N]) { y[i] = n + x[i] }")
blur = lathe.kernel("kernel blur(x: f32[N]) -> (y: f32[N - 2]) { y[i] = x[i] + x[i + 1] + x[i + 2] where i in 0..N-2 }")
divide = lathe.kernel("kernel divide(x: i32[N], y: i32[N]) -> (q: i32[N]) { q[i] = x[i] // y[i] }")


def product():
    """An operator with a rule, as a function would make it."""
    return lathe.jax.op(gemm, vjp=lambda a, b, g: (lathe.jax.op(gemm)(g, b.T), lathe.jax.op(gemm)(a.T, g)))


def arrays():
    return jnp.arange(12.0).reshape(3, 4), jnp.arange(20.0).reshape(4, 5)


def test_calls():
    x = jnp.arange(6, dtype=jnp.float32)
    y = scale(2, x)
    assert isinstance(y, jax.Array)
    np.testing.assert_array_equal(y, 2 * np.arange(6))
    op = lathe.jax.op(scale)
    f = jax.jit(lambda a, x: op(a, x) + op(1, x))
    np.testing.assert_array_equal(f(3.0, x), 4 * np.arange(6))
    d, s = jax.jit(lathe.jax.op(both))(x)
    np.testing.assert_array_equal(s, np.arange(6) ** 2)
    np.testing.assert_array_equal(both(x)[0], 2 * np.arange(6))
    bf = lathe.jax.op(lathe.kernel("kernel t(x: bf16[N]) -> (y: bf16[N]) { y[i] = x[i] + x[i] }"))
    np.testing.assert_array_equal(bf(x.astype(jnp.bfloat16)), (2 * x).astype(jnp.bfloat16))
    with refused(lathe.DtypeError, "E0809", "`x`"):
        lathe.jax.op(lathe.kernel("kernel t(x: inout f32[N]) { x[i] += 1 }"))
    # Arguments by name, and in any order.
    np.testing.assert_array_equal(op(x=x, a=3), 3 * x)
    np.testing.assert_array_equal(scale(3, x=x), 3 * x)
    np.testing.assert_array_equal(jax.jit(lambda x: op(2, x=x))(x), 2 * x)
    for wrong in (lambda: op(2, y=x), lambda: op(2, x, x=x), lambda: op(x), lambda: op(2, x, 3)):
        with pytest.raises(lathe.DtypeError):
            wrong()
    # A direct call inside of a function that is traced is the operator's.
    np.testing.assert_array_equal(jax.jit(lambda x: scale(2, x) + 1)(x), 2 * x + 1)
    np.testing.assert_array_equal(jax.vmap(lambda x: scale(2, x))(x.reshape(2, 3)), 2 * x.reshape(2, 3))
    np.testing.assert_array_equal(jax.jit(lambda a, x: scale(a, x))(2.0, x), 2 * x)
    np.testing.assert_array_equal(gemm(*arrays(), threads=1), arrays()[0] @ arrays()[1])
    out = np.zeros(6, np.float32)
    assert scale(2, x, out=out) is out and (out == 2 * np.arange(6)).all()
    with pytest.raises(lathe.DeviceError):
        jax.jit(lambda x: scale(2, x, out=out))(x)
    with pytest.raises(lathe.ReadOnlyError):
        scale(2, np.arange(6, dtype=np.float32), out=x)


def test_numbers_are_not_truncated():
    x = jnp.arange(3, dtype=jnp.int32)
    op = lathe.jax.op(shift)
    np.testing.assert_array_equal(op(2, x), x + 2)
    np.testing.assert_array_equal(op(np.int32(-2), x), x - 2)
    np.testing.assert_array_equal(jax.jit(lambda n, x: op(n, x))(5, x), x + 5)
    for wrong in (2.7, 2.0, "2", None, 2**40, -(2**31) - 1, np.float32(2), jnp.float32(2), [2], np.array([2], np.int32)):
        with pytest.raises(lathe.LatheError):
            op(wrong, x)
        with pytest.raises(lathe.LatheError):
            shift(wrong, x)
    with pytest.raises(lathe.DtypeError):
        jax.jit(op)(2.7, x)
    fl = jnp.arange(3, dtype=jnp.float32)
    for wrong in (1e300, -1e300, "x", None, 1j):
        with pytest.raises(lathe.LatheError):
            lathe.jax.op(scale)(wrong, fl)
    np.testing.assert_array_equal(lathe.jax.op(scale)(float("inf"), fl + 1), np.full(3, np.inf))
    # Arrays of numpy are taken as they are, too.
    with pytest.raises(lathe.DtypeError):
        lathe.jax.op(scale)(2, np.arange(3.0))


def test_shapes_and_types_are_checked_while_tracing():
    a, b = arrays()
    op = lathe.jax.op(gemm)
    for f in (op, jax.jit(op), lambda x, y: jax.eval_shape(op, x, y), gemm):
        with refused(lathe.ShapeError, "E0811", "`B`", "K = 4", "`A`"):
            f(a, a)
        with refused(lathe.ShapeError, "E0810", "`A`", "2", "1"):
            f(a[0], b)
        with refused(lathe.DtypeError, "E0809", "`A`", "int32"):
            f(a.astype(jnp.int32), b)
    assert jax.eval_shape(op, a, b).shape == (3, 5)
    with pytest.raises(lathe.ShapeError):
        jax.jit(lathe.jax.op(blur))(jnp.ones(1))
    with refused(lathe.DtypeError, "E0809", "`x`", "f64", "'jax_enable_x64'"):
        lathe.jax.op(lathe.kernel("kernel t(x: f64[N]) -> (y: f64[N]) { y[i] = x[i] }"))(jnp.ones(3))


def test_unknown_options_are_refused():
    for wrong in ({"vmap_method": "sequentiel"}, {"vmap_method": None}, {"vjp": 3}, {"strategy": "nope"}):
        with pytest.raises(lathe.LatheError):
            lathe.jax.op(scale, **wrong)
    with pytest.raises(lathe.OptionError):
        lathe.jax.op("kernel f(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] }")
    with pytest.raises(TypeError):
        lathe.jax.op(scale, vmap="sequential")


@pytest.mark.parametrize("method", ["expand_dims", "broadcast_all", "sequential", "sequential_unrolled"])
def test_vmap(method):
    if method == "sequential_unrolled" and jax.version.__version_info__ < (0, 6):
        pytest.skip("JAX does not have it")
    op = lathe.jax.op(gemm, vmap_method=method)
    rng = np.random.default_rng(3)
    a, b = (jnp.asarray(rng.random(s, np.float32)) for s in ((7, 3, 4), (7, 4, 5)))
    close = lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5)  # noqa: E731
    close(jax.vmap(op)(a, b), a @ b)
    close(jax.vmap(op, (0, None))(a, b[0]), a @ b[0])
    close(jax.jit(jax.vmap(op, (None, 0)))(a[0], b), a[0] @ b)
    close(jax.vmap(op, (2, 0), 1)(jnp.moveaxis(a, 0, 2), b), jnp.moveaxis(a @ b, 0, 1))
    # Within each other, with what only one of them has.
    nested = jax.vmap(jax.vmap(op, (None, 0)), (0, None))
    close(nested(a, b), jnp.einsum("pij,qjk->pqik", a, b))
    outer = jax.vmap(jax.vmap(op, (0, None)), (None, 0))
    close(outer(a, b), jnp.einsum("qij,pjk->pqik", a, b))
    assert jax.vmap(op)(a[:0], b[:0]).shape == (0, 3, 5)
    assert jax.vmap(op)(a[:, :0], b).shape == (7, 0, 5)
    close(jax.vmap(op)(a[:1], b[:1]), a[:1] @ b[:1])
    close(jax.vmap(lathe.jax.op(scale, vmap_method=method))(jnp.arange(3.0), jnp.ones((3, 2))), np.arange(3)[:, None] * np.ones((3, 2)))
    d, s = jax.vmap(lathe.jax.op(both, vmap_method=method))(b[:, 0])
    close(s, b[:, 0] ** 2)


def test_a_batch_is_one_call():
    op = lathe.jax.op(gemm)
    a, b = jnp.ones((9, 3, 4)), jnp.ones((9, 4, 5))
    text = jax.jit(jax.vmap(op)).lower(a, b).as_text()
    assert text.count("custom_call @lathe_kernel") == 1 and "while" not in text


def test_gradients():
    a, b = arrays()
    mm = product()
    np.testing.assert_allclose(jax.jit(mm)(a, b), a @ b)
    want = jax.grad(lambda a, b: ((a @ b) ** 2).sum(), (0, 1))(a, b)
    for f in (lambda g: g, jax.jit):
        for got, w in zip(f(jax.grad(lambda a, b: (mm(a, b) ** 2).sum(), (0, 1)))(a, b), want):
            np.testing.assert_allclose(got, w, rtol=1e-5)
    # In a batch, and by keyword.
    g = jax.vmap(jax.grad(lambda a, b: mm(A=a, B=b).sum()), (0, None))(jnp.stack([a, 2 * a]), b)
    np.testing.assert_allclose(g, jnp.stack([jnp.broadcast_to(b.sum(1), a.shape)] * 2))
    # Without a rule the kernel is differentiated, and its derivative again.
    for f in (lathe.jax.op(gemm), gemm):
        for got, w in zip(jax.jit(jax.grad(lambda a, b: (f(a, b) ** 2).sum(), (0, 1)))(a, b), want):
            np.testing.assert_allclose(got, w, rtol=1e-5)
    cube = lathe.jax.op(lathe.kernel("kernel c(x: f32[N], k: i32) -> (y: f32[N]) { y[i] = x[i] * x[i] * x[i] * f32(k) }"))
    x = jnp.arange(3.0)
    second = jax.jacrev(jax.grad(lambda x: cube(x, 2).sum()))(x)
    np.testing.assert_allclose(second, jnp.diag(12 * x), rtol=1e-6)
    # Forwards nothing is lost without a word.
    for f in (lambda: jax.jvp(mm, (a, b), (a, b)), lambda: jax.jvp(lathe.jax.op(gemm), (a, b), (a, b))):
        with pytest.raises((TypeError, ValueError, NotImplementedError)):
            f()
    with refused(lathe.GradientError, "E0915", "`scale`", "1", "2"):
        jax.grad(lambda x: lathe.jax.op(scale, vjp=lambda a, x, g: a * g)(2, x).sum())(jnp.ones(3))
    two = lathe.jax.op(both, vjp=lambda x, gd, gs: 2 * gd + 2 * x * gs)
    x = jnp.arange(4.0)
    np.testing.assert_allclose(jax.grad(lambda x: sum(r.sum() for r in two(x)))(x), 2 + 2 * x)


def test_operators_are_named_by_their_content():
    assert lathe.jax.op(gemm) is lathe.jax.op(gemm) and product() is product()
    assert lathe.jax.op(gemm, threads=1) is not lathe.jax.op(gemm)
    other = lathe.kernel(gemm.source())
    assert lathe.jax.op(other)._key == lathe.jax.op(gemm)._key
    assert lathe.jax.op(lathe.kernel(gemm.source() + " "))._key != lathe.jax.op(gemm)._key

    # Variables around a rule are part of it.
    def ruled(factor):
        return lathe.jax.op(scale, vjp=lambda a, x, g: (None, factor * g))

    x = jnp.ones(3)
    assert [float(jax.grad(lambda x: ruled(f)(2, x).sum())(x)[0]) for f in (1.0, 2.0, 3.0)] == [1, 2, 3]


def test_exported_programs_carry_their_kernels(tmp_path):
    """In another process, where operators are made in another order, a program runs the kernel that it was made with."""
    from jax import export

    x = jnp.arange(4.0)
    exported = export.export(jax.jit(lambda x: lathe.jax.op(scale)(3.0, x)), disabled_checks=lathe.jax.export_checks())(x)
    (tmp_path / "program").write_bytes(exported.serialize())
    program = """
        import sys, jax, jax.numpy as jnp, lathe, lathe.jax
        from jax import export
        if sys.argv[2] == "others":
            for n in range(5):
                k = lathe.kernel(f"kernel other{n}(a: f32, x: f32[N]) -> (y: f32[N]) {{ y[i] = {n} * x[i] }}")
                lathe.jax.op(k)(1.0, jnp.ones(3))
        f = export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
        print(f.call(jnp.arange(4.0)).tolist())
    """
    for others in ("others", "none"):
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "program"), others], text=True,
                              capture_output=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})
        assert done.stdout.strip() == "[0.0, 3.0, 6.0, 9.0]", done.stderr


def test_symbolic_shapes():
    from jax import export

    n, k = export.symbolic_shape("n, k")
    f32 = jnp.float32

    def exported(f, *types):
        return export.export(jax.jit(f), disabled_checks=lathe.jax.export_checks())(*types)

    f = exported(lathe.jax.op(gemm), jax.ShapeDtypeStruct((n, k), f32), jax.ShapeDtypeStruct((k, 3), f32))
    for size in ((2, 4), (5, 1)):
        a, b = jnp.ones(size), jnp.ones((size[1], 3))
        np.testing.assert_allclose(f.call(a, b), a @ b)
    m = export.symbolic_shape("m", constraints=["m >= 3"])[0]
    g = exported(lathe.jax.op(blur), jax.ShapeDtypeStruct((m,), f32))
    np.testing.assert_allclose(g.call(jnp.ones(7)), np.full(5, 3))
    # In a batch whose size is a symbol.
    h = exported(jax.vmap(lathe.jax.op(scale)), jax.ShapeDtypeStruct((n,), f32), jax.ShapeDtypeStruct((n, k), f32))
    np.testing.assert_allclose(h.call(jnp.arange(3.0), jnp.ones((3, 2))), np.arange(3)[:, None] * np.ones((3, 2)))
    with pytest.raises(lathe.ShapeError):
        exported(lathe.jax.op(gemm), jax.ShapeDtypeStruct((n, k), f32), jax.ShapeDtypeStruct((3, 3, 3), f32))


def test_failures_of_kernels_are_ours():
    x, zero = jnp.arange(4, dtype=jnp.int32), jnp.zeros(4, jnp.int32)
    with pytest.raises(lathe.DivisionError):
        divide(x, zero)
    with pytest.raises(Exception, match="E0815"):
        jax.block_until_ready(lathe.jax.op(divide)(x, zero))
    with pytest.raises(Exception, match="E0815"):
        jax.block_until_ready(jax.vmap(lathe.jax.op(divide))(x[:, None], zero[:, None]))


def test_gradients_with_operators_made_inside_leave_nothing_behind():
    count = int(os.environ.get("LATHE_GRADIENTS", "400"))
    a, b = arrays()

    def main():
        kernel = gemm

        def loss(a):
            mm = lathe.jax.op(kernel, vjp=lambda a, b, g: (lathe.jax.op(kernel)(g, b.T), lathe.jax.op(kernel)(a.T, g)))
            return (mm(a, b) ** 2).sum()

        want = jax.grad(lambda a: ((a @ b) ** 2).sum())(a)
        for _ in range(count // 4):
            got = jax.grad(loss)(a)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(count):
            got = jax.grad(loss)(a)
        gc.collect()
        np.testing.assert_allclose(got, want, rtol=1e-5)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    # In KiB; one compiled kernel alone has more.
    assert main() < 8192
