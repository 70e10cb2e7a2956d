"""Lathe: kernels over arrays, as fast as an expert's, from a plain description.

>>> import lathe, numpy as np
>>> gemm = lathe.kernel('''
... kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) {
...     C[i, j] = sum[k](A[i, k] * B[k, j])
... }''')
>>> C = gemm(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32))

* :func:`kernel`, :func:`load`: kernels from text, from decorated functions, from files.
* :func:`strategy`, :func:`fun`, :func:`mdh`: how a kernel is computed, functional patterns, homomorphisms.
* :func:`tune`: searches the parameters of anything; ``kernel.tune`` those of a kernel.
* :func:`einsum`: numpy's notation.
* :mod:`lathe.device`: devices, buffers that move by themselves, kernels in CUDA C and OpenCL C.
* :mod:`lathe.linalg`, :mod:`lathe.fft`: factorizations, linear systems, Fourier transforms.
* :mod:`lathe.random`: random numbers as a function of key and counter.
* :func:`grad`, :func:`vjp`, :func:`jvp`, :func:`jacobian`, :func:`hessian`, :func:`sparsity`: derivatives, which are kernels, too.
* :mod:`lathe.jax`, :mod:`lathe.torch`: kernels as operators of these packages.
"""

from __future__ import annotations

import os as _os

if not _os.path.isdir(_os.path.dirname(__file__)):
    raise ImportError(f"lathe cannot be imported from a file like {_os.path.dirname(_os.path.dirname(__file__))}: its compiled "
                      "part must lie in a folder; unpack it, or pip install the wheel")

# First of all, since it refuses sub-interpreters with words of its own.
from . import _lathe as _lathe
from ._lathe import __version__ as __version__
from ._lathe import cache_folder, get_threads, set_threads
from .contraction import einsum, einsum_path
from . import errors, types
from ._devices import devices
from .derivatives import grad, hessian, hvp, jacobian, jvp, sparsity, value_and_grad, vjp
from .errors import (
    ArgumentError,
    AssertError,
    CheckError,
    CompileError,
    CopyWarning,
    DeviceError,
    DivisionError,
    DtypeError,
    FileError,
    GradientError,
    LatheError,
    LayoutError,
    MachineError,
    OptionError,
    OutOfMemoryError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
    SourceError,
    StrategyError,
    TimeLimitError,
    TuneError,
)
from ._externals import external, link
from .frontend import inout, out
from .homomorphisms import mdh
from .kernels import Compiled, Explanation, Kernel, fun, kernel, load
from .shipping import ship
from .strategies import Strategy, pick, strategy
from .tuning import Progress, Tuned, count, param, tune
from .types import bf16, bool_, c64, c128, f16, f32, f64, i8, i16, i32, i64, index, u8, u16, u32, u64

__all__ = [
    "ArgumentError", "AssertError", "CheckError", "CompileError", "Compiled", "CopyWarning", "DeviceError", "DivisionError", "DtypeError",
    "Explanation", "FileError", "GradientError", "Kernel", "LatheError", "LayoutError", "MachineError", "OptionError",
    "OutOfMemoryError", "OverlapError", "Progress", "ReadOnlyError", "ShapeError", "SourceError", "Strategy", "StrategyError",
    "TimeLimitError", "TuneError", "Tuned", "bf16", "bool_", "c128", "c64", "cache_folder", "count", "devices", "einsum", "einsum_path", "errors", "external",
    "f16", "f32", "f64",
    "fun", "get_threads", "grad", "hessian", "hvp", "i16", "i32", "i64", "i8", "index", "inout", "jacobian", "jvp", "kernel", "link", "load", "mdh", "out",
    "param", "pick", "set_threads", "ship", "sparsity", "strategy", "tune", "types", "u16", "u32", "u64", "u8", "value_and_grad", "vjp",
]


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__version__", *(n for n in ("device", "fft", "jax", "linalg", "random", "torch") if n in globals())]


# A child process has its own threads, and no lock that another thread of its parent held.
_os.register_at_fork(
    before=_lathe.before_fork,
    after_in_parent=lambda: _lathe.after_fork(False),
    after_in_child=lambda: _lathe.after_fork(True),
)
