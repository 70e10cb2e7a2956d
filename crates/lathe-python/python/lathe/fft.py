"""Discrete Fourier transforms by kernels, with numpy's names and meanings.

>>> import lathe.fft, numpy as np
>>> np.allclose(lathe.fft.fft(np.arange(6.0)), np.fft.fft(np.arange(6.0)))
True

The algorithm is Stockham's: one pass for each prime factor of the length (4 for two twos), from one array into another, so
that nothing is permuted. Lengths with a large prime factor are convolutions of a length that has none (Bluestein). Real and
imaginary parts lie apart while a transform is computed. Single precision gives single precision.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import DtypeError, OptionError, ShapeError
from .kernels import Kernel

__all__ = ["fft", "fft2", "fftn", "ifft", "ifft2", "ifftn", "irfft", "rfft"]

#: Prime factors beyond this make the transform a convolution.
_LARGEST = 31

#: `B` transforms, of which this pass makes parts of length `R` out of `L` that are apart; `w` are the twiddle factors.
_PASS = {
    2: """
kernel pass(x: T[2, B, 2, L, M], w: T[2, L, 2]) -> (y: T[2, B, L, 2, M]) {
    for b in 0..B { for j in 0..L {
        let c = w[0, j, 1]
        let s = w[1, j, 1]
        for k in 0..M {
            let a = x[0, b, 0, j, k] - x[0, b, 1, j, k]
            let d = x[1, b, 0, j, k] - x[1, b, 1, j, k]
            y[0, b, j, 0, k] = x[0, b, 0, j, k] + x[0, b, 1, j, k]
            y[1, b, j, 0, k] = x[1, b, 0, j, k] + x[1, b, 1, j, k]
            y[0, b, j, 1, k] = c * a - s * d
            y[1, b, j, 1, k] = c * d + s * a
        }
    } }
}
""",
    4: """
kernel pass(x: T[2, B, 4, L, M], w: T[2, L, 4]) -> (y: T[2, B, L, 4, M]) {
    for b in 0..B { for j in 0..L {
        let c1 = w[0, j, 1]
        let s1 = w[1, j, 1]
        let c2 = w[0, j, 2]
        let s2 = w[1, j, 2]
        let c3 = w[0, j, 3]
        let s3 = w[1, j, 3]
        for k in 0..M {
            let ar = x[0, b, 0, j, k] + x[0, b, 2, j, k]
            let ai = x[1, b, 0, j, k] + x[1, b, 2, j, k]
            let br = x[0, b, 0, j, k] - x[0, b, 2, j, k]
            let bi = x[1, b, 0, j, k] - x[1, b, 2, j, k]
            let cr = x[0, b, 1, j, k] + x[0, b, 3, j, k]
            let ci = x[1, b, 1, j, k] + x[1, b, 3, j, k]
            let dr = x[1, b, 1, j, k] - x[1, b, 3, j, k]
            let di = x[0, b, 3, j, k] - x[0, b, 1, j, k]
            let er = br + dr
            let ei = bi + di
            let fr = ar - cr
            let fi = ai - ci
            let gr = br - dr
            let gi = bi - di
            y[0, b, j, 0, k] = ar + cr
            y[1, b, j, 0, k] = ai + ci
            y[0, b, j, 1, k] = c1 * er - s1 * ei
            y[1, b, j, 1, k] = c1 * ei + s1 * er
            y[0, b, j, 2, k] = c2 * fr - s2 * fi
            y[1, b, j, 2, k] = c2 * fi + s2 * fr
            y[0, b, j, 3, k] = c3 * gr - s3 * gi
            y[1, b, j, 3, k] = c3 * gi + s3 * gr
        }
    } }
}
""",
}

#: For any factor: `D` is the matrix of the transform of length R.
_ANY = """
kernel pass(x: T[2, B, R, L, M], w: T[2, L, R], D: T[2, R, R]) -> (y: T[2, B, L, R, M]) {
    for b in 0..B { for j in 0..L { for q in 0..R {
        var re: T[M]
        var im: T[M]
        for k in 0..M {
            re[k] = x[0, b, 0, j, k]
            im[k] = x[1, b, 0, j, k]
        }
        for p in 1..R {
            let c = D[0, q, p]
            let s = D[1, q, p]
            for k in 0..M {
                re[k] = re[k] + (c * x[0, b, p, j, k] - s * x[1, b, p, j, k])
                im[k] = im[k] + (c * x[1, b, p, j, k] + s * x[0, b, p, j, k])
            }
        }
        let c = w[0, j, q]
        let s = w[1, j, q]
        for k in 0..M {
            y[0, b, j, q, k] = c * re[k] - s * im[k]
            y[1, b, j, q, k] = c * im[k] + s * re[k]
        }
    } } }
}
"""


@functools.lru_cache(maxsize=None)
def _kernel(kind: str, factor: int) -> Kernel:
    return Kernel(_PASS.get(factor, _ANY).replace("T[", f"{kind}["))


def _factors(n: int) -> list[int]:
    """4s first, then primes in ascending order."""
    out = []
    while n % 4 == 0:
        out.append(4)
        n //= 4
    p = 2
    while n > 1:
        if p * p > n:
            p = n
        if n % p == 0:
            out.append(p)
            n //= p
        else:
            p += 1
    return out


def _roots(phase: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """``exp(-2 pi i phase)``, real and imaginary parts apart."""
    return np.stack([np.cos(2 * np.pi * phase), -np.sin(2 * np.pi * phase)]).astype(dtype)


@functools.lru_cache(maxsize=256)
def _twiddles(n: int, factor: int, kind: str) -> np.ndarray:
    """Of a pass that halves (for 2) transforms of length n."""
    j, q = np.arange(n // factor)[:, None], np.arange(factor)[None, :]
    return _roots((j * q % n) / n, np.dtype(kind))


@functools.lru_cache(maxsize=64)
def _matrix(r: int, kind: str) -> np.ndarray:
    i = np.arange(r)
    return _roots((i[:, None] * i[None, :] % r) / r, np.dtype(kind))


@functools.lru_cache(maxsize=32)
def _chirp(n: int, kind: str) -> tuple[np.ndarray, np.ndarray, int]:
    """``exp(-pi i k^2 / n)``, and the transform of its reciprocal, of a length without large factors."""
    k = np.arange(n)
    chirp = _roots((k * k % (2 * n)) / (2 * n), np.dtype(kind))
    length = 1 << (2 * n - 2).bit_length()
    around = np.zeros((2, 1, length), kind)
    for part, sign in ((0, 1), (1, -1)):
        around[part, 0, :n] = sign * chirp[part]
        around[part, 0, length - n + 1:] = sign * chirp[part, :0:-1]
    return chirp, _planes(around), length


def _times(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The product of complex numbers whose parts lie apart."""
    return np.stack([x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]])


