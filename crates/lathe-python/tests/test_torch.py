"""Operators of PyTorch, and kernels that are called with its tensors: run by ``make test-torch``."""

import gc
import os
import resource

import pytest
import torch
from torch._subclasses import FakeTensorMode

import lathe
import lathe.torch
from refusals import refused

scale = lathe.kernel("kernel scale(a: f32, x: f32[N]) -> (y: f32[N]) { y[i] = a * x[i] }")
square = lathe.kernel("kernel square(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] * x[i] }")
gemm = lathe.kernel("kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }")
both = lathe.kernel("kernel both(x: f64[N]) -> (d: f64[N], s: f64[N, 2]) { d[i] = 2 * x[i]\n s[i, j] = x[i] * x[i] where j in 0..2 }")
total = lathe.kernel("kernel total(x: f32[N], t: inout f32[N]) { t[i] += x[i] }")
shift = lathe.kernel("kernel shift(n: i32, x: i32[N]) -> (y: i32[N]) { y[i] = n + x[i] }")
divide = lathe.kernel("kernel divide(x: i32[N], y: i32[N]) -> (q: i32[N]) { q[i] = x[i] // y[i] }")


def product():
    return lathe.torch.op(gemm, vjp=lambda a, b, g: (gemm(g, b.T), gemm(a.T, g)))


def test_tensors():
    x = torch.arange(6, dtype=torch.float32)
    assert torch.equal(scale(2, x), 2 * x)
    assert torch.equal(scale(2, x[1::2]), 2 * x[1::2])
    assert torch.equal(scale(torch.tensor(2.0), x), 2 * x)
    assert torch.equal(scale(2, torch.nn.Parameter(x, requires_grad=False)), 2 * x)
    a, b = torch.randn(5, 7), torch.randn(3, 7)
    y = gemm(a, b.T)
    assert isinstance(y, torch.Tensor) and torch.allclose(y, a @ b.T, atol=1e-5)
    assert torch.allclose(gemm(a[0].expand(4, 7), b.T), a[0].expand(4, 7) @ b.T, atol=1e-5)
    for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16), ("f64", torch.float64), ("i32", torch.int32), ("i8", torch.int8),
                        ("u8", torch.uint8), ("i64", torch.int64), ("index", torch.int64), ("u16", torch.uint16)):
        k = lathe.kernel(f"kernel t(x: {name}[N]) -> (y: {name}[N]) {{ y[i] = x[i] + x[i] }}")
        v = torch.tensor([1, 2, 3]).to(dtype)
        assert k(v).dtype == dtype and torch.equal(k(v).to(torch.float64), 2 * v.to(torch.float64))
        for other in (torch.float32, torch.int32, torch.complex64):
            if other != dtype:
                with pytest.raises(lathe.DtypeError):
                    k(v.to(other))
    flip = lathe.kernel("kernel flip(x: bool[N]) -> (y: bool[N]) { y[i] = not x[i] }")
    assert torch.equal(flip(torch.tensor([True, False])), torch.tensor([False, True]))
    out = torch.empty(6)
    assert scale(3, x, out=out) is out and torch.equal(out, 3 * x)
    assert scale(3, x, out=out[::2].new_empty(12)[::2])[1] == 3
    t = torch.ones(6)
    total(x, t)
    assert torch.equal(t, 1 + x)
    with pytest.raises(lathe.OverlapError):
        total(x, x)
    with pytest.raises(lathe.OverlapError):
        total(x, torch.ones(1).expand(6))
    with pytest.raises(lathe.ShapeError):
        scale(2, x.reshape(2, 3))
    with pytest.raises(lathe.ShapeError):
        gemm(a, a)
    with pytest.raises(lathe.LayoutError):
        gemm(a.to_sparse(), b.T)
    with pytest.raises(lathe.DivisionError):
        divide(torch.ones(3, dtype=torch.int32), torch.zeros(3, dtype=torch.int32))
    assert scale(2, torch.empty(0)).shape == (0,) and gemm(torch.empty(0, 3), torch.empty(3, 2)).shape == (0, 2)
    with torch.inference_mode():
        assert torch.equal(scale(2, x), 2 * x)
        total(x, t)
    # What is negated when it is read.
    negative = torch._neg_view(x)
    assert negative.is_neg() and torch.equal(scale(2, negative), -2 * x)
    with pytest.raises(lathe.LayoutError):
        scale(2, x, out=torch._neg_view(torch.zeros(6)))
    misaligned = torch.frombuffer(bytearray(25), dtype=torch.float32, count=6, offset=1)
    with pytest.raises(lathe.LayoutError):
        scale(2, misaligned)
    with pytest.warns(lathe.CopyWarning):
        assert torch.equal(scale(2, misaligned, copy=True), torch.zeros(6))
    with torch.device("meta"):
        assert torch.equal(scale(2, x), 2 * x)


