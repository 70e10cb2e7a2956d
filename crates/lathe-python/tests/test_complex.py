"""Complex numbers: numpy's, Python's, and those of JAX and PyTorch."""

import math

import numpy as np
import pytest

import lathe
from refusals import refused

KINDS = [(np.complex64, "c64", "f32"), (np.complex128, "c128", "f64")]

scale = lathe.kernel("kernel scale(a: c64, x: c64[N]) -> (y: c64[N]) { y[i] = a * x[i] }")
generic = lathe.kernel("""
kernel dot<T in {f64, c64, c128}>(x: T[N], y: T[N]) -> (s: T) { s = sum[i](conj(x[i]) * y[i]) }""")


def numbers(rng, shape, dtype):
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def near(got, want, ulps):
    """Each part within so many units in the last place of the magnitude; NaNs and infinities where they belong."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    size = np.abs(want.astype(np.clongdouble)) * np.finfo(want.dtype).eps * ulps + np.finfo(want.dtype).smallest_subnormal * 4
    for part in (np.real, np.imag):
        g, w = part(got), part(want)
        with np.errstate(all="ignore"):
            same = (g == w) | (np.isnan(g) & np.isnan(w)) | (np.abs(g.astype(np.longdouble) - w) <= size)
        assert same.all(), (got[~same], want[~same])


def test_numbers_and_arrays():
    x = np.array([1 + 2j, -3j, 0], np.complex64)
    for a in (2j, 2, 0.5, np.complex64(1 - 1j), np.float32(3), np.array(1j, np.complex64)):
        np.testing.assert_array_equal(scale(a, x), np.complex64(a) * x)
    np.testing.assert_array_equal(scale(1j, x[::-1]), 1j * x[::-1])
    assert scale.dtype("x") == np.complex64
    for wrong in (np.complex128(1), np.float64(1), "1", 1e300, True):
        with refused(lathe.DtypeError, "E0809", "`a`"):
            scale(wrong, x)
    for wrong in (x.astype(complex), x.real, x.view(np.float32), np.zeros(3, [("re", "f4"), ("im", "f4")])):
        with refused(lathe.DtypeError, "E0809", "`x`"):
            scale(1, wrong)
    big = x.astype(x.dtype.newbyteorder(">"))
    with pytest.warns(lathe.CopyWarning):
        np.testing.assert_array_equal(scale(1j, big, copy=True), 1j * x)
    out = np.empty(3, np.complex64)
    assert scale(1j, x, out=out) is out


def test_generic():
    rng = np.random.default_rng(1)
    for dtype in (np.float64, np.complex64, np.complex128):
        x, y = numbers(rng, 33, np.complex128), numbers(rng, 33, np.complex128)
        x, y = (x.real, y.real) if dtype is np.float64 else (x.astype(dtype), y.astype(dtype))
        got = generic(x, y)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, np.vdot(x, y), rtol=1e-5 if dtype == np.complex64 else 1e-13)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -3.25, 1e-300, 1e200, -1e200, 1e308, 5e-324, math.inf, -math.inf, math.nan]
FUNCTIONS = {"exp": 4, "log": 4, "sqrt": 4, "sin": 4, "cos": 4, "sinh": 4, "cosh": 4, "tanh": 8, "tan": 8, "square": 2, "conj": 0}


@pytest.mark.parametrize("dtype, kind, part", KINDS)
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions(name, dtype, kind, part):
    f = lathe.kernel(f"kernel f(z: {kind}[N]) -> (y: {kind}[N]) {{ y[i] = {name}(z[i]) }}")
    rng = np.random.default_rng(2)
    reference = getattr(np, name)
    plain = (numbers(rng, 500, np.complex128) * np.exp(rng.uniform(-3, 3, 500))).astype(dtype)
    wide = reference(plain.astype(np.clongdouble)).astype(dtype)
    near(f(plain), wide, FUNCTIONS[name])
    with np.errstate(all="ignore"):
        values = np.array(SPECIAL).astype(np.finfo(dtype).dtype)
        z = np.empty((len(values), len(values)), dtype)
        z.real, z.imag = values[:, None], values
        z = z.ravel()
        if name not in ("exp", "log", "sqrt", "conj"):
            # What is not finite, and what overflows on the way, is said to differ.
            z = z[np.isfinite(z) & (np.abs(z.real) < 50) & (np.abs(z.imag) < 50)]
        # Sines are of magnitudes below 2^50.
        z = z[~np.isfinite(z.imag) | (np.abs(z.imag) < 2.0**50)] if name == "exp" else z
        want = reference(z)
        # Signs of NaNs and of infinities beside NaNs are anyone's.
        got = f(z)
        known = ~(np.isnan(want.real) | np.isnan(want.imag))
        near(got[known], want[known], max(FUNCTIONS[name], 4))
        if name in ("sqrt", "conj"):
            zero = (want.real == 0) | (want.imag == 0)
            both = known & zero & np.isfinite(z)
            np.testing.assert_array_equal(np.signbit(got.imag[both]), np.signbit(want.imag[both]))


@pytest.mark.parametrize("dtype, kind, part", KINDS)
def test_quotients_and_magnitudes(dtype, kind, part):
    q = lathe.kernel(f"kernel q(a: {kind}[N], b: {kind}[N]) -> (y: {kind}[N], m: {part}[N], g: {part}[N], p: {kind}[N]) {{"
                     "y[i] = a[i] / b[i]\n m[i] = abs(b[i])\n g[i] = arg(b[i])\n p[i] = pow(b[i], 3) }")
    rng = np.random.default_rng(3)
    a, b = numbers(rng, 1000, dtype), numbers(rng, 1000, dtype)
    y, m, g, p = q(a, b)
    near(y, (a.astype(np.clongdouble) / b).astype(dtype), 4)
    near(p, (b.astype(np.clongdouble) ** 3).astype(dtype), 4)
    np.testing.assert_allclose(m, np.abs(b), rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_allclose(g, np.angle(b), rtol=8 * np.finfo(dtype).eps)
    with np.errstate(all="ignore"):
        values = np.array(SPECIAL).astype(np.finfo(dtype).dtype)
        z = np.empty((len(values), len(values)), dtype)
        z.real, z.imag = values[:, None], values
        z = z.ravel()
        for top in (1 + 0j, 0j, 2 - 3j):
            a = np.full_like(z, top)
            y, m, g, _ = q(a, z)
            want = a / z
            known = ~(np.isnan(want.real) | np.isnan(want.imag))
            near(y[known], want[known], 8)
            assert (np.isnan(y.real) | np.isnan(y.imag))[~known].all()
            np.testing.assert_allclose(m, np.hypot(z.real, z.imag), rtol=4 * np.finfo(dtype).eps)
            np.testing.assert_allclose(g, np.arctan2(z.imag, z.real), rtol=8 * np.finfo(dtype).eps)


@lathe.kernel
def wave(z: lathe.c128["N"], w: lathe.c128, k: lathe.f64) -> lathe.c128["N"]:
    return lambda i: z[i].conj() * w + 2j * abs(z[i]) - z[i].imag * k + np.exp(1j * k) + (1 - 0.5j) * np.conj(z[i]) ** 2


@lathe.kernel
def total(z: lathe.c64["N"]) -> lathe.c64:
    s = 0j
    for i in range(len(z)):
        if z[i] != 1j:
            s += z[i] * z[i].real
    return s


def test_decorated_functions():
    rng = np.random.default_rng(4)
    z, k = numbers(rng, 20, np.complex128), 0.75
    want = z.conj() * (1 - 2j) + 2j * abs(z) - z.imag * k + np.exp(1j * k) + (1 - 0.5j) * np.conj(z) ** 2
    np.testing.assert_allclose(wave(z, 1 - 2j, k), want, rtol=1e-14)
    z = np.array([1 + 2j, 1j, 3 - 1j], np.complex64)
    assert total(z) == (1 + 2j) + 3 * (3 - 1j)


def test_gradients_are_derivatives_by_the_parts():
    f = lathe.kernel("kernel f(z: c128[N], w: c128[N]) -> (e: f64) { e = sum[i](square(abs(z[i] * z[i] * w[i])) + (z[i] / w[i]).re) }")
    rng = np.random.default_rng(5)
    z, w = numbers(rng, 6, np.complex128), numbers(rng, 6, np.complex128)
    got, h = lathe.grad(f, "z")(z, w), 1e-6
    for n in range(6):
        e = np.zeros(6, complex)
        e[n] = h
        want = (f(z + e, w) - f(z - e, w) + 1j * (f(z + 1j * e, w) - f(z - 1j * e, w))) / (2 * h)
        np.testing.assert_allclose(got[n], want, rtol=1e-6)
    with refused(lathe.GradientError, "E0915", "c64"):
        lathe.grad(lathe.kernel("kernel f(z: c64[N]) -> (e: c64) { e = sum[i](z[i]) }"))


def test_jax():
    jax = pytest.importorskip("jax")
    import jax.numpy as jnp

    import lathe.jax

    rng = np.random.default_rng(6)
    x = jnp.asarray(numbers(rng, 7, np.complex64))
    op = lathe.jax.op(scale)
    for f in (scale, op, jax.jit(op)):
        got = f(2j, x)
        assert isinstance(got, jax.Array) and got.dtype == jnp.complex64
        np.testing.assert_allclose(got, 2j * x, rtol=1e-6)
    a = jnp.complex64(1 - 2j)

    def loss(f):
        return lambda a, x: jnp.sum(jnp.abs(f(a, x) * x) ** 2) + jnp.real(f(a, x)[0])

    mine = jax.grad(loss(op), (0, 1))(a, x)
    theirs = jax.grad(loss(lambda a, x: a * x), (0, 1))(a, x)
    for m, t in zip(mine, theirs):
        np.testing.assert_allclose(m, t, rtol=1e-4)


def test_torch():
    torch = pytest.importorskip("torch")
    import lathe.torch

    rng = np.random.default_rng(7)
    x = torch.from_numpy(numbers(rng, 7, np.complex64))
    op = lathe.torch.op(scale)
    for f in (scale, op):
        for given in (x, x.conj(), x.conj().imag.to(torch.complex64), x.flip(0)):
            got = f(2j, given)
            assert got.dtype == torch.complex64
            torch.testing.assert_close(got, 2j * given)
    product = lathe.kernel("kernel p(x: c128[N], y: c128[N]) -> (z: c128[N]) { z[i] = x[i] * conj(y[i]) + x[i] / y[i] }")
    op = lathe.torch.op(product)
    a, b = (torch.from_numpy(numbers(rng, 5, np.complex128)).requires_grad_() for _ in range(2))
    mine = torch.autograd.grad((op(a, b).abs() ** 2).sum(), (a, b))
    theirs = torch.autograd.grad(((a * b.conj() + a / b).abs() ** 2).sum(), (a, b))
    for m, t in zip(mine, theirs):
        torch.testing.assert_close(m, t)
    assert torch.autograd.gradcheck(op, (a, b))


# Kernels beside PyTorch's own arithmetic: values and gradients, of real and complex arguments.
OF_TORCH = [
    ("x: f64[N], y: c128[N]", "c128", "x[i] * y[i] + exp(y[i])", lambda x, y: x * y + y.exp()),
    ("x: f64[N], y: f64[N]", "c128", "c128(x[i], y[i])", lambda x, y: y * 1j + x),
    ("x: c128[N]", "f64", "abs(x[i])", lambda x: x.abs()),
    ("x: c128[N]", "f64", "x[i].re * x[i].im + arg(x[i])", lambda x: x.real * x.imag + x.angle()),
    ("x: c128[N]", "c128", "sin(x[i]) * x[i] + cosh(conj(x[i]))", lambda x: x.sin() * x + x.conj().cosh()),
    ("x: c64[N], y: c64[N]", "c64", "sqrt(x[i]) / y[i]", lambda x, y: x.sqrt() / y),
    ("x: c128[1], y: c128[N]", "c128", "x[0] * conj(y[i]) + y[i] / x[0]", lambda x, y: x * y.conj() + y / x),
]


def of_torch(torch, parameter):
    kind = {"f64": torch.float64, "c64": torch.complex64, "c128": torch.complex128}[parameter.partition(": ")[2].partition("[")[0]]
    return torch.randn((1,) if "[1]" in parameter else (6,), dtype=kind, generator=torch.Generator().manual_seed(len(parameter)))


def same_as_torch(torch, mine, theirs, given):
    given = [g.requires_grad_() for g in given]
    got, want = mine(*given), theirs(*given)
    torch.testing.assert_close(got, want)
    weights = torch.rand(want.shape)
    of = [torch.autograd.grad((y * weights).sum().abs() ** 2, given) for y in (got, want)]
    for m, t in zip(*of):
        assert m.dtype == t.dtype
        torch.testing.assert_close(m, t)


@pytest.mark.parametrize("takes, gives, formula, reference", OF_TORCH)
def test_torch_gradients(takes, gives, formula, reference):
    torch = pytest.importorskip("torch")
    import lathe.torch

    op = lathe.torch.op(lathe.kernel(f"kernel f({takes}) -> (z: {gives}[N]) {{ z[i] = {formula} }}"))
    given = [of_torch(torch, p) for p in takes.split(", ")]
    same_as_torch(torch, op, reference, given)
    same_as_torch(torch, lambda *a: op(*(v.conj() for v in a)), lambda *a: reference(*(v.conj() for v in a)), given)
    given = [g.detach() for g in given]

    def total(f):
        return lambda *a: f(*a).abs().square().sum()

    pairs = zip(*(torch.func.grad(total(f), tuple(range(len(given))))(*given) for f in (op, reference)))
    for m, t in pairs:
        torch.testing.assert_close(m, t)
    many = [torch.stack([g, 2 * g]) for g in given]
    torch.testing.assert_close(torch.vmap(torch.func.grad(total(op)))(*many), torch.vmap(torch.func.grad(total(reference)))(*many))
    for p in [g.requires_grad_() for g in given if g.dtype != torch.complex64][:1]:
        assert torch.autograd.gradgradcheck(lambda v: op(v, *given[1:]), (p,))


@pytest.mark.parametrize("formula", ["ij,jk->ik", "i,i->", "bij,bjk,kl->bil", "ij->ji"])
def test_torch_einsum(formula):
    torch = pytest.importorskip("torch")
    for kind in (torch.complex64, torch.complex128):
        given = [torch.randn(tuple("ijkl".find(c) + 2 for c in part), dtype=kind) for part in formula.partition("->")[0].split(",")]
        same_as_torch(torch, lambda *a: lathe.einsum(formula, *a), lambda *a: torch.einsum(formula, *a), given)
