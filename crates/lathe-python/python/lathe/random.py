"""Random numbers as a function of a key and a counter: Threefry-2x32 with 20 rounds (Salmon et al., SC 2011), by kernels.

>>> import lathe.random
>>> a = lathe.random.uniform(7, 10)
>>> (a[4:] == lathe.random.uniform(7, 6, first=4)).all()
np.True_

There is no state. Element `i` of an array depends on the key and on ``first + i`` only: parts that are made by several threads,
processes or machines are those of the whole, and numbers of different keys have nothing to do with one another. All engines and
machines give the same bits. These are not numbers for secrets.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import OptionError
from .kernels import Kernel

__all__ = ["bits", "normal", "source", "uniform"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
#: From so many numbers on other threads are woken.
_MANY = 20_000


def _rounds(name: str, counter: str) -> str:
    """Statements after which ``{name}`` is the random word of the key `key` and this counter."""
    n = name
    out = [f"let {n}k0 = u32(bitand(key, 4294967295))", f"let {n}k1 = u32(shr(key, 32))",
           f"let {n}k2 = bitxor(bitxor(466688986, {n}k0), {n}k1)", f"let {n}c = {counter}",
           f"let {n}x0 = u32(bitand({n}c, 4294967295)) + {n}k0", f"let {n}x1 = u32(shr({n}c, 32)) + {n}k1"]
    x0, x1, step = f"{n}x0", f"{n}x1", 0
    for group in range(5):
        for r in _ROTATIONS[group % 2]:
            step += 1
            out += [f"let {n}a{step} = {x0} + {x1}",
                    f"let {n}b{step} = bitxor(bitor(shl({x1}, {r}), shr({x1}, {32 - r})), {n}a{step})"]
            x0, x1 = f"{n}a{step}", f"{n}b{step}"
        out += [f"let {n}p{group} = {x0} + {n}k{(group + 1) % 3}", f"let {n}q{group} = {x1} + {n}k{(group + 2) % 3} + {group + 1}"]
        x0, x1 = f"{n}p{group}", f"{n}q{group}"
    out.append(f"let {n} = bitor(u64({x0}), shl(u64({x1}), 32))")
    return "\n        ".join(out)


_VALUES = {
    "u64": "w",
    "f64": "f64(shr(w, 11)) * 1.1102230246251565e-16",
    "f32": "f32(u32(shr(w, 40))) * 5.9604644775390625e-8",
}
#: Box's and Muller's way; the logarithm is of a number in (0, 1].
_NORMAL = "sqrt(-2 * log(1 - {u})) * cos(6.283185307179586 * {v})"


def source(kind: str = "uniform", dtype: Any = np.float64) -> str:
    """The kernel as text, with the parameters `key`, `first` and the result `out`: to be put together with others.

    `kind` is ``bits``, ``uniform`` or ``normal``.
    """
    name = np.dtype(dtype).name
    ty = {"float32": "f32", "float64": "f64"}.get(name)
    if kind == "bits":
        ty = "u64"
    if ty is None or kind not in ("bits", "uniform", "normal"):
        raise OptionError(f"random numbers are bits, uniform or normal, of float32 or float64, not {kind!r} of {name}")
    body, value = _rounds("w", "first + u64(i)"), _VALUES[ty]
    if kind == "normal":
        # A second word: of a counter that no other element uses.
        body += "\n        " + _rounds("z", "bitxor(first + u64(i), shl(u64(1), 63))")
        value = _NORMAL.format(u=value, v=_VALUES[ty].replace("w", "z"))
    return (f"kernel random_{kind}(key: u64, first: u64, out: inout {ty}[N]) {{\n    for i in 0..N {{\n        {body}\n"
            f"        out[i] = {value}\n    }}\n}}\nstrategy fast for random_{kind} = split(i, 4096) ; vectorize(i.i, 16, tail: separate) ; parallel(i.o)\n")


@functools.lru_cache(maxsize=None)
def _kernel(kind: str, name: str) -> Kernel:
    return Kernel(source(kind, name))


def _made(kind: str, key: int, shape: int | Sequence[int], dtype: Any, first: int) -> np.ndarray:
    for what, v in (("key", key), ("first", first)):
        if isinstance(v, bool) or not isinstance(v, (int, np.integer)) or not 0 <= v < 1 << 64:
            raise OptionError(f"`{what}` is a whole number from 0 to 2^64 - 1, not {v!r}")
    try:
        extents = (int(shape.__index__()),) if hasattr(shape, "__index__") else tuple(int(e.__index__()) for e in shape)
    except (AttributeError, TypeError) as e:
        raise OptionError(f"a shape is a number or a tuple of numbers, not {shape!r}") from e
    if any(e < 0 for e in extents):
        raise OptionError(f"a shape has no negative extent: {extents}")
    kernel = _kernel(kind, "uint64" if kind == "bits" else np.dtype(dtype).name)
    out = np.empty(math.prod(extents), np.uint64 if kind == "bits" else dtype)
    options = {} if out.size >= _MANY else {"threads": 1}
    kernel(int(key), int(first), out, strategy="fast", **options)
    return out.reshape(extents)


def bits(key: int, shape: int | Sequence[int], *, first: int = 0) -> np.ndarray:
    """Words of 64 random bits: element `i`, in row-major order, is the word of `key` and of the counter ``first + i``."""
    return _made("bits", key, shape, np.float64, first)


def uniform(key: int, shape: int | Sequence[int], dtype: Any = np.float64, *, first: int = 0) -> np.ndarray:
    """Numbers in [0, 1), all multiples of 2^-53 (2^-24 in single precision) with the same probability."""
    return _made("uniform", key, shape, dtype, first)


def normal(key: int, shape: int | Sequence[int], dtype: Any = np.float64, *, first: int = 0) -> np.ndarray:
    """Numbers of the normal distribution of mean 0 and variance 1. Counters beyond 2^63 repeat parts of those below."""
    return _made("normal", key, shape, dtype, first)
