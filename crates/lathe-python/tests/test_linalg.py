"""lathe.linalg and lathe.fft against numpy and, where SciPy is there, against it; and what is wrong with a call."""

import itertools
import os

import numpy as np
import pytest

import lathe
import lathe.fft
import lathe.linalg as la
from refusals import names

SIZES = [0, 1, 2, 3, 5, 17, 63, 64, 65, 130, 200]
TYPES = [np.float32, np.float64, np.complex64, np.complex128]


def adjoint(a):
    return np.swapaxes(a, -1, -2).conj()


def numbers(rng, shape, dtype):
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def matrices(n, dtype, batch=()):
    a = numbers(np.random.default_rng(n), (*batch, n, n), dtype)
    return a, (a @ adjoint(a) + n * np.eye(n)).astype(dtype)


def close(x, want, dtype, n):
    """Within what a backward stable algorithm may lose."""
    eps = np.finfo(dtype).eps * max(n, 4) * 64
    scale = np.abs(want).max() if np.size(want) else 1
    assert np.shape(x) == np.shape(want) and np.asarray(x).dtype == dtype
    assert np.abs(x - want).max(initial=0) <= eps * max(scale, 1), np.abs(x - want).max(initial=0) / eps


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", SIZES)
def test_factorizations_multiply_to_the_matrix(n, dtype):
    a, s = matrices(n, dtype)
    lower = la.cholesky(s)
    assert (np.triu(lower, 1) == 0).all()
    close(lower @ adjoint(lower), s, dtype, n)
    upper = la.cholesky(s, upper=True)
    close(adjoint(upper) @ upper, s, dtype, n)
    close(la.cholesky(np.tril(s) + np.triu(np.full_like(s, np.nan), 1)), lower, dtype, n)
    p, low, up = la.lu(a)
    close(p @ low @ up, a, dtype, n)
    # The largest element by the magnitudes of its parts is at least this large.
    most = np.sqrt(2) if np.dtype(dtype).kind == "c" else 1
    assert (np.abs(np.tril(low, -1)) <= most * (1 + 1e-6)).all() and (np.triu(low, 1) == 0).all() and (np.tril(up, -1) == 0).all()
    w, pivots = la.lu_factor(a[: n // 2])
    assert w.shape == (n // 2, n) and pivots.shape == (n // 2,)
    p, low, up = la.lu(a[:, : n // 2])
    close(p @ low @ up, a[:, : n // 2], dtype, n)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", SIZES)
def test_solutions_solve(n, dtype):
    a, s = matrices(n, dtype)
    x = numbers(np.random.default_rng(1), (n, 3), dtype)
    for b in (s @ x, (s @ x)[:, 0]):
        want = x if b.ndim == 2 else x[:, 0]
        close(la.solve(s, b), want, dtype, n)
        close(la.cho_solve((la.cholesky(s), True), b), want, dtype, n)
        close(la.cho_solve((la.cholesky(s, upper=True), False), b), want, dtype, n)
        close(la.lu_solve(la.lu_factor(s), b), want, dtype, n)
    t = s + n * n * np.eye(n, dtype=dtype)
    for lower in (False, True):
        part = (np.tril if lower else np.triu)(t).astype(dtype)
        # The other half is not read.
        held = np.where(part == 0, np.nan, t).astype(dtype) if n else t
        close(la.solve_triangular(held, part @ x, lower=lower), x, dtype, n)
        close(la.solve_triangular(held, part.T @ x, lower=lower, trans="T"), x, dtype, n)
        close(la.solve_triangular(held, adjoint(part) @ x, lower=lower, trans="C"), x, dtype, n)
        unit = part - np.diag(np.diag(part)) + np.eye(n, dtype=dtype)
        small = (unit / (4 * n * n + 4) + np.eye(n) - np.eye(n) / (4 * n * n + 4)).astype(dtype)
        close(la.solve_triangular(small, small @ x, lower=lower, unit_diagonal=True), x, dtype, n)
    close(la.inv(s) @ s, np.eye(n, dtype=dtype), dtype, n)


def test_determinants():
    for n in (0, 1, 2, 5, 70):
        for dtype in (np.float64, np.complex128):
            a, _ = matrices(n, dtype)
            sign, log = la.slogdet(a)
            want = np.linalg.slogdet(a)
            assert np.isclose(sign, want[0], rtol=1e-12) and np.isclose(log, want[1]) and np.isclose(la.det(a), np.linalg.det(a), rtol=1e-9)
            assert sign.dtype == dtype and log.dtype == np.float64
    for kind in (float, complex):
        assert la.det(np.zeros((3, 3), kind)) == 0 and la.slogdet(np.ones((2, 2), kind)) == (0, -np.inf)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_many_matrices_and_any_strides(dtype):
    a, s = matrices(7, dtype, (2, 3))
    b = numbers(np.random.default_rng(3), (3, 7, 2), dtype)
    np.testing.assert_allclose(la.cholesky(s), np.linalg.cholesky(s), rtol=1e-10)
    np.testing.assert_allclose(la.solve(s, b), np.linalg.solve(s, np.broadcast_to(b, (2, 3, 7, 2))), rtol=1e-9)
    np.testing.assert_allclose(la.inv(s), np.linalg.inv(s), rtol=1e-9)
    np.testing.assert_allclose(la.det(a), np.linalg.det(a), rtol=1e-9)
    p, low, up = la.lu(a)
    np.testing.assert_allclose(p @ low @ up, a, atol=1e-12)
    wide = np.zeros((14, 21), dtype)
    wide[::-2, ::3] = s[0, 0]
    before = wide.copy()
    np.testing.assert_allclose(la.cholesky(wide[::-2, ::3]), np.linalg.cholesky(s[0, 0]), rtol=1e-10)
    np.testing.assert_allclose(la.solve(wide[::-2, ::3].T, np.arange(7)), np.linalg.solve(s[0, 0].T, np.arange(7.0)), rtol=1e-9)
    assert (wide == before).all()
    swapped = np.dtype(dtype).newbyteorder(">")
    np.testing.assert_allclose(la.solve(s[0, 0].astype(swapped), np.ones(7, swapped)), np.linalg.solve(s[0, 0], np.ones(7)))
    # Real and complex ones together.
    real = np.eye(7) + np.triu(s[0, 0].real)
    for x, y in ((real, b[0].astype(complex) + 1j), (real + 1j, b[0]), (real.astype(np.float32), b[0].astype(np.complex64))):
        got = la.solve(x, y)
        assert got.dtype == np.result_type(x, y)
        np.testing.assert_allclose(got, np.linalg.solve(x, y), rtol=1e-4 if got.dtype == np.complex64 else 1e-9)
        np.testing.assert_allclose(la.solve_triangular(np.triu(x), y), np.linalg.solve(np.triu(x), y), rtol=1e-4 if got.dtype == np.complex64 else 1e-9)


def test_against_scipy():
    linalg = pytest.importorskip("scipy.linalg")
    for n, dtype in itertools.product((1, 6, 90), (np.float64, np.complex128)):
        a, _ = matrices(n, dtype)
        w, p = la.lu_factor(a)
        want = linalg.lu_factor(a)
        assert (p == want[1]).all()
        np.testing.assert_allclose(w, want[0], atol=1e-10)


def test_matrices_that_do_not_have_what_is_asked():
    for wrong in (lambda: la.cholesky(-np.eye(3)), lambda: la.cholesky([[1.0, 2.0], [2.0, 1.0]]),
                  lambda: la.cholesky(np.full((2, 2), np.nan)), lambda: la.cholesky(np.array([[1, 2j], [-2j, 1]])),
                  lambda: la.solve(np.ones((3, 3), complex), np.ones(3)), lambda: la.cholesky(-np.eye(3, dtype=np.complex64)), lambda: la.solve(np.ones((3, 3)), np.ones(3)),
                  lambda: la.inv(np.zeros((2, 2))), lambda: la.solve_triangular(np.ones((2, 2)) - np.eye(2), np.ones(2)),
                  lambda: la.cholesky(np.diag([1.0] * 80 + [0.0]))):
        with pytest.raises(la.LinAlgError) as e:
            wrong()
        assert isinstance(e.value, np.linalg.LinAlgError) and isinstance(e.value, lathe.LatheError)
    assert names(e.value, "81")


@pytest.mark.parametrize("wrong, kind", [
    (lambda: la.cholesky(np.ones((2, 3))), lathe.ShapeError), (lambda: la.cholesky(np.ones(3)), lathe.ShapeError),
    (lambda: la.cholesky(np.ones((2, 2), np.float16)), lathe.DtypeError), (lambda: la.solve(np.eye(2), np.ones(3)), lathe.ShapeError),
    (lambda: la.solve(np.eye(2), 1.0), lathe.ShapeError), (lambda: la.solve(np.eye(2), ["a", "b"]), lathe.DtypeError),
    (lambda: la.solve_triangular(np.eye(2), np.ones(2), trans=3), lathe.OptionError),
    (lambda: la.lu_solve((np.eye(2), np.array([0, 7])), np.ones(2)), lathe.ArgumentError),
    (lambda: la.lu_solve(np.eye(2), np.ones(2)), lathe.OptionError), (lambda: la.cho_solve(np.eye(2), np.ones(2)), lathe.OptionError),
    (lambda: la.solve(np.zeros((2, 3, 3)), np.zeros((4, 3, 1))), lathe.ShapeError),
    (lambda: lathe.fft.fft(1.0), lathe.ShapeError), (lambda: lathe.fft.fft(["a"]), lathe.DtypeError),
    (lambda: lathe.fft.fft([1.0], n=0), lathe.OptionError), (lambda: lathe.fft.fft([1.0], axis=1), lathe.OptionError),
    (lambda: lathe.fft.fft([1.0], norm="no"), lathe.OptionError), (lambda: lathe.fft.rfft([1j]), lathe.DtypeError),
    (lambda: lathe.fft.fftn(np.ones((2, 2)), s=(2,), axes=(0, 1)), lathe.OptionError), (lambda: lathe.fft.fft([]), lathe.OptionError),
])
def test_wrong_calls(wrong, kind):
    with pytest.raises(kind) as e:
        wrong()
    assert isinstance(e.value, lathe.LatheError)


LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 25, 31, 32, 37, 49, 60, 64, 97, 100, 128, 210, 343, 509, 1024, 1155, 2 * 509]


@pytest.mark.parametrize("n", LENGTHS)
def test_transforms(n):
    rng = np.random.default_rng(n)
    x = rng.standard_normal((3, n)) + 1j * rng.standard_normal((3, n))
    for name in ("fft", "ifft"):
        ours, numpys = getattr(lathe.fft, name), getattr(np.fft, name)
        for norm in (None, "backward", "ortho", "forward"):
            np.testing.assert_allclose(ours(x, norm=norm), numpys(x, norm=norm), rtol=0, atol=1e-13 * n)
        single = ours(x.astype(np.complex64))
        assert single.dtype == np.complex64
        np.testing.assert_allclose(single, numpys(x), rtol=0, atol=3e-6 * np.sqrt(n) * 8)
    real = x.real
    np.testing.assert_allclose(lathe.fft.rfft(real), np.fft.rfft(real), rtol=0, atol=1e-13 * n)
    half = np.fft.rfft(real)
    np.testing.assert_allclose(lathe.fft.irfft(half, n), np.fft.irfft(half, n), rtol=0, atol=1e-13 * n)
    np.testing.assert_allclose(lathe.fft.irfft(x[:, : n // 2 + 1], n), np.fft.irfft(x[:, : n // 2 + 1], n), rtol=0, atol=1e-13 * n)
    np.testing.assert_allclose(lathe.fft.ifft(lathe.fft.fft(x)), x, rtol=0, atol=1e-13 * n)


def test_cases_of_numpys():
    """Random shapes, dimensions, lengths, views and types."""
    rng = np.random.default_rng(5)
    for _ in range(int(os.environ.get("LATHE_CASES", 60))):
        shape = tuple(int(v) for v in rng.integers(1, 9, rng.integers(1, 4)))
        x = rng.standard_normal(shape)
        x = [x, x + 1j * rng.standard_normal(shape), (10 * x).astype(np.int32), x > 0, x[::-1].T, x.astype(np.float32)][rng.integers(6)]
        axis, n = int(rng.integers(-x.ndim, x.ndim)), [None, int(rng.integers(1, 12))][rng.integers(2)]
        for name in ("fft", "ifft", "rfft", "irfft"):
            if name == "rfft" and x.dtype.kind == "c" or name == "irfft" and n is None and x.shape[axis] == 1:
                continue
            want = getattr(np.fft, name)(x, n, axis)
            got = getattr(lathe.fft, name)(x, n, axis)
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-4 if x.dtype == np.float32 else 1e-11)
        np.testing.assert_allclose(lathe.fft.fftn(x), np.fft.fftn(x), rtol=0, atol=1e-4 if x.dtype == np.float32 else 1e-11)
        np.testing.assert_allclose(lathe.fft.ifftn(lathe.fft.fftn(x)), x, rtol=0, atol=1e-4 if x.dtype == np.float32 else 1e-11)
    a = rng.standard_normal((3, 4, 5))
    np.testing.assert_allclose(lathe.fft.fft2(a, (6, 3)), np.fft.fft2(a, (6, 3)), atol=1e-12)
    np.testing.assert_allclose(lathe.fft.ifft2(a, axes=(0, 1)), np.fft.ifft2(a, axes=(0, 1)), atol=1e-12)
    assert lathe.fft.fft(np.zeros((0, 4))).shape == (0, 4)
