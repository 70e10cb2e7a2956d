"""Arrays of other packages as arrays of numpy that share their memory, and back. Called by the compiled part for what
is not a plain array of numpy."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from . import _lathe
from .errors import CopyWarning


def _loaded(name: str) -> Any:
    """A package, if the program uses it."""
    return sys.modules.get(name)


def tensor_copy(x: Any, name: str, why: str) -> Any:
    """A copy of a tensor, or of another package's array on a device, that a kernel can read, with a warning."""
    warnings.warn(f"`{name}` was copied: {why}", CopyWarning, stacklevel=2)
    torch = _loaded("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return x.clone(memory_format=torch.contiguous_format)
    return x.copy(order="C")


def empty_like(x: Any, shape: tuple[int, ...], dtype: Any, name: str) -> Any:
    """A new array for a result on the device where an argument lies."""
    cupy = _loaded("cupy")
    if cupy is None or not isinstance(x, cupy.ndarray):
        raise _lathe.fail("E0916", f"no package makes the result `{name}` beside a `{type(x).__name__}` on a device", [],
                          "give an array for it: out=...")
    with x.device:
        return cupy.empty(shape, dtype)


def stream(x: Any) -> int:
    """The stream on which the package of an array works, as the driver's handle."""
    cupy = _loaded("cupy")
    if cupy is not None and isinstance(x, cupy.ndarray):
        return int(cupy.cuda.get_current_stream().ptr)
    return int(x.__cuda_array_interface__.get("stream") or 0)


def view(x: Any, written: bool) -> np.ndarray | None:
    """The memory of an array of another package, or None for what is no such array."""
    jax = _loaded("jax")
    if jax is not None and isinstance(x, jax.Array):
        if isinstance(x, jax.core.Tracer):
            raise _lathe.fail("E0916", "inside of a function that JAX traces, results are returned and not written", [],
                              "call the kernel without out=, or lathe.jax.op(kernel)")
        if written:
            raise _lathe.fail("E0822", "arrays of JAX cannot be written", [], "give an array of numpy")
        if any(d.platform != "cpu" for d in x.devices()):
            where = ", ".join(map(str, x.devices()))
            raise _lathe.fail("E0916", f"an array of JAX is on {where}, and others of the call on the host", [], "numpy.asarray(array)")
        return np.asarray(x)
    if isinstance(x, np.generic):
        return None if written else np.asarray(x)
    if isinstance(x, type):
        return None
    try:
        if hasattr(x, "__dlpack__"):
            return np.from_dlpack(x)
        if hasattr(x, "__array_interface__"):
            return np.asarray(x)
    except Exception as e:
        raise _lathe.fail("E0809", f"a `{type(x).__name__}` does not give its memory: {e}", [], None) from e
    return None


def plain(x: np.ndarray) -> np.ndarray | None:
    """An array of a subclass as a plain one; None where that would lose what the subclass is for."""
    if isinstance(x, np.ma.MaskedArray):
        return None
    return x.view(np.ndarray)


def copy(x: Any, dtype: Any, name: str, why: str) -> np.ndarray:
    """A copy that a kernel can read, with a warning; what would need other values is returned as it is.

    What has a type keeps it: only byte order and layout change. Numbers of Python have none within their kind, as where a
    kernel takes a number: whole numbers must fit, and fractions are rounded but stay finite."""
    dtype = np.dtype(dtype)
    try:
        array = np.asarray(x)
    except Exception as e:
        raise _lathe.fail("E0809", f"`{name}` is not an array: {e}", [], None) from e
    typed = isinstance(x, (np.ndarray, np.generic)) or hasattr(x, "dtype") or hasattr(x, "__array__")
    if typed or array.dtype.kind in "OSUmMV" or (array.dtype.kind == "c" and dtype.kind != "c") or not array.size:
        if array.dtype.newbyteorder("=") != dtype and (typed or array.size):
            return array
    elif not _fits(array, dtype):
        return array
    warnings.warn(f"`{name}` was copied: {why}", CopyWarning, stacklevel=2)
    with np.errstate(over="ignore"):
        return np.array(array, dtype=dtype, order="C", copy=True)


def complex_number(x: Any, dtype: Any, name: str) -> np.ndarray:
    """A number as the array that stands for a complex number. Numbers of Python have no precision, but must stay finite;
    numbers of numpy have that of the parameter."""
    dtype = np.dtype(dtype)
    part = np.float32 if dtype == np.complex64 else np.float64
    if isinstance(x, np.generic):
        fits = x.dtype in (dtype, np.dtype(part))
        said = str(x.dtype)
    else:
        value, said = complex(x), type(x).__name__
        with np.errstate(over="ignore"):
            fits = not isinstance(x, bool) and bool(np.isfinite(dtype.type(value)) or not np.isfinite(value))
    if not fits:
        raise _lathe.fail("E0809", f"`{name}` is a number of type c{8 * dtype.itemsize}, but the argument is {said} {x!r}", [],
                          f"{name}=numpy.{dtype.name}(…)")
    return np.array(x, dtype)


def _fits(array: np.ndarray, dtype: np.dtype[Any]) -> bool:
    """Whether numbers of Python can be elements of this type."""
    if dtype.kind == "b" or array.dtype.kind == "b":
        return dtype.kind == array.dtype.kind
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return array.dtype.kind in "iu" and int(array.min()) >= limits.min and int(array.max()) <= limits.max
    if dtype.kind == "c":
        with np.errstate(over="ignore"):
            return array.dtype.kind in "iufc" and bool((np.isfinite(array.astype(dtype)) | ~np.isfinite(array)).all())
    if dtype.kind == "f" or dtype.name == "bfloat16":
        with np.errstate(over="ignore"):
            return bool((np.isfinite(array.astype(dtype).astype(np.float64)) | ~np.isfinite(array)).all())
    return False


def like(result: np.ndarray, x: Any) -> Any:
    """A result as an array of the package that an argument is from."""
    namespace = getattr(x, "__array_namespace__", None)
    if namespace is None or not isinstance(result, np.ndarray) or isinstance(x, (np.ndarray, np.generic)):
        return result
    xp = namespace()
    if result.dtype.name == "bfloat16" and hasattr(xp, "asarray"):
        return xp.asarray(result)
    return xp.from_dlpack(result)
