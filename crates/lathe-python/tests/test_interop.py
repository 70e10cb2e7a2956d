"""Arrays of other packages; JAX and PyTorch are tested where they are installed."""

import os

import numpy as np
import pytest

import lathe

scale = lathe.kernel("kernel scale(a: f32, x: f32[N]) -> (y: f32[N]) { y[i] = a * x[i] }")


class Holder:
    """What speaks DLPack and nothing else."""

    def __init__(self, a):
        self.a = a

    def __dlpack__(self, **options):
        return self.a.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.a.__dlpack_device__()


def test_dlpack():
    x = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(scale(2, Holder(x)), 2 * x)
    np.testing.assert_array_equal(scale(2, Holder(x[::-2])), 2 * x[::-2])
    with pytest.raises(lathe.DtypeError):
        scale(2, Holder(x.astype(np.float64)))
    np.testing.assert_array_equal(scale(2, memmap(x)), 2 * x)


def memmap(x):
    import tempfile

    with tempfile.TemporaryFile() as f:
        x.tofile(f)
        return np.memmap(f, dtype=np.float32, mode="r", shape=x.shape)


def test_jax():
    jax = pytest.importorskip("jax")
    import jax.numpy as jnp

    import lathe.jax

    x = jnp.arange(6, dtype=jnp.float32)
    y = scale(2, x)
    assert isinstance(y, jax.Array)
    np.testing.assert_array_equal(y, 2 * np.arange(6))
    op = lathe.jax.op(scale)
    f = jax.jit(lambda a, x: op(a, x) + op(1, x))
    np.testing.assert_array_equal(f(3.0, x), 4 * np.arange(6))
    np.testing.assert_array_equal(jax.vmap(lambda x: op(2, x))(x.reshape(2, 3)), 2 * np.arange(6).reshape(2, 3))
    with pytest.raises(TypeError, match="jax.op"):
        jax.jit(lambda x: scale(2, x))(x)
    with pytest.raises(lathe.DtypeError):
        op(2, x.astype(jnp.int32))
    with pytest.raises(lathe.DtypeError, match="takes 2 arguments"):
        op(x)
    gemm = lathe.kernel("kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }")
    mm = lathe.jax.op(gemm, vjp=lambda a, b, g: (lathe.jax.op(gemm)(g, b.T), lathe.jax.op(gemm)(a.T, g)))
    a, b = jnp.ones((3, 4)), jnp.arange(20.0).reshape(4, 5)
    np.testing.assert_allclose(jax.jit(mm)(a, b), a @ b)
    for got, want in zip(jax.grad(lambda a, b: mm(a, b).sum(), (0, 1))(a, b), jax.grad(lambda a, b: (a @ b).sum(), (0, 1))(a, b)):
        np.testing.assert_allclose(got, want)
    with pytest.raises(Exception, match="extent"):
        jax.block_until_ready(mm(a, jnp.ones((5, 5))))
    both = lathe.jax.op(lathe.kernel("kernel b(x: f32[N]) -> (d: f32[N], s: f32[N]) { d[i] = 2 * x[i]\n s[i] = x[i] * x[i] }"))
    d, s = jax.jit(both)(x)
    np.testing.assert_array_equal(s, np.arange(6) ** 2)
    bf = lathe.jax.op(lathe.kernel("kernel t(x: bf16[N]) -> (y: bf16[N]) { y[i] = x[i] + x[i] }"))
    np.testing.assert_array_equal(bf(x.astype(jnp.bfloat16)), (2 * x).astype(jnp.bfloat16))
    with pytest.raises(ValueError, match="changed in place"):
        lathe.jax.op(lathe.kernel("kernel t(x: inout f32[N]) { x[i] += 1 }"))


@pytest.mark.skipif(not os.environ.get("LATHE_TORCH"), reason="make test-torch")
def test_torch():
    torch = pytest.importorskip("torch")
    import lathe.torch

    x = torch.arange(6, dtype=torch.float32)
    assert torch.equal(scale(2, x), 2 * x)
    assert torch.equal(scale(2, x.flip(0)[::2]), 2 * x.flip(0)[::2])
    bf = lathe.kernel("kernel t(x: bf16[N]) -> (y: bf16[N]) { y[i] = x[i] + x[i] }")
    assert torch.equal(bf(x.bfloat16()), 2 * x.bfloat16())
    out = torch.empty(6)
    assert scale(3, x, out=out) is out and torch.equal(out, 3 * x)
    op = lathe.torch.op(scale, vjp=lambda a, x, g: (None, a * g))
    assert torch.equal(op(2.0, x), 2 * x)
    y = x.clone().requires_grad_()
    op(2.0, y).sum().backward()
    assert torch.equal(y.grad, torch.full((6,), 2.0))
    torch.library.opcheck(op, (2.0, x))
    assert torch.equal(torch.compile(lambda x: op(2.0, x) + 1, backend="aot_eager")(x), 2 * x + 1)
