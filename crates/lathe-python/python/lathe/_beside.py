"""Arrays that derivatives need beside their arguments: cotangents of a number, unit vectors, and results that are put together.
They are of the package of the arguments, on their device; nothing that is on a device goes through the host."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _lathe

__all__ = ["Host", "beside", "is_buffer"]


class Host:
    """Memory of the host. Results are arrays of numpy."""

    #: Whether unit vectors are taken some at a time, and products with them joined.
    in_parts = True

    def one(self, dtype: Any) -> Any:
        """The number 1."""
        return np.ones((), dtype=dtype)

    def put(self, array: np.ndarray) -> Any:
        """An array of the host, as one that a kernel is called with."""
        return array

    def made(self, result: Any) -> Any:
        """A result of a kernel."""
        return np.asarray(result)

    def joined(self, parts: Sequence[Any]) -> Any:
        """Arrays, one behind the other along the last dimension."""
        return np.concatenate(parts, axis=-1)

    def stacked(self, columns: Sequence[Any]) -> Any:
        """Arrays along a new last dimension."""
        return np.stack(columns, axis=-1)

    def column(self, array: Any, k: int) -> Any:
        """Element `k` of the last dimension, dense."""
        return np.copy(array[..., k]) if array.ndim > 1 else array[k]

    def shaped(self, array: Any, shape: Sequence[int]) -> Any:
        return array.reshape(tuple(shape))

    def turned(self, matrix: Any) -> Any:
        """The transposed matrix."""
        return matrix.T


class _Device(Host):
    """Memory of a device, where results stay."""

    def made(self, result: Any) -> Any:
        return result


class _Package(_Device):
    """A device of which a package makes arrays. The number 1 is made once for each type."""

    def __init__(self, like: Any) -> None:
        self._device = like.device
        self._ones: dict[str, Any] = {}

    def one(self, dtype: Any) -> Any:
        name = np.dtype(dtype).name
        if name not in self._ones:
            self._ones[name] = self.put(np.ones((), dtype))
        return self._ones[name]


class _Torch(_Package):
    def put(self, array: np.ndarray) -> Any:
        import torch

        # numpy's arrays of bf16 are not known there; small integers are the same numbers in all types.
        plain = array.astype(np.float32) if array.dtype.name == "bfloat16" else array
        return torch.from_numpy(plain).to(self._device, getattr(torch, array.dtype.name))

    def joined(self, parts: Sequence[Any]) -> Any:
        import torch

        return torch.cat(list(parts), dim=-1)

    def stacked(self, columns: Sequence[Any]) -> Any:
        import torch

        return torch.stack(list(columns), dim=-1)

    def column(self, array: Any, k: int) -> Any:
        return array[..., k].clone()

    def turned(self, matrix: Any) -> Any:
        return matrix.t().contiguous()


class _Cupy(_Package):
    def put(self, array: np.ndarray) -> Any:
        import cupy

        with self._device:
            made = cupy.asarray(array)
            # It may be used on another stream.
            cupy.cuda.get_current_stream().synchronize()
        return made

    def joined(self, parts: Sequence[Any]) -> Any:
        import cupy

        with self._device:
            return cupy.concatenate(list(parts), axis=-1)

    def stacked(self, columns: Sequence[Any]) -> Any:
        import cupy

        with self._device:
            return cupy.stack(list(columns), axis=-1)

    def column(self, array: Any, k: int) -> Any:
        return array[..., k].copy()

    def turned(self, matrix: Any) -> Any:
        return matrix.T.copy()


class _Jax(_Device):
    def __init__(self, like: Any) -> None:
        self._device = next(iter(like.devices()))

    def put(self, array: np.ndarray) -> Any:
        import jax

        return jax.device_put(array, self._device)

    def joined(self, parts: Sequence[Any]) -> Any:
        import jax.numpy as jnp

        return jnp.concatenate(list(parts), axis=-1)

    def stacked(self, columns: Sequence[Any]) -> Any:
        import jax.numpy as jnp

        return jnp.stack(list(columns), axis=-1)

    def column(self, array: Any, k: int) -> Any:
        return array[..., k]


class _Buffers(_Device):
    """Buffers of :mod:`lathe.device`, which have no arithmetic of their own: all products are taken at once."""

    in_parts = False

    def __init__(self, like: Any) -> None:
        self._devices = like.devices

    def one(self, dtype: Any) -> Any:
        return self.put(np.ones((), dtype))

    def put(self, array: np.ndarray) -> Any:
        from .device import Buffer

        return Buffer(self._devices, array)

    def joined(self, parts: Sequence[Any]) -> Any:
        (whole,) = parts
        return whole

    def stacked(self, columns: Sequence[Any]) -> Any:
        raise _lathe.fail("E0916", "the derivatives of this kernel come one by one, and buffers are not put together", [],
                          "arrays of PyTorch, CuPy or JAX on a device, or arrays of the host: buffer.numpy()")

    def column(self, array: Any, k: int) -> Any:
        return self.stacked([array])

    def shaped(self, array: Any, shape: Sequence[int]) -> Any:
        return array.reshape(*shape)

    def turned(self, matrix: Any) -> Any:
        from .kernels import kernel

        return kernel("kernel turned<T in {f32, f64, f16, bf16}>(a: T[M, N]) -> (b: T[N, M]) { b[j, i] = a[i, j] }")(matrix)


class _Nothing(Host):
    """A device whose arrays no package makes."""

    def __init__(self, like: Any) -> None:
        self._kind = type(like).__name__

    def one(self, dtype: Any) -> Any:
        raise _lathe.fail("E0916", f"no package makes a cotangent beside a `{self._kind}` on a device", [],
                          "lathe.vjp(kernel) is given cotangents; arrays of PyTorch, CuPy and JAX need none")

    def put(self, array: np.ndarray) -> Any:
        return self.one(array.dtype)


_HOST = Host()
_known: dict[tuple[str, str], Host] = {}


def is_buffer(a: Any) -> bool:
    """Whether it is a buffer of devices, or a part of one."""
    return isinstance(a, _lathe.Part)


def beside(args: Sequence[Any], asked: str | None = None) -> Host:
    """Where these arguments are. `asked` is what is done only on the host; with arguments on a device it is refused."""
    place = next((p for p in map(_place, args) if p is not None), _HOST)
    if asked is not None and place is not _HOST:
        raise _lathe.fail("E0916", f"{asked}, and the arguments are on a device", [],
                          "arrays of the host; lathe.jvp and lathe.vjp with directions=True run on the device")
    return place


def _kept(kind: str, device: Any, make: Callable[[], Host]) -> Host:
    key = (kind, str(device))
    if key not in _known:
        _known[key] = make()
    return _known[key]


def _place(a: Any) -> Host | None:
    """Where an argument is, unless that is the host or it is a number."""
    if isinstance(a, (np.ndarray, int, float)):
        return None
    if is_buffer(a):
        return _Buffers(a)
    torch, jax, cupy = (sys.modules.get(n) for n in ("torch", "jax", "cupy"))
    if torch is not None and isinstance(a, torch.Tensor):
        return None if a.device.type == "cpu" else _kept("torch", a.device, lambda: _Torch(a))
    if jax is not None and isinstance(a, jax.Array):
        traced = isinstance(a, jax.core.Tracer)
        return None if traced or all(d.platform == "cpu" for d in a.devices()) else _Jax(a)
    if cupy is not None and isinstance(a, cupy.ndarray):
        return _kept("cupy", a.device.id, lambda: _Cupy(a))
    return _Nothing(a) if getattr(a, "__cuda_array_interface__", None) is not None else None