def test_no_gradient_is_lost():
    """A direct call that PyTorch would differentiate is refused; where nothing is asked for it is not."""
    x = torch.arange(4.0, requires_grad=True)
    for call in (lambda: square(x), lambda: scale(2, x), lambda: scale(torch.tensor(2.0, requires_grad=True), x.detach()),
                 lambda: gemm(torch.ones(2, 2), x.reshape(2, 2)), lambda: square(torch.nn.Parameter(torch.ones(3))),
                 lambda: square(x, out=torch.zeros(4)), lambda: total(x, torch.ones(4)), lambda: total(torch.ones(4), 2 * x),
                 lambda: square(x.to("meta")), lambda: square(x, threads=1)):
        with refused(lathe.GradientError, "E0915") as e:
            call()
        assert "detach" in e.value.help or "no_grad" in e.value.help
    with torch.no_grad():
        assert torch.equal(square(x), x.detach() ** 2)
        leaf = torch.ones(4, requires_grad=True)
        total(torch.ones(4), leaf)
        assert leaf[0] == 2
    assert torch.equal(square(x.detach()), x.detach() ** 2)
    assert not square(x.detach()).requires_grad


def test_what_is_saved_is_not_changed_unseen():
    op = lathe.torch.op(square, vjp=lambda x, g: 2 * x * g)
    a = torch.full((3,), 3.0, requires_grad=True)
    b = a * 1
    y = op(b)
    with torch.no_grad():
        b.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        y.sum().backward()
    # By a kernel as well.
    for change in (lambda t: total(torch.ones(3), t), lambda t: square(torch.ones(3), out=t), lambda t: lathe.torch.op(total)(torch.ones(3), t)):
        b = a * 1
        y = op(b)
        before = b._version
        with torch.no_grad():
            change(b)
        assert b._version > before
        with pytest.raises(RuntimeError, match="inplace"):
            y.sum().backward()
    b = a * 1
    op(b).sum().backward()
    assert torch.equal(a.grad, torch.full((3,), 6.0))


def test_forward_mode_is_refused():
    import torch.autograd.forward_ad as fw

    op = lathe.torch.op(square, vjp=lambda x, g: 2 * x * g)
    plain = lathe.torch.op(square)
    x = torch.arange(3.0)
    with fw.dual_level():
        d = fw.make_dual(x, torch.ones(3))
        for call in (op, plain, square, torch.ops.lathe[op._name] if hasattr(torch.ops.lathe, "__getitem__") else op):
            with pytest.raises((lathe.GradientError, RuntimeError)):
                call(d)
        assert torch.equal(op(x), x * x)
    for call in (op, plain, square):
        with pytest.raises((lathe.GradientError, RuntimeError)):
            torch.func.jvp(call, (x,), (torch.ones(3),))
        with pytest.raises((lathe.GradientError, RuntimeError)):
            torch.func.jacfwd(call)(x)


