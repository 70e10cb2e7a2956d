"""Random programs through PyTorch, beside its own arithmetic and derivatives: run by ``make test-torch``."""

import os

import numpy as np
import pytest
import torch

import lathe
import lathe.torch
from random_programs import Program

CASES = int(os.environ.get("LATHE_PROGRAMS", os.environ.get("LATHE_CASES", "12")))


def tensor(x):
    """A tensor that lies as an array does, as far as PyTorch knows such strides."""
    if isinstance(x, np.generic):
        return x.item()
    if any(s < 0 for s in x.strides):
        x = x.copy()
    if x.flags.writeable:
        return torch.from_numpy(x)
    return torch.from_numpy(x.copy())


@pytest.mark.parametrize("seed", range((CASES + 99) // 100))
def test_torch(seed):
    rng = np.random.default_rng([3, seed])
    for case in range(min(CASES, 100)):
        p = Program(rng, ["f32", "f64", "i32", "i64", "i16", "u8"])
        inputs = [tensor(x) for x in p.inputs(rng)]
        dtype = getattr(torch, p.dtype.name)

        def reference(*a, p=p, dtype=dtype):
            return p.reference(torch, *a).to(dtype)

        def rule(*a, reference=reference):
            with torch.enable_grad():
                given = [x.detach().requires_grad_() if isinstance(x, torch.Tensor) else x for x in a[:-1]]
                tensors = [x for x in given if isinstance(x, torch.Tensor)]
                made = iter(torch.autograd.grad(reference(*given), tensors, a[-1], allow_unused=True, materialize_grads=True)
                            if (out := reference(*given)).requires_grad else [torch.zeros_like(x) for x in tensors])
                del out
            return tuple(next(made) if isinstance(x, torch.Tensor) else None for x in given)

        floats = p.dtype.kind == "f"
        op = lathe.torch.op(p.kernel, vjp=rule if floats else None)
        want = reference(*inputs)
        for f in (p.kernel, op):
            got = f(*inputs)
            assert got.dtype == dtype and got.shape == want.shape and torch.equal(got, want), p.source
        out = torch.full([2 * n for n in want.shape], 7, dtype=dtype)[tuple(slice(None, None, 2) for _ in want.shape)]
        before = out._version
        assert p.kernel(*inputs, out=out) is out and torch.equal(out, want) and out._version > before, p.source
        if floats:
            which = [isinstance(x, torch.Tensor) and (rng.random() < 0.7) for x in inputs]
            if any(which):
                mine = [x.clone().requires_grad_() if w else x for x, w in zip(inputs, which)]
                theirs = [x.clone().requires_grad_() if w else x for x, w in zip(inputs, which)]
                with pytest.raises(lathe.GradientError):
                    p.kernel(*mine)
                w = torch.from_numpy(rng.integers(0, 4, tuple(want.shape)).astype(p.dtype))
                r = reference(*theirs)
                if r.requires_grad:
                    (op(*mine) * w).sum().backward()
                    (r * w).sum().backward()
                    # Without a rule the kernel is differentiated. Its sums have another order.
                    plain = [x.clone().requires_grad_() if w else x for x, w in zip(inputs, which)]
                    (lathe.torch.op(p.kernel)(*plain) * w).sum().backward()
                    for m, t in zip(plain, theirs):
                        if isinstance(m, torch.Tensor) and m.requires_grad:
                            zero = torch.zeros_like(m)
                            m, t = (zero if x.grad is None else x.grad for x in (m, t))
                            most = max(1.0, t.abs().max().item() if t.numel() else 0)
                            assert torch.allclose(m, t, rtol=1e-5, atol=1e-6 * most), p.source
                    for m, t, wanted in zip(mine, theirs, which):
                        if wanted:
                            zero = torch.zeros_like(t)
                            assert torch.equal(zero if m.grad is None else m.grad, zero if t.grad is None else t.grad), p.source
        n = int(rng.choice([1, 3]))
        places = [None if not isinstance(x, torch.Tensor) or rng.random() < 0.4 else int(rng.integers(x.ndim + 1)) for x in inputs]
        if any(d is not None for d in places):
            batched = [x if d is None else torch.stack([x + k for k in range(n)], d) for x, d in zip(inputs, places)]
            got = torch.vmap(op, tuple(places))(*batched)
            for k in range(n):
                one = reference(*(x if d is None else x.select(d, k) for x, d in zip(batched, places)))
                assert torch.equal(got[k], one), p.source
        if case % 50 == 0:
            torch._dynamo.reset()
            compiled = torch.compile(lambda *a, op=op: op(*a) + 1, backend="aot_eager", fullgraph=True)
            assert torch.equal(compiled(*inputs), want + 1), p.source
        assert torch.equal(op(*(torch.empty_like(x, device="meta") if isinstance(x, torch.Tensor) else x for x in inputs)).new_empty(0, device="cpu"),
                           torch.empty(0, dtype=dtype))
