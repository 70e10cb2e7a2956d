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


def test_the_array_api():
    """Arrays of the standard, and nothing of numpy: results are of the same kind."""
    xp = pytest.importorskip("array_api_strict")
    x = xp.arange(6, dtype=xp.float32)
    y = scale(2, x)
    assert y.__array_namespace__() is xp and y.dtype == xp.float32
    assert xp.all(y == 2 * x)
    assert xp.all(scale(2, x[::-2]) == 2 * x[::-2])
    np.testing.assert_array_equal(scale(2, np.asarray(x)), np.asarray(y))
    with pytest.raises(lathe.DtypeError):
        scale(2, xp.arange(6))
    with pytest.raises(lathe.ShapeError):
        scale(2, xp.zeros((2, 3), dtype=xp.float32))


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


gemm = lathe.kernel("kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }")
both = lathe.kernel("kernel both(x: f64[N]) -> (d: f64[N], s: f64[N, 2]) { d[i] = 2 * x[i]\n s[i, j] = x[i] * x[i] where j in 0..2 }")
total = lathe.kernel("kernel total(x: f32[N], t: inout f32[N]) { t[i] += x[i] }")
torch_only = pytest.mark.skipif(not os.environ.get("LATHE_TORCH"), reason="make test-torch")


@torch_only
def test_tensors_of_torch():
    import ml_dtypes  # noqa: F401
    import torch

    x = torch.arange(6, dtype=torch.float32)
    assert torch.equal(scale(2, x), 2 * x)
    assert torch.equal(scale(2, x[1::2]), 2 * x[1::2])
    assert torch.equal(scale(torch.tensor(2.0).item(), x.requires_grad_(False)), 2 * x)
    a, b = torch.randn(5, 7), torch.randn(3, 7)
    y = gemm(a, b.T)
    assert isinstance(y, torch.Tensor) and torch.allclose(y, a @ b.T, atol=1e-5)
    assert torch.allclose(gemm(a.requires_grad_(), b.T), (a @ b.T).detach(), atol=1e-5)
    for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16), ("f64", torch.float64), ("i32", torch.int32), ("i8", torch.int8),
                        ("u8", torch.uint8), ("i64", torch.int64)):
        k = lathe.kernel(f"kernel t(x: {name}[N]) -> (y: {name}[N]) {{ y[i] = x[i] + x[i] }}")
        v = torch.tensor([1, 2, 3]).to(dtype)
        assert k(v).dtype == dtype and torch.equal(k(v), 2 * v)
        with pytest.raises(lathe.DtypeError):
            k(v.to(torch.float32 if dtype != torch.float32 else torch.int32).to(torch.complex64))
    out = torch.empty(6)
    assert scale(3, x, out=out) is out and torch.equal(out, 3 * x)
    t = torch.ones(6)
    total(x, t)
    assert torch.equal(t, 1 + x)
    with pytest.raises(lathe.OverlapError):
        total(x, x)
    with pytest.raises(TypeError, match="on meta"):
        scale(2, x.to("meta"))
    np.testing.assert_allclose(lathe.einsum("ij,kj->ik", a.detach(), b), (a.detach() @ b.T).numpy(), atol=1e-5)


@torch_only
def test_operators_of_torch():
    import torch
    from torch._subclasses import FakeTensorMode

    import lathe.torch

    x = torch.arange(6, dtype=torch.float32)
    op = lathe.torch.op(scale, vjp=lambda a, x, g: (None, a * g))
    assert torch.equal(op(2.0, x), 2 * x)
    y = x.clone().requires_grad_()
    op(2.0, y).sum().backward()
    assert torch.equal(y.grad, torch.full((6,), 2.0))
    mm = lathe.torch.op(gemm, "my_gemm", vjp=lambda a, b, g: (gemm(g, b.T), gemm(a.T, g)))
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    assert torch.allclose(torch.ops.lathe.my_gemm(a, b), a @ b, atol=1e-5)
    p, q = a.clone().requires_grad_(), b.clone().requires_grad_()
    (mm(p, q) ** 2).sum().backward()
    wp, wq = a.clone().requires_grad_(), b.clone().requires_grad_()
    ((wp @ wq) ** 2).sum().backward()
    assert torch.allclose(p.grad, wp.grad, atol=1e-4) and torch.allclose(q.grad, wq.grad, atol=1e-4)
    two = lathe.torch.op(both)
    v = torch.arange(4.0, dtype=torch.float64)
    d, s = two(v)
    assert torch.equal(d, 2 * v) and torch.equal(s, (v * v)[:, None].expand(4, 2))
    add = lathe.torch.op(total)
    t = torch.ones(6)
    add(x, t)
    assert torch.equal(t, 1 + x)
    # PyTorch's own checks: schema, mutation, fake tensors, autograd, compilation with dynamic shapes.
    torch.library.opcheck(op, (2.0, x))
    torch.library.opcheck(op, (2.0, x.clone().requires_grad_()))
    torch.library.opcheck(mm, (a, b))
    torch.library.opcheck(two, (v,))
    torch.library.opcheck(add, (x, torch.ones(6)))
    with FakeTensorMode() as mode:
        made = mm(mode.from_tensor(a), mode.from_tensor(b))
        assert made.shape == (5, 3) and made.dtype == torch.float32
    with pytest.raises(lathe.DtypeError):
        mm(a.double(), b)
    with pytest.raises(lathe.ShapeError):
        mm(a, a)


@torch_only
def test_compiled_programs_of_torch():
    import torch

    import lathe.torch

    mm, add = lathe.torch.op(gemm), lathe.torch.op(total)

    def program(a, b):
        c = mm(a, b) + 1
        t = torch.zeros(c.shape[1])
        add(c[0].contiguous(), t)
        return mm(c, c.T), t

    for backend, dynamic in (("eager", False), ("aot_eager", False), ("aot_eager", True), ("inductor", True)):
        torch._dynamo.reset()
        f = torch.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)
        for n in (3, 5):
            a, b = torch.randn(n, 7), torch.randn(7, n + 1)
            for got, want in zip(f(a, b), program(a, b)):
                assert torch.allclose(got, want, atol=1e-4), (backend, n)

    class Module(torch.nn.Module):
        def forward(self, a, b):
            return mm(a, b)

    a, b = torch.randn(4, 7), torch.randn(7, 3)
    exported = torch.export.export(Module(), (a, b))
    assert torch.allclose(exported.module()(a, b), a @ b, atol=1e-5)