def test_gradients():
    op = lathe.torch.op(scale, vjp=lambda a, x, g: (None, a * g))
    x = torch.arange(6, dtype=torch.float32)
    assert torch.equal(op(2.0, x), 2 * x) and torch.equal(op(2, x=x), 2 * x)
    y = x.clone().requires_grad_()
    op(2.0, y).sum().backward()
    assert torch.equal(y.grad, torch.full((6,), 2.0))
    named = lathe.torch.op(gemm, "my_gemm", vjp=lambda a, b, g: (gemm(g, b.T), gemm(a.T, g)))
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    assert torch.allclose(torch.ops.lathe.my_gemm(a, b), a @ b, atol=1e-5)
    for mm in (named, product()):
        p, q = a.clone().requires_grad_(), b.clone().requires_grad_()
        (mm(p, q) ** 2).sum().backward()
        wp, wq = a.clone().requires_grad_(), b.clone().requires_grad_()
        ((wp @ wq) ** 2).sum().backward()
        assert torch.allclose(p.grad, wp.grad, atol=1e-4) and torch.allclose(q.grad, wq.grad, atol=1e-4)
    # Without a rule the kernel is differentiated, and its derivative again.
    p, q = a.clone().requires_grad_(), b.clone().requires_grad_()
    wp, wq = a.clone().requires_grad_(), b.clone().requires_grad_()
    (lathe.torch.op(gemm)(p, q) ** 2).sum().backward()
    ((wp @ wq) ** 2).sum().backward()
    assert torch.allclose(p.grad, wp.grad, atol=1e-4) and torch.allclose(q.grad, wq.grad, atol=1e-4)
    cubes = lathe.torch.op(lathe.kernel("kernel c(x: f64[N]) -> (y: f64[N], z: f64) { y[i] = x[i] * x[i] * x[i]\nz = sum[i](x[i]) }"))
    z = torch.randn(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(cubes, z) and torch.autograd.gradgradcheck(cubes, z)
    (only,) = torch.autograd.grad(cubes(z)[1], z)
    assert torch.equal(only, torch.ones(4, dtype=torch.float64))
    with refused(lathe.GradientError, "E1301", "`y`", "floor"):
        lathe.torch.op(lathe.kernel("kernel f(x: f32[N]) -> (y: f32[N]) { y[i] = floor(x[i]) }"))(z.detach().float().requires_grad_()).sum().backward()
    with pytest.raises(lathe.GradientError):
        lathe.torch.op(total, vjp=lambda x, t: (None, None))
    with pytest.raises(lathe.GradientError):
        lathe.torch.op(total)(torch.ones(3, requires_grad=True), torch.ones(3))
    with refused(lathe.GradientError, "E0915", "`gemm`", "1", "2"):
        lathe.torch.op(gemm, vjp=lambda a, b, g: g)(a.clone().requires_grad_(), b).sum().backward()
    # Of a gradient only with a rule of its own.
    once = lathe.torch.op(square, vjp=lambda x, g: 2 * x * g)
    z = torch.arange(3.0, requires_grad=True)
    (g,) = torch.autograd.grad(once(z).sum(), z, create_graph=True)
    assert torch.equal(torch.autograd.grad(g.sum(), z)[0], torch.full((3,), 2.0))
    p = a.clone().requires_grad_()
    with pytest.raises(lathe.GradientError):
        torch.autograd.grad(product()(p, b).sum(), p, create_graph=True)
    assert torch.autograd.gradcheck(lathe.torch.op(
        lathe.kernel("kernel s(x: f64[N]) -> (y: f64[N]) { y[i] = x[i] * x[i] }"), vjp=lambda x, g: 2 * x * g),
        torch.randn(4, dtype=torch.float64, requires_grad=True), check_forward_ad=False)


def test_transforms():
    mm = product()
    a, b = torch.randn(6, 5, 7), torch.randn(6, 7, 3)
    close = lambda x, y: torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)  # noqa: E731
    for f in (mm, lathe.torch.op(gemm), gemm):
        close(torch.vmap(f)(a, b), a @ b)
        close(torch.vmap(f, (0, None))(a, b[0]), a @ b[0])
        close(torch.vmap(f, (None, 2), 1)(a[0], b.movedim(0, 2)), (a[0] @ b).movedim(0, 1))
        close(torch.vmap(torch.vmap(f, (None, 0)), (0, None))(a, b), torch.einsum("pij,qjk->pqik", a, b))
        assert torch.vmap(f)(a[:0], b[:0]).shape == (0, 5, 3)
    op = lathe.torch.op(square, vjp=lambda x, g: 2 * x * g)
    x = torch.arange(3.0)
    close(torch.func.grad(lambda x: op(x).sum())(x), 2 * x)
    close(torch.func.vmap(torch.func.grad(lambda x: op(x).sum()))(a[0]), 2 * a[0])
    close(torch.func.jacrev(op)(x), torch.diag(2 * x))
    close(torch.func.vjp(op, x)[1](torch.ones(3))[0], 2 * x)
    close(torch.func.grad(lambda a: mm(a, b[0]).sum())(a[0]), b[0].sum(1).expand(5, 7))
    close(torch.func.functional_call(Module(), {}, (a[0], b[0])), a[0] @ b[0])
    d, s = torch.vmap(lathe.torch.op(both))(a[0].double())
    close(s[..., 0], a[0].double() ** 2)


