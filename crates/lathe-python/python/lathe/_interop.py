"""Arrays of other packages as arrays of numpy that share their memory, and back. Called by the compiled part for what
is no plain array of numpy."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from .errors import CopyWarning


def _loaded(name: str) -> Any:
    """A package, if the program uses it."""
    return sys.modules.get(name)


def view(x: Any, written: bool) -> np.ndarray | None:
    """The memory of an array of another package, or None for what is no such array."""
    torch = _loaded("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        if x.device.type != "cpu":
            raise TypeError(f"the tensor is on {x.device}; kernels run on the CPU: x.cpu()")
        x = x.detach()
        if x.dtype == torch.bfloat16:
            import ml_dtypes

            # numpy has no type of that name, so the bits travel as integers.
            return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return x.numpy()
    jax = _loaded("jax")
    if jax is not None and isinstance(x, jax.Array):
        if isinstance(x, jax.core.Tracer):
            raise TypeError("inside of jax.jit a kernel is called through lathe.jax.op(kernel)")
        if written:
            raise TypeError("arrays of JAX cannot be written")
        return np.asarray(x)
    if isinstance(x, np.generic):
        return None if written else np.asarray(x)
    if hasattr(x, "__dlpack__"):
        return np.from_dlpack(x)
    if hasattr(x, "__array_interface__"):
        return np.asarray(x)
    return None


def plain(x: np.ndarray) -> np.ndarray | None:
    """An array of a subclass as a plain one; None where that would lose what the subclass is for."""
    if isinstance(x, np.ma.MaskedArray):
        return None
    return x.view(np.ndarray)


def copy(x: Any, dtype: Any, name: str, why: str) -> np.ndarray:
    """A copy that a kernel can read, with a warning."""
    array = np.asarray(x)
    if array.dtype == object and np.dtype(dtype) != object:
        return array
    if isinstance(x, np.ndarray) and array.dtype.newbyteorder("=") != np.dtype(dtype):
        return array
    warnings.warn(f"`{name}` was copied: {why}", CopyWarning, stacklevel=2)
    return np.array(array, dtype=dtype, order="C", copy=True)


def like(result: np.ndarray, x: Any) -> Any:
    """A result as an array of the package that an argument is from."""
    torch = _loaded("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        if isinstance(result, torch.Tensor):
            return result
        if result.dtype.name == "bfloat16":
            return torch.from_numpy(result.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(result)
    namespace = getattr(x, "__array_namespace__", None)
    if namespace is None or not isinstance(result, np.ndarray) or isinstance(x, (np.ndarray, np.generic)):
        return result
    xp = namespace()
    if result.dtype.name == "bfloat16" and hasattr(xp, "asarray"):
        return xp.asarray(result)
    return xp.from_dlpack(result)
