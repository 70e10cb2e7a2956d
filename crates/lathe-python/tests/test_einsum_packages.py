"""einsum of tensors of PyTorch and arrays of JAX against their own, with gradients and under their compilers."""

import os

import numpy as np
import pytest

import lathe

FORMS = [("ij,jk->ik", (3, 4), (4, 2)), ("i,i->", (5,), (5,)), ("ij->ji", (3, 4)), ("ij->", (3, 4)), ("i,j->ij", (3,), (2,)),
         ("bij,bjk,kl->bil", (2, 3, 4), (2, 4, 3), (3, 2)), ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 2)), ("ij,kj", (3, 4), (2, 4)),
         ("ij,ij->i", (3, 4), (3, 4)), ("ij,kl->", (2, 3), (3, 2)), ("i,i->i", (0,), (0,)), ("...i,...i", (2, 3), (1, 3))]

KINDS = ["float64", "complex128", "float32"]


def made(shapes, kind="float64"):
    rng = np.random.default_rng(0)
    real = [rng.standard_normal(s) for s in shapes]
    return [(a + 1j * rng.standard_normal(a.shape)).astype(kind) if "complex" in kind else a.astype(kind) for a in real]


@pytest.mark.parametrize("text, shapes, kind", [(t, s, KINDS[n % 3]) for n, (t, *s) in enumerate(FORMS)])
def test_jax(text, shapes, kind):
    jax = pytest.importorskip("jax")
    # Older JAX has it among its experiments.
    with (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(True):
        arrays = [jax.numpy.asarray(a) for a in made(shapes, kind)]

        def loss(f):
            return lambda *a: jax.numpy.abs(f(text, *a) ** 2).sum()

        want = jax.numpy.einsum(text, *arrays)
        tolerance = dict(rtol=1e-4, atol=1e-4) if kind == "float32" else dict(rtol=1e-10, atol=1e-10)
        for got in (lathe.einsum(text, *arrays), jax.jit(lambda *a: lathe.einsum(text, *a))(*arrays)):
            assert isinstance(got, jax.Array) and got.dtype == want.dtype and got.shape == want.shape
            np.testing.assert_allclose(got, want, **tolerance)
        every = tuple(range(len(arrays)))
        ours, theirs = (jax.grad(loss(f), every)(*arrays) for f in (lathe.einsum, jax.numpy.einsum))
        for a, b in zip(ours, theirs):
            np.testing.assert_allclose(a, b, **tolerance)
        batch = [jax.numpy.stack([a, 2 * a]) for a in arrays]
        np.testing.assert_allclose(jax.vmap(lambda *a: lathe.einsum(text, *a))(*batch),
                                   jax.vmap(lambda *a: jax.numpy.einsum(text, *a))(*batch), **tolerance)


def test_jax_mixed_and_wrong():
    jax = pytest.importorskip("jax")
    x = jax.numpy.ones((2, 3))
    assert isinstance(lathe.einsum("ij,jk", np.ones((3, 2), np.float32), x), jax.Array)
    assert lathe.einsum(x, [0, 1], x, [2, 1], [0, 2]).shape == (2, 2)
    with pytest.raises(lathe.OptionError):
        lathe.einsum("ij,jk", x, x)
    with pytest.raises(lathe.OptionError):
        lathe.einsum("ij", x, out=np.ones((2, 3)))
    with pytest.raises(lathe.GradientError):
        jax.grad(lambda a: lathe.einsum("ii->", a))(jax.numpy.ones((3, 3)))


@pytest.mark.skipif(not os.environ.get("LATHE_TORCH"), reason="PyTorch on request only")
@pytest.mark.parametrize("text, shapes, kind", [(t, s, KINDS[n % 3]) for n, (t, *s) in enumerate(FORMS)])
def test_torch(text, shapes, kind):
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(a) for a in made(shapes, kind)]
    explicit = text if "->" in text else {"ij,kj": "ij,kj->ik", "...i,...i": "...i,...i->..."}[text]
    want = torch.einsum(explicit, *tensors)
    got = lathe.einsum(text, *tensors)
    assert type(got) is torch.Tensor and got.dtype == want.dtype
    torch.testing.assert_close(got, want)
    ours, theirs = ([t.clone().requires_grad_() for t in tensors] for _ in "ab")
    lathe.einsum(text, *ours).abs().square().sum().backward()
    torch.einsum(explicit, *theirs).abs().square().sum().backward()
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a.grad, b.grad)
    torch._dynamo.reset()
    compiled = torch.compile(lambda *a: lathe.einsum(text, *a), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*tensors), want)


@pytest.mark.skipif(not os.environ.get("LATHE_TORCH"), reason="PyTorch on request only")
def test_torch_mixed_and_wrong():
    torch = pytest.importorskip("torch")
    a, b = torch.ones(2, 3, dtype=torch.float32), torch.ones(3, 2, dtype=torch.int32)
    assert lathe.einsum("ij,jk", a, b).dtype == torch.float32
    assert torch.equal(lathe.einsum("ij->ji", a), a.T) and lathe.einsum("ij->ji", a).data_ptr() != a.data_ptr()
    p, q = torch.randn(2, 3, dtype=torch.float64, requires_grad=True), torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p, q: lathe.einsum("ij,jk->ik", p, q), (p, q))
    assert torch.autograd.gradgradcheck(lambda p, q: lathe.einsum("ij,jk->ik", p, q), (p, q))
    with pytest.raises(lathe.LatheError):
        lathe.einsum("ij,jk", a.to(torch.bfloat16), b.to(torch.bfloat16))
    with pytest.raises(lathe.GradientError):
        lathe.einsum("ii->", torch.ones(3, 3, requires_grad=True)).backward()