class Module(torch.nn.Module):
    def forward(self, a, b):
        return lathe.torch.op(gemm)(a, b)


def test_tensors_without_elements():
    op, a, b = lathe.torch.op(gemm), torch.randn(5, 7), torch.randn(7, 3)
    for f in (op, gemm):
        made = f(a.to("meta"), b.to("meta"))
        assert made.shape == (5, 3) and made.device.type == "meta"
        with FakeTensorMode() as mode:
            made = f(mode.from_tensor(a), mode.from_tensor(b))
            assert made.shape == (5, 3) and made.dtype == torch.float32 and type(made).__name__ == "FakeTensor"
            with refused(lathe.ShapeError, "E0811", "`B`", "K = 7", "`A`"):
                f(mode.from_tensor(a), mode.from_tensor(a))
            with pytest.raises(lathe.DtypeError):
                f(made.double(), made)
        for wrong in ((a.to("meta"), a.to("meta")), (a.to("meta")[0], b.to("meta")), (a.to("meta").int(), b.to("meta"))):
            with pytest.raises(lathe.ArgumentError):
                f(*wrong)
    with pytest.raises(lathe.DeviceError):
        scale(2, a[0].to("meta"), out=torch.empty(7))


def test_wrong_calls():
    a = torch.randn(5, 7)
    mm = lathe.torch.op(gemm)
    for wrong in (lambda: mm(a.double(), a.T), lambda: mm(a, a), lambda: mm(a), lambda: mm(a, a.T, a), lambda: mm(a, C=a), lambda: mm(a, A=a.T),
                  lambda: mm(a.numpy().tolist(), a.T), lambda: lathe.torch.op(shift)(2.5, torch.ones(2, dtype=torch.int32)),
                  lambda: lathe.torch.op("x"), lambda: lathe.torch.op(gemm, vjp=3), lambda: lathe.torch.op(gemm, strategy="nope"),
                  lambda: lathe.torch.op(scale)(1e300, a[0]), lambda: mm(a.to_sparse(), a.T),
                  lambda: lathe.torch.op(lathe.kernel("struct P { v: f32 }\nkernel s(x: P[N]) -> (y: f32[N]) { y[i] = x[i].v }"))):
        with pytest.raises(lathe.LatheError):
            wrong()


def test_pytorchs_own_checks():
    x = torch.arange(6, dtype=torch.float32)
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    check = torch.library.opcheck
    op = lathe.torch.op(scale, vjp=lambda a, x, g: (None, a * g))
    check(op, (2.0, x))
    check(op, (2.0, x.clone().requires_grad_()))
    check(lathe.torch.op(gemm), (a, b))
    check(product(), (a.clone().requires_grad_(), b.clone().requires_grad_()))
    check(lathe.torch.op(both), (torch.arange(4.0, dtype=torch.float64),))
    check(lathe.torch.op(total), (x, torch.ones(6)))


