"""Random programs through numpy and JAX, beside the packages' own arithmetic and derivatives."""

import os

import numpy as np
import pytest

import lathe
from random_programs import Program

CASES = int(os.environ.get("LATHE_PROGRAMS", os.environ.get("LATHE_CASES", "12")))


@pytest.mark.parametrize("seed", range((CASES + 99) // 100))
def test_numpy(seed):
    rng = np.random.default_rng([1, seed])
    for _ in range(min(CASES, 100)):
        p = Program(rng, ["f32", "f64", "i32", "i64", "i16", "u8", "c64", "c128"])
        inputs = p.inputs(rng)
        want = p.reference(np, *inputs)
        got = p.kernel(*inputs)
        assert got.dtype == p.dtype and got.shape == want.shape, p.source
        np.testing.assert_array_equal(got, want, err_msg=p.source)
        # Into an array of the caller that lies in some way, and with one thread.
        room = np.full([n + 2 for n in got.shape], 7, p.dtype)
        out = room[tuple(slice(1, -1) for _ in got.shape)][tuple(slice(None, None, int(rng.choice([1, -1]))) for _ in got.shape)]
        assert p.kernel(*inputs, out=out, threads=1) is out
        np.testing.assert_array_equal(out, want, err_msg=p.source)
        assert (room != 7).sum() <= want.size


@pytest.mark.parametrize("seed", range((CASES + 99) // 100))
def test_jax(seed):
    jax = pytest.importorskip("jax")
    import jax.numpy as jnp

    import lathe.jax

    rng = np.random.default_rng([2, seed])
    for _ in range(min(CASES, 100)):
        p = Program(rng, ["f32", "i32", "i16", "u8"])
        inputs = [jnp.asarray(x) for x in p.inputs(rng)]

        def reference(*a, p=p):
            return p.reference(jnp, *a).astype(p.dtype)

        def rule(*a, reference=reference):
            return jax.vjp(reference, *a[:-1])[1](a[-1])

        op = lathe.jax.op(p.kernel, vjp=rule if p.kind == "f32" else None)
        want = reference(*inputs)
        for f in (p.kernel, op, jax.jit(op)):
            got = f(*inputs)
            assert got.dtype == p.dtype and got.shape == want.shape, p.source
            np.testing.assert_array_equal(got, want, err_msg=p.source)
        if p.kind == "f32":
            which = tuple(range(len(inputs)))
            w = jnp.asarray(rng.integers(0, 4, want.shape), jnp.float32)
            theirs = jax.grad(lambda *a: (reference(*a) * w).sum(), which)(*inputs)
            mine = jax.grad(lambda *a: (op(*a) * w).sum(), which)
            for f in (mine, jax.jit(mine)):
                for g, t in zip(f(*inputs), theirs):
                    np.testing.assert_array_equal(g, t, err_msg=p.source)
            # Without a rule the kernel is differentiated. Its sums have another order.
            mine = jax.grad(lambda *a: (p.kernel(*a) * w).sum(), which)
            for f in (mine, jax.jit(mine)):
                for g, t in zip(f(*inputs), theirs):
                    assert g.dtype == t.dtype and g.shape == t.shape, p.source
                    np.testing.assert_allclose(g, t, rtol=1e-5, atol=1e-6 * np.abs(t).max(initial=1), err_msg=p.source)
        # Some of the inputs have a batch, each at a place of its own.
        n = int(rng.choice([1, 3]))
        places = [None if rng.random() < 0.4 else int(rng.integers(x.ndim + 1)) for x in inputs]
        if all(d is None for d in places):
            places[0] = 0
        batched = [x if d is None else jnp.stack([x + p.dtype.type(k) for k in range(n)], d) for x, d in zip(inputs, places)]
        theirs = jax.vmap(reference, places)(*batched)
        for f in (op, jax.jit(op)):
            np.testing.assert_array_equal(jax.vmap(f, places)(*batched), theirs, err_msg=p.source)
