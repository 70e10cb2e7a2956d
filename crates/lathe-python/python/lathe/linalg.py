"""Factorizations and solutions of linear systems, by kernels, with numpy's and SciPy's names and meanings.

>>> import lathe.linalg, numpy as np
>>> a = np.array([[4.0, 2.0], [2.0, 5.0]])
>>> L = lathe.linalg.cholesky(a)
>>> np.allclose(L @ L.T, a), np.allclose(lathe.linalg.solve(a, a @ [1.0, 2.0]), [1, 2])
(True, True)

Matrices are ``float32``, ``float64``, ``complex64`` or ``complex128``; dimensions before the last two count matrices. The algorithms are LAPACK's blocked
ones: a block of columns at a time is factorized by a small kernel, and what is right of it is updated by a product of
matrices. A matrix that a factorization cannot be had of raises a :class:`LinAlgError`, which is numpy's as well.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from . import contraction
from ._forms import product
from .errors import ArgumentError, DtypeError, LatheError, OptionError, ShapeError
from .kernels import Kernel

__all__ = ["LinAlgError", "cholesky", "cho_solve", "det", "inv", "lu", "lu_factor", "lu_solve", "slogdet", "solve",
           "solve_triangular"]


class LinAlgError(LatheError, np.linalg.LinAlgError):
    """A matrix without what was asked of it: singular, or not positive definite."""


#: Columns of a block.
_BLOCK = 64

_SOURCE = """
# U with A = adjoint(U) * U, in the upper triangle, which alone is read; `bad` is the first row without a root, from 1 on.
kernel upper_cholesky(A: inout T[N, N]) -> (bad: i64) {
    bad = 0
    for k in 0..N {
        if not (real(A[k, k]) > 0) and bad == 0 { bad = i64(k) + 1 }
        let root = sqrt(real(A[k, k]))
        A[k, k] = T(root)
        for j in k + 1..N { A[k, j] = A[k, j] / root }
        for i in k + 1..N {
            let f = conj(A[k, i])
            for j in i..N { A[i, j] = A[i, j] - f * A[k, j] }
        }
    }
}

# A panel: rows are swapped so that the largest element of each column comes first (by LAPACK's measure: the sum of the
# magnitudes of its parts); `at[k]` is the row that k was swapped
# with. A column of zeros is left as it is.
kernel panel(A: inout T[M, N]) -> (at: index[N]) {
    assume(M >= N)
    for k in 0..N {
        var best: R
        var row: index
        best = SIZE(A[k, k])
        row = k
        for i in k + 1..M {
            if SIZE(A[i, k]) > best {
                best = SIZE(A[i, k])
                row = i
            }
        }
        at[k] = row
        if row != k {
            for j in 0..N {
                let held = A[k, j]
                A[k, j] = A[row, j]
                A[row, j] = held
            }
        }
        if A[k, k] != 0 {
            let pivot = A[k, k]
            for i in k + 1..M {
                let f = A[i, k] / pivot
                A[i, k] = f
                for j in k + 1..N { A[i, j] = A[i, j] - f * A[k, j] }
            }
        }
    }
}

kernel swap_rows(A: inout T[M, N], at: index[K]) {
    assume(M >= K)
    for k in 0..K {
        let row = at[k]
        assume(row >= 0 and row < M)
        if row != k {
            for j in 0..N {
                let held = A[k, j]
                A[k, j] = A[row, j]
                A[row, j] = held
            }
        }
    }
}

kernel lower(L: T[N, N], B: inout T[N, M], unit: bool) {
    for i in 0..N {
        for k in 0..i {
            let f = L[i, k]
            for j in 0..M { B[i, j] = B[i, j] - f * B[k, j] }
        }
        if not unit {
            for j in 0..M { B[i, j] = B[i, j] / L[i, i] }
        }
    }
}

kernel upper(U: T[N, N], B: inout T[N, M], unit: bool) {
    for r in 0..N {
        for k in N - r..N {
            let f = U[N - 1 - r, k]
            for j in 0..M { B[N - 1 - r, j] = B[N - 1 - r, j] - f * B[k, j] }
        }
        if not unit {
            for j in 0..M { B[N - 1 - r, j] = B[N - 1 - r, j] / U[N - 1 - r, N - 1 - r] }
        }
    }
}
"""


_KINDS = {"float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128"}
_REAL = {"c64": "f32", "c128": "f64"}


@functools.lru_cache(maxsize=None)
def _kernel(name: str, kind: str) -> Kernel:
    size = r"(abs(\1.re) + abs(\1.im))" if kind in _REAL else r"abs(\1)"
    text = re.sub(r"SIZE\((A\[[^]]*\])\)", size, _SOURCE)
    return Kernel(re.sub(r"\bT\b", kind, re.sub(r"\bR\b", _REAL.get(kind, kind), text)), name)


def _matrix(a: Any, name: str, square: bool = True) -> tuple[np.ndarray, str]:
    """An array of matrices in the order of this machine, and the kernels' name of its type."""
    a = np.asarray(a)
    if a.dtype.kind in "iub" and a.dtype != bool:
        a = a.astype(np.float64)
    kind = _KINDS.get(a.dtype.name)
    if kind is None:
        raise DtypeError(f"`{name}` holds {a.dtype}, and these factorizations are of float32, float64, complex64 and complex128")
    if a.ndim < 2:
        raise ShapeError(f"`{name}` has {a.ndim} dimensions, and a matrix has two")
    if square and a.shape[-1] != a.shape[-2]:
        raise ShapeError(f"`{name}` is {a.shape[-2]} x {a.shape[-1]}, and must be square")
    return a, kind