def _planes(x: np.ndarray) -> np.ndarray:
    """The transforms of ``x[2, B, n]``, real and imaginary parts apart."""
    _, b, n = x.shape
    kind = "f32" if x.dtype == np.float32 else "f64"
    factors = _factors(n)
    if factors and factors[-1] > _LARGEST:
        chirp, other, length = _chirp(n, x.dtype.name)
        padded = np.zeros((2, b, length), x.dtype)
        padded[:, :, :n] = _times(x, chirp[:, None])
        # The inverse transform is the transform with real and imaginary parts exchanged.
        back = _planes(np.ascontiguousarray(_times(_planes(padded), other)[::-1]))[::-1]
        return _times(back[:, :, :n] / length, chirp[:, None])
    rest, done = n, 1
    for r in factors:
        rest //= r
        view = x.reshape(2, b, r, rest, done)
        more = () if r in _PASS else (_matrix(r, x.dtype.name),)
        x = _kernel(kind, r)(view, _twiddles(rest * r, r, x.dtype.name), *more, threads=1)
        done *= r
    return x.reshape(2, b, n)


def _given(a: Any) -> np.ndarray:
    a = np.asarray(a)
    if a.dtype.kind not in "biufc" or a.dtype.itemsize > (16 if a.dtype.kind == "c" else 8):
        raise DtypeError(f"a transform is of numbers of at most double precision, not of {a.dtype}")
    if a.ndim == 0:
        raise ShapeError("a transform is of an array, not of a number")
    made: np.ndarray = a
    return made


def _axis(a: np.ndarray, axis: int) -> int:
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)) or not -a.ndim <= axis < a.ndim:
        raise OptionError(f"axis {axis!r} of an array of {a.ndim} dimensions")
    return int(axis) % a.ndim


def _length(n: Any, otherwise: int) -> int:
    if n is None:
        n = otherwise
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise OptionError(f"a transform has at least one point, not {n!r}")
    return int(n)


def _scale(norm: str | None, n: int, inverse: bool) -> float:
    if norm not in (None, "backward", "ortho", "forward"):
        raise OptionError(f"norm is 'backward', 'ortho' or 'forward', not {norm!r}")
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if inverse == (norm != "forward") else 1.0