def test_compiled_programs():
    mm, add, sq = product(), lathe.torch.op(total), lathe.torch.op(square, vjp=lambda x, g: 2 * x * g)

    def program(a, b):
        c = mm(a, b) + 1
        t = torch.zeros(c.shape[1])
        add(c[0].detach().contiguous(), t)
        return mm(c, c.T), t

    for backend, dynamic in (("eager", False), ("aot_eager", False), ("aot_eager", True), ("inductor", True)):
        torch._dynamo.reset()
        f = torch.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)
        for n in (3, 5):
            a, b = torch.randn(n, 7), torch.randn(7, n + 1)
            for got, want in zip(f(a, b), program(a, b)):
                assert torch.allclose(got, want, atol=1e-4), (backend, n)
    # With gradients, and with an operator that is made inside.
    torch._dynamo.reset()
    for f in (lambda x: sq(x).sum(), lambda x: sq(sq(x)).sum()):
        compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
        for n in (3, 4):
            x, y = (torch.arange(float(n), requires_grad=True) for _ in range(2))
            compiled(x).backward()
            f(y).backward()
            assert torch.allclose(x.grad, y.grad)


def test_exported_programs():
    a, b = torch.randn(4, 7), torch.randn(7, 3)
    lathe.torch.op(gemm)

    class Made(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.op = lathe.torch.op(gemm)

        def forward(self, a, b):
            return self.op(a, b)

    exported = torch.export.export(Made(), (a, b))
    assert torch.allclose(exported.module()(a, b), a @ b, atol=1e-5)
    n = torch.export.Dim("n", min=2)
    exported = torch.export.export(Made(), (a, b), dynamic_shapes={"a": {0: n}, "b": None})
    for rows in (2, 9):
        a = torch.randn(rows, 7)
        assert torch.allclose(exported.module()(a, b), a @ b, atol=1e-5)


def test_operators_are_named_by_their_content():
    assert lathe.torch.op(gemm) is lathe.torch.op(gemm) and product() is product()
    assert lathe.torch.op(lathe.kernel(gemm.source()))._name == lathe.torch.op(gemm)._name
    assert lathe.torch.op(gemm)._name != lathe.torch.op(lathe.kernel(gemm.source() + " "))._name

    def ruled(factor):
        return lathe.torch.op(scale, vjp=lambda a, x, g: (None, factor * g))

    for factor in (1.0, 2.0, 3.0):
        x = torch.ones(3, requires_grad=True)
        ruled(factor)(2.0, x).sum().backward()
        assert x.grad[0] == factor


def test_gradients_with_operators_made_inside_leave_nothing_behind():
    count = int(os.environ.get("LATHE_GRADIENTS", "400"))
    a, b = torch.randn(3, 4), torch.randn(4, 5)

    def grow(loss):
        want = torch.autograd.grad((2 * (p := a.clone().requires_grad_()) @ b).sum(), p)[0]

        def some(n):
            for _ in range(n):
                p = a.clone().requires_grad_()
                loss(p).backward()
            return p.grad

        some(count // 4)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        got = some(count)
        gc.collect()
        torch.testing.assert_close(got, want)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    def closed(kernel, factor):
        def loss(p):
            # Around it is a kernel, and in the second case a tensor, too.
            mm = lathe.torch.op(kernel, vjp=lambda a, b, g: (factor * gemm(g, b.T), None))
            return mm(p, b).sum()

        return loss

    assert grow(closed(gemm, 2)) < 4096
    assert grow(closed(gemm, torch.tensor(2.0))) < 4096


def test_numbers_that_require_a_gradient_are_refused():
    a, x = torch.tensor(2.0, requires_grad=True), torch.ones(3)
    operator = lathe.torch.op(scale)
    compiled = torch.compile(operator, backend="eager")
    for call in (operator, lambda a, x: operator(x=x, a=a), lambda a, x: torch.func.grad(lambda a: operator(a, x).sum())(a.detach()), compiled):
        for given in (x, torch.ones(3, requires_grad=True)):
            with refused(lathe.GradientError, "E0915", "`a`", "`scale`"):
                call(a, given)
    with torch.no_grad():
        assert torch.equal(operator(a, x), 2 * x)
    assert torch.equal(operator(a.detach(), x), 2 * x)