def _copy(a: np.ndarray) -> np.ndarray:
    """A copy in row-major order and the machine's byte order."""
    return np.array(a, dtype=a.dtype.newbyteorder("="), order="C", copy=True)


def _each(a: np.ndarray, one: Callable[[np.ndarray], None]) -> None:
    """Does something with each of the matrices, which lie in row-major order."""
    for m in a.reshape(-1, *a.shape[-2:]) if a.size else ():
        one(m)


def _adjoint(a: np.ndarray) -> np.ndarray:
    """Transposed and, where it is complex, conjugated."""
    a = np.swapaxes(a, -1, -2)
    return a.conj() if a.dtype.kind == "c" else a


def _subtract(c: np.ndarray, a: np.ndarray, b: np.ndarray, kind: str, turned: bool = False) -> None:
    """``c -= a @ b``; with `turned` the first matrix lies transposed."""
    if not (a.size and b.size and c.size):
        return
    if kind in _REAL:
        # Products of complex matrices are products of real ones, which have blocks in registers.
        c -= contraction.einsum("ki,kj->ij" if turned else "ik,kj->ij", a, b)
    else:
        small = {"threads": 1} if c.size * b.shape[0] < 600_000 else {}
        c -= product(kind, turned, False, 0)(a, b, **small)


def cholesky(a: Any, *, upper: bool = False) -> np.ndarray:
    """``L``, lower triangular, with ``L @ L.conj().T`` the matrix; of a symmetric (or Hermitian) positive definite one, whose
    lower triangle is read. With `upper` the adjoint of it, by the upper triangle.

    Raises a :class:`LinAlgError` where the matrix is not positive definite.
    """
    a, kind = _matrix(a, "a")
    # The lower triangle is the upper one of the adjoint matrix, in whose rows the kernels work.
    u = _copy(a if upper else _adjoint(a))
    n = u.shape[-1]

    def one(w: np.ndarray) -> None:
        for k in range(0, n, _BLOCK):
            e = min(k + _BLOCK, n)
            bad = int(_kernel("upper_cholesky", kind)(w[k:e, k:e], threads=1))
            if bad:
                raise LinAlgError(f"the matrix is not positive definite: its leading minor of order {k + bad} is not positive")
            if e == n:
                break
            # adjoint(U11) * U12 = A12
            _kernel("lower", kind)(np.ascontiguousarray(_adjoint(w[k:e, k:e])), w[k:e, e:], False, threads=1)
            for j in range(e, n, 4 * _BLOCK):
                # Only what is right of the diagonal of blocks.
                f = min(j + 4 * _BLOCK, n)
                left = w[k:e, j:f]
                left = left.conj() if kind in _REAL else np.ascontiguousarray(left)
                _subtract(w[j:f, j:], left, w[k:e, j:], kind, turned=True)

    _each(u, one)
    u = np.triu(u)
    return u if upper else np.ascontiguousarray(_adjoint(u))


def _factorized(w: np.ndarray, kind: str) -> np.ndarray:
    """The factors of one matrix in its place, and with which row each row was swapped."""
    m, n = w.shape
    pivots = np.arange(min(m, n), dtype=np.int64)
    for k in range(0, min(m, n), _BLOCK):
        e = min(k + _BLOCK, m, n)
        at = _kernel("panel", kind)(w[k:, k:e], threads=1)
        swap = _kernel("swap_rows", kind)
        for rest in (w[k:, :k], w[k:, e:]):
            if rest.size:
                swap(rest, at, threads=1)
        pivots[k:e] = at + k
        if e < n:
            _kernel("lower", kind)(w[k:e, k:e].copy(), w[k:e, e:], True, threads=1)
            _subtract(w[e:, e:], w[e:, k:e], w[k:e, e:], kind)
    return pivots