def _transform(a: np.ndarray, n: int, axis: int, norm: str | None, inverse: bool) -> np.ndarray:
    """Along one dimension, cut or filled with zeros to n points."""
    scale = _scale(norm, n, inverse)
    single = a.dtype.name in ("float16", "float32", "complex64")
    real = np.dtype(np.float32 if single else np.float64)
    a = np.moveaxis(a, axis, -1)
    take = min(n, a.shape[-1])
    x = np.zeros((2, math.prod(a.shape[:-1]), n), real)
    flat = a[..., :take].reshape(-1, take) if a.size else np.zeros((x.shape[1], take), a.dtype)
    re, im = (1, 0) if inverse else (0, 1)
    x[re, :, :take] = flat.real
    if a.dtype.kind == "c":
        x[im, :, :take] = flat.imag
    y = _planes(x) if x.size else x
    out = np.empty((*a.shape[:-1], n), np.complex64 if single else np.complex128)
    shape = out.shape
    out.real, out.imag = y[re].reshape(shape), y[im].reshape(shape)
    if scale != 1:
        out *= real.type(scale)
    return np.moveaxis(out, -1, axis)


def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> np.ndarray:
    """The transform along one dimension, of the first `n` points (or of the points and zeros)."""
    a = _given(a)
    axis = _axis(a, axis)
    return _transform(a, _length(n, a.shape[axis]), axis, norm, False)


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> np.ndarray:
    """The inverse of :func:`fft`."""
    a = _given(a)
    axis = _axis(a, axis)
    return _transform(a, _length(n, a.shape[axis]), axis, norm, True)


def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> np.ndarray:
    """The transform of real numbers: its first half, of which the other one follows."""
    a = _given(a)
    if a.dtype.kind == "c":
        raise DtypeError(f"rfft is of real numbers, not of {a.dtype}; fft is of complex ones")
    axis = _axis(a, axis)
    n = _length(n, a.shape[axis])
    whole = _transform(a, n, axis, norm, False)
    return np.ascontiguousarray(whole[(slice(None),) * axis + (slice(0, n // 2 + 1),)])


def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> np.ndarray:
    """The inverse of :func:`rfft`, with `n` points (by default an even number of them)."""
    a = _given(a)
    axis = _axis(a, axis)
    n = _length(n, 2 * (a.shape[axis] - 1))
    a = np.moveaxis(a, axis, -1)[..., : n // 2 + 1]
    if a.dtype.kind != "c":
        a = a.astype(np.complex64 if a.dtype.name in ("float16", "float32") else np.complex128)
    whole = np.zeros((*a.shape[:-1], n), a.dtype)
    have = a.shape[-1]
    whole[..., :have] = a
    # What has no counterpart is real.
    whole[..., 0] = a[..., 0].real
    if n % 2 == 0 and have == n // 2 + 1:
        whole[..., n // 2] = a[..., n // 2].real
    tail = np.arange(1, min(have, (n + 1) // 2))
    whole[..., n - tail] = a[..., tail].conj()
    return np.moveaxis(np.ascontiguousarray(_transform(whole, n, whole.ndim - 1, norm, True).real), -1, axis)


def _many(a: Any, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str | None, inverse: bool) -> np.ndarray:
    a = _given(a)
    if axes is None:
        axes = range(a.ndim) if s is None else range(a.ndim - len(s), a.ndim)
    at = [_axis(a, x) for x in axes]
    if s is not None and len(s) != len(at):
        raise OptionError(f"there are {len(at)} dimensions, but lengths for {len(s)}")
    lengths = [_length(None if s is None else s[i], a.shape[x]) for i, x in enumerate(at)]
    _scale(norm, 1, inverse)
    for n, x in reversed(list(zip(lengths, at))):
        a = _transform(a, n, x, norm, inverse)
    made: np.ndarray = a if a.dtype.kind == "c" else a.astype(np.complex64 if a.dtype.name in ("float16", "float32") else np.complex128)
    return made


def fftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> np.ndarray:
    """The transform along several dimensions, by default all."""
    return _many(a, s, axes, norm, False)


def ifftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> np.ndarray:
    """The inverse of :func:`fftn`."""
    return _many(a, s, axes, norm, True)


def fft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> np.ndarray:
    """The transform along two dimensions."""
    return _many(a, s, axes, norm, False)


def ifft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> np.ndarray:
    """The inverse of :func:`fft2`."""
    return _many(a, s, axes, norm, True)
