"""External functions: what an ``extern`` of a ``.tree`` file is, as a function of Python or of a shared library."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _lathe

__all__ = ["cause", "external", "link"]


class _Array(ctypes.Structure):
    """A descriptor, as ``lathe emit --to header`` declares it."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("dtype", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("elem_bytes", ctypes.c_uint64),
    ]


_Function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(_Array))
_NAMES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int64", "float16", "bfloat16", "float32",
          "float64", "complex64", "complex128")
# Kernels may be running in one that is given anew, so all of them stay.
_given: list[Any] = []
# What functions raised, until the call of the kernel raises.
_raised: list[BaseException] = []
_lock = threading.Lock()


def _dtype(code: int, size: int) -> np.dtype[Any]:
    if code < len(_NAMES) and _NAMES[code] != "bfloat16":
        return np.dtype(_NAMES[code])
    if code < len(_NAMES):
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(f"V{size}")


def _view(a: _Array) -> np.ndarray[Any, Any]:
    """The array of a descriptor: memory of the caller, through which results are written."""
    dtype = _dtype(a.dtype, a.elem_bytes)
    shape = tuple(a.shape[d] for d in range(a.rank))
    strides = tuple(a.strides[d] * dtype.itemsize for d in range(a.rank))
    if 0 in shape:
        return np.empty(shape, dtype)
    spans = [(n - 1) * s for n, s in zip(shape, strides)]
    below = -sum(min(s, 0) for s in spans)
    size = below + sum(max(s, 0) for s in spans) + dtype.itemsize
    memory = (ctypes.c_char * size).from_address(a.data - below)
    return np.ndarray(shape, dtype, memory, below, strides)


def external(name: str, function: Callable[..., object] | None = None, *, parameters: int | None = None) -> Any:
    """Gives the function that ``extern NAME`` of a ``.tree`` file stands for: ``external("ramp", f)``, or as a decorator.

    It is called with an array for each parameter, in order (scalars have rank 0), on memory of the caller, and writes its
    results there. It may be called from any thread. What it raises is the cause of the exception of the kernel's
    call. A process has one function of a name; give it before the kernels that call it are compiled.
    """
    if function is None:
        def given(f: Callable[..., object]) -> Callable[..., object]:
            external(name, f, parameters=parameters)
            return f

        return given
    if not isinstance(name, str) or not callable(function):
        raise _lathe.fail("E0917", f"an external function is a name and a function, not {name!r} and {function!r}", [],
                          'lathe.external("ramp", f)')
    count = _count(function) if parameters is None else parameters

    def call(_: Any, args: Any) -> int:
        try:
            function(*(_view(args[k]) for k in range(count)))
        except BaseException as e:  # noqa: BLE001 - nothing may be raised through compiled code
            with _lock:
                _raised.append(e)
            return 1
        return 0

    thunk = _Function(call)
    _given.append(thunk)
    _lathe.give_external(name, ctypes.cast(thunk, ctypes.c_void_p).value)
    return function


def _count(function: Callable[..., object]) -> int:
    """How many arrays a function takes: descriptors do not say how many there are."""
    import inspect

    try:
        taken = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        taken = []
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not taken or any(p.kind not in plain for p in taken):
        raise _lathe.fail("E0917", "it is not known how many arrays this function takes", [],
                          "parameters=2, or a function with two positional parameters")
    return len(taken)


def link(library: str | os.PathLike[str]) -> None:
    """Loads a shared library whose functions ``lathe_NAME`` are those of ``extern NAME``.

    They have the interface that ``lathe emit --to header`` declares: ``int32_t lathe_NAME(const lathe_runtime *rt, const
    lathe_array *args)``, with an array for each parameter; 0 is success.
    """
    _lathe.link_external(os.fspath(library))


def cause() -> BaseException | None:
    """What an external function raised last, if it was not asked for yet."""
    with _lock:
        last = _raised[-1] if _raised else None
        _raised.clear()
    return last