def lu_factor(a: Any) -> tuple[np.ndarray, np.ndarray]:
    """``lu, piv`` by Gaussian elimination with partial pivoting, as SciPy has them: both triangles in one matrix (the ones on
    the diagonal of the lower one are not stored), and for each row the one that it was swapped with, in this order. A
    singular matrix has factors, too, with a zero on the diagonal."""
    a, kind = _matrix(a, "a", square=False)
    w = _copy(a)
    pivots = np.empty((*w.shape[:-2], min(w.shape[-2:])), np.int64)
    if not w.size:
        pivots[...] = np.arange(pivots.shape[-1])
        return w, pivots
    for m, p in zip(w.reshape(-1, *w.shape[-2:]), pivots.reshape(-1, pivots.shape[-1])):
        p[:] = _factorized(m, kind)
    return w, pivots


def _order(pivots: np.ndarray, rows: int) -> np.ndarray:
    """Which row comes where, after all swaps."""
    order = np.arange(rows)
    for i, p in enumerate(pivots):
        order[i], order[p] = order[p], order[i]
    return order


def lu(a: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``P, L, U`` with ``P @ L @ U`` the matrix: a permutation, a lower triangle with ones on its diagonal, an upper one."""
    w, pivots = lu_factor(a)
    m, n = w.shape[-2:]
    k = min(m, n)
    lower = np.tril(w[..., :k], -1) + np.eye(m, k, dtype=w.dtype)
    upper = np.triu(w[..., :k, :])
    p = np.zeros((*w.shape[:-2], m, m), w.dtype)
    for q, piv in zip(p.reshape(-1, m, m) if p.size else (), pivots.reshape(-1, k) if k else [()] * (p.size // max(m * m, 1))):
        q[_order(np.asarray(piv, np.int64), m), np.arange(m)] = 1
    return p, lower, upper


def _right(a: np.ndarray, b: Any, name: str = "b") -> tuple[np.ndarray, bool]:
    """The right sides as matrices of the common type, in row-major order, and whether they are one vector."""
    b = np.asarray(b)
    vector = b.ndim == 1
    if b.ndim == 0:
        raise ShapeError(f"`{name}` is a number, and must be a vector or a matrix")
    b = b[:, None] if vector else b
    if b.shape[-2] != a.shape[-1]:
        raise ShapeError(f"`{name}` has {b.shape[-2]} rows, but the matrix is {a.shape[-2]} x {a.shape[-1]}")
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError as e:
        raise ShapeError(f"there are {a.shape[:-2]} matrices, but `{name}` is for {b.shape[:-2]}") from e
    if b.dtype.kind in "iub":
        b = b.astype(a.dtype)
    common = np.result_type(a.dtype, b.dtype)
    if common.name not in _KINDS:
        raise DtypeError(f"`{name}` holds {b.dtype}, and these systems are of float32, float64, complex64 and complex128")
    return np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])), dtype=common.newbyteorder("="), order="C", copy=True), vector


def _swept(t: np.ndarray, x: np.ndarray, kind: str, lower: bool, unit: bool) -> None:
    """Solves with one triangle, in the place of the right sides, a block of rows at a time."""
    n = t.shape[0]
    sweep = _kernel("lower" if lower else "upper", kind)
    blocks = [(k, min(k + _BLOCK, n)) for k in range(0, n, _BLOCK)]
    for k, e in blocks if lower else reversed(blocks):
        sweep(t[k:e, k:e], x[k:e], unit, threads=1)
        if lower:
            _subtract(x[e:], t[e:, k:e], x[k:e], kind)
        else:
            _subtract(x[:k], t[:k, k:e], x[k:e], kind)


def solve_triangular(a: Any, b: Any, *, lower: bool = False, trans: int | str = 0, unit_diagonal: bool = False) -> np.ndarray:
    """``x`` with ``a @ x = b`` for a triangle, of which the other half is not read; as SciPy has it. `trans` is 0 or ``"N"``, 1
    or ``"T"`` for the transposed triangle, 2 or ``"C"`` for the adjoint one.

    Raises a :class:`LinAlgError` where an element of the diagonal is zero.
    """
    a, _ = _matrix(a, "a")
    if trans not in (0, 1, 2, "N", "T", "C"):
        raise OptionError(f"trans is 0, 1 or 2, or 'N', 'T' or 'C', not {trans!r}")
    if trans not in (0, "N"):
        a, lower = _adjoint(a) if trans in (2, "C") else np.swapaxes(a, -1, -2), not lower
    if not unit_diagonal:
        zero = np.argwhere(np.diagonal(a, axis1=-2, axis2=-1) == 0)
        if zero.size:
            raise LinAlgError(f"the triangle is singular: element {int(zero[0][-1])} of its diagonal is zero")
    x, vector = _right(a, b)
    kind = _KINDS[x.dtype.name]
    t = np.broadcast_to(np.ascontiguousarray(a, dtype=x.dtype), (*x.shape[:-2], *a.shape[-2:]))
    if x.size:
        for i in np.ndindex(x.shape[:-2]):
            _swept(t[i], x[i], kind, lower, unit_diagonal)
    return x[:, 0] if vector and x.ndim == 2 else x[..., 0] if vector else x


def cho_solve(factor: tuple[Any, bool], b: Any) -> np.ndarray:
    """``x`` with ``a @ x = b``, where ``factor`` is ``(L, True)`` or ``(U, False)`` by :func:`cholesky`."""
    if not isinstance(factor, tuple) or len(factor) != 2:
        raise OptionError("a factor is a tuple of a triangle and whether it is the lower one")
    t, lower = factor
    y = solve_triangular(t, b, lower=lower, trans=0 if lower else 2)
    return solve_triangular(t, y, lower=lower, trans=2 if lower else 0)


def lu_solve(factor: tuple[Any, Any], b: Any) -> np.ndarray:
    """``x`` with ``a @ x = b``, where ``factor`` is by :func:`lu_factor`.

    Raises a :class:`LinAlgError` for a singular matrix.
    """
    if not isinstance(factor, tuple) or len(factor) != 2:
        raise OptionError("a factor is a tuple of both triangles and the swapped rows, by lu_factor")
    w, _ = _matrix(factor[0], "lu")
    pivots = np.asarray(factor[1])
    if pivots.shape != w.shape[:-1] or pivots.dtype.kind not in "iu":
        raise ShapeError(f"the swapped rows are whole numbers of shape {w.shape[:-1]}")
    if pivots.size and (int(pivots.min()) < 0 or int(pivots.max()) >= w.shape[-1]):
        raise ArgumentError("the swapped rows are rows of the matrix")
    x, vector = _right(w, b)
    kind = _KINDS[x.dtype.name]
    zero = np.argwhere(np.diagonal(w, axis1=-2, axis2=-1) == 0)
    if zero.size:
        raise LinAlgError(f"the matrix is singular: pivot {int(zero[0][-1])} is zero")
    n = w.shape[-1]
    t = np.broadcast_to(np.ascontiguousarray(w, dtype=x.dtype), (*x.shape[:-2], n, n))
    p = np.broadcast_to(pivots.astype(np.int64), (*x.shape[:-2], n))
    if x.size:
        for i in np.ndindex(x.shape[:-2]):
            x[i] = x[i][_order(p[i], n)]
            _swept(t[i], x[i], kind, True, True)
            _swept(t[i], x[i], kind, False, False)
    return x[..., 0] if vector else x


def solve(a: Any, b: Any) -> np.ndarray:
    """``x`` with ``a @ x = b``, by elimination with partial pivoting.

    A vector ``b`` is one right side; dimensions before the last two of `a` and of a matrix `b` are broadcast.
    Raises a :class:`LinAlgError` for a singular matrix.
    """
    a, _ = _matrix(a, "a")
    b = np.asarray(b)
    if b.dtype.kind not in "iub" and b.dtype.name in _KINDS:
        a = a.astype(np.result_type(a.dtype, b.dtype), copy=False)
    return lu_solve(lu_factor(a), b)


def inv(a: Any) -> np.ndarray:
    """The inverse. Raises a :class:`LinAlgError` for a singular matrix."""
    a, _ = _matrix(a, "a")
    return solve(a, np.eye(a.shape[-1], dtype=a.dtype.newbyteorder("=")))


def slogdet(a: Any) -> tuple[Any, Any]:
    """The sign of the determinant (0 for a singular matrix; of complex ones a number of magnitude 1), and the logarithm of its
    magnitude."""
    a, _ = _matrix(a, "a")
    w, pivots = lu_factor(a)
    d = np.diagonal(w, axis1=-2, axis2=-1)
    swaps = (pivots != np.arange(w.shape[-1])).sum(axis=-1)
    size = np.abs(d)
    # NumPy below 2 has another sign of complex numbers.
    signs = np.divide(d, size, out=np.zeros_like(d), where=size != 0) if d.dtype.kind == "c" else np.sign(d)
    sign = signs.prod(axis=-1) * np.where(swaps % 2, -1, 1)
    with np.errstate(divide="ignore"):
        return sign.astype(w.dtype)[()], np.log(size).sum(axis=-1)[()]


def det(a: Any) -> Any:
    """The determinant."""
    a, _ = _matrix(a, "a")
    w, pivots = lu_factor(a)
    swaps = (pivots != np.arange(w.shape[-1])).sum(axis=-1)
    d = np.diagonal(w, axis1=-2, axis2=-1).prod(axis=-1)
    return (d * np.where(swaps % 2, -1, 1)).astype(w.dtype)[()]
