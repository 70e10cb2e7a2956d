"""Kernels as operators of JAX: foreign functions of XLA, called inside of ``jax.jit`` without Python.

>>> import jax, jax.numpy as jnp, lathe, lathe.jax
>>> twice = lathe.jax.op(lathe.kernel("kernel twice(x: f32[N]) -> (y: f32[N]) { y[i] = 2 * x[i] }"))
>>> jax.jit(lambda x: twice(x) + 1)(jnp.arange(3.0))
Array([1., 3., 5.], dtype=float32)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _lathe
from .kernels import Kernel, _how

__all__ = ["op"]

_TARGET = "lathe_kernel"
_lock = threading.Lock()
_registered = False


def _register() -> None:
    global _registered
    with _lock:
        if not _registered:
            jax.ffi.register_ffi_target(_TARGET, _lathe.ffi_capsule(), platform="cpu", api_version=1)
            _registered = True


def op(kernel: Kernel, *, strategy: Any = None, params: Mapping[str, Any] | None = None,
       specialize: Mapping[str, int] | None = None, threads: int | None = None,
       vmap_method: str = "sequential", vjp: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The kernel as a function of arrays of JAX, to be called anywhere, also inside of ``jax.jit`` and ``jax.vmap``.

    The kernel is compiled now, for all sizes. It must not change its inputs. ``vjp`` makes it differentiable: a function
    of the inputs, then the cotangents of the results, that returns the cotangents of the inputs.
    """
    _register()
    number = np.int64(_lathe.ffi_register(kernel, _how(strategy, params, specialize), threads))
    inputs = [p for p in kernel.parameters if p[1] != "out"]
    types = [kernel.dtype(p[0]) for p in inputs]

    def call(*args: Any) -> Any:
        if len(args) != len(inputs):
            names = ", ".join(p[0] for p in inputs)
            raise _lathe.fail("E0808", f"`{kernel.name}` takes {len(inputs)} arguments, {len(args)} were given", [],
                              f"in this order: {names}")
        arrays = []
        for a, (name, _, kind), dtype in zip(args, inputs, types):
            scalar = "[" not in kind
            x = jnp.asarray(a, dtype) if scalar else jnp.asarray(a)
            if x.dtype != dtype:
                help_ = "jax.config.update('jax_enable_x64', True)" if dtype.itemsize == 8 else f"x.astype('{dtype}')"
                raise _lathe.fail("E0809", f"`{name}` is {kind.split('[')[0]}, but the argument holds {x.dtype}", [], help_)
            arrays.append(x)
        results = kernel.results([list(x.shape) for x in arrays])
        shapes = [jax.ShapeDtypeStruct(tuple(shape), dtype) for shape, dtype in results]
        single = len(shapes) == 1
        made = jax.ffi.ffi_call(_TARGET, shapes[0] if single else shapes, vmap_method=vmap_method)
        done = made(*arrays, kernel=number)
        return done if single else tuple(done)

    call.__name__ = call.__qualname__ = kernel.name
    call.__doc__ = f"The kernel `{kernel.name}` as an operator of JAX."
    if vjp is None:
        return call
    differentiable = jax.custom_vjp(call)
    differentiable.defvjp(lambda *args: (call(*args), args), lambda args, g: tuple(vjp(*args, g)))
    return differentiable
