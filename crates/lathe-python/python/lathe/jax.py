"""Kernels as operators of JAX: foreign functions of XLA, called inside of ``jax.jit`` without Python.

>>> import jax, jax.numpy as jnp, lathe, lathe.jax
>>> twice = lathe.jax.op(lathe.kernel("kernel twice(x: f32[N]) -> (y: f32[N]) { y[i] = 2 * x[i] }"))
>>> jax.jit(lambda x: twice(x) + 1)(jnp.arange(3.0))
Array([1., 3., 5.], dtype=float32)
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _lathe
from ._kept import Kept, meaning
from ._shapes import Shapes, bound
from .derivatives import differentiable
from .derivatives import vjp as derived
from .errors import CopyWarning, LatheError
from .kernels import Kernel, _how

if not hasattr(jax, "ffi"):
    raise ImportError(f"lathe.jax needs JAX 0.5 or newer, and this is {jax.__version__}")

__all__ = ["Operator", "export_checks", "op"]

_TARGET = "lathe_kernel"
_METHODS = ("expand_dims", "broadcast_all", "sequential", "sequential_unrolled")
_lock = threading.Lock()
_registered = False
_operators = Kept(1024)
#: Classes of JAX's arrays, and of what stands for one while a function is traced, as they were seen.
_arrays: set[type] = set()


def _register() -> None:
    global _registered
    with _lock:
        if not _registered:
            jax.ffi.register_ffi_target(_TARGET, _lathe.ffi_capsule(), platform="cpu", api_version=1)
            # On devices kernels are started on the stream of the program.
            jax.ffi.register_ffi_target(_TARGET, _lathe.ffi_cuda_capsule(), platform="CUDA", api_version=1)
            _registered = True


def export_checks() -> list[Any]:
    """What ``jax.export.export`` must be told to write a program with kernels of Lathe:
    ``export.export(f, disabled_checks=lathe.jax.export_checks())``."""
    from jax import export

    return [export.DisabledSafetyCheck.custom_call(_TARGET)]


# A program that another process exported may be the first to name a kernel.
_register()


def op(kernel: Kernel, *, strategy: Any = None, params: Mapping[str, Any] | None = None,
       specialize: Mapping[str, int] | None = None, threads: int | None = None,
       vmap_method: str = "expand_dims", vjp: Callable[..., Any] | None = None) -> Operator:
    """The kernel as a function of arrays of JAX, to be called anywhere, also inside of ``jax.jit`` and ``jax.vmap``.

    The kernel is compiled now, for all sizes. It must not change its inputs. In reverse mode it is differentiable as often as
    one likes: by the kernel's derivative, or by ``vjp``, a function of the inputs, then the cotangents of the results,
    that returns the cotangents of the inputs.

    Under ``jax.vmap`` one call computes the whole batch; ``vmap_method`` is that of ``jax.ffi.ffi_call`` (also
    ``broadcast_all``, ``sequential``, ``sequential_unrolled``). Programs that were exported carry the kernel with them: a
    process that runs one only imports this module. The same kernel with the same options is the same operator, so one may
    be made wherever it is used.
    """
    if not isinstance(kernel, Kernel):
        raise _lathe.fail("E0917", f"an operator is made of a kernel, not of {type(kernel).__name__}", [], "lathe.kernel(…)")
    if vmap_method not in _METHODS:
        raise _lathe.fail("E0917", f"`{vmap_method}` is not a method of vmap", [], f"one of {', '.join(_METHODS)}")
    if vjp is not None and not callable(vjp):
        raise _lathe.fail("E0917", f"vjp is a function, not {type(vjp).__name__}", [], None)
    key, content = _lathe.ffi_content(kernel, _how(strategy, params, specialize), threads)
    rule = meaning(vjp)
    return _operators.get(None if rule is None else (key, repr(sorted(kernel.defaults.items())), vmap_method, rule),
                          lambda: Operator(kernel, key, content, vmap_method, vjp, threads))


class Operator:
    """A kernel as a function of arrays of JAX; made by :func:`op`."""

    _of_lathe = True

    def __init__(self, kernel: Kernel, key: str, content: str, vmap_method: str, vjp: Callable[..., Any] | None,
                 threads: int | None = None) -> None:
        #: The kernel that it calls.
        self.kernel = kernel
        self.__name__ = self.__qualname__ = kernel.name
        self.__doc__ = f"The kernel `{kernel.name}` as an operator of JAX."
        self._key, self._content, self._method = key, content, vmap_method
        self._shapes = Shapes(kernel)
        self._inputs = [(p[0], p[2].split("[")[0], "[" not in p[2], kernel.dtype(p[0])) for p in kernel.parameters if p[1] != "out"]
        self._outputs = [kernel.dtype(p[0]) for p in kernel.parameters if p[1] == "out"]
        rule = vjp or self._derivative
        self._threads = threads
        self._derived: Operator | None = None
        function = jax.custom_vjp(self._traced)
        # The sweep forward is the function itself, which can be differentiated again.
        function.defvjp(lambda *args: (function(*args), args), lambda args, g: self._back(rule, args, g))
        self._jitted = jax.jit(function, inline=True)

    def __repr__(self) -> str:
        return f"<lathe operator {self.kernel.name} of JAX>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        if named or len(args) != len(self._inputs):
            args = bound(self.kernel, args, named)
        for a, (name, kind, scalar, dtype) in zip(args, self._inputs):
            # What JAX would convert silently is looked at before it does.
            if type(a) not in _arrays:
                if isinstance(a, jax.Array):
                    _arrays.add(type(a))
                else:
                    self._given(a, name, kind, scalar, dtype)
        return self._jitted(*args)

    def _given(self, a: Any, name: str, kind: str, scalar: bool, dtype: Any) -> None:
        if scalar and not isinstance(a, np.ndarray):
            at = next(i for i, p in enumerate(self.kernel.parameters) if p[0] == name)
            self.kernel.check_number(at, a)
            if not isinstance(a, np.generic) or a.dtype == dtype:
                return
        found = getattr(a, "dtype", None)
        if found is None:
            raise _lathe.fail("E0809", f"`{name}` is an array of {kind}, but the argument is a `{type(a).__name__}`", [],
                              f"jax.numpy.asarray(…, dtype='{dtype}')")
        if found != dtype:
            raise self._other(name, kind, found, dtype)

    def _other(self, name: str, kind: str, found: Any, dtype: Any) -> Exception:
        narrowed = dtype.itemsize == 8 and not jax.config.read("jax_enable_x64")
        help_ = "jax.config.update('jax_enable_x64', True)" if narrowed else f"x.astype('{dtype}')"
        return _lathe.fail("E0809", f"`{name}` is {kind}, but the argument holds {found}", [], help_)

    def _traced(self, *args: Any) -> Any:
        arrays = []
        for a, (name, kind, scalar, dtype) in zip(args, self._inputs):
            x = jnp.asarray(a)
            if x.dtype != dtype:
                # A number of Python has no type of its own, within its kind.
                weak = scalar and x.weak_type and (np.issubdtype(dtype, np.inexact) or dtype.name == "bfloat16"
                                                   or np.issubdtype(x.dtype, np.integer) and np.issubdtype(dtype, np.integer))
                if not weak or jax.dtypes.canonicalize_dtype(dtype) != dtype:
                    raise self._other(name, kind, x.dtype, dtype)
                x = x.astype(dtype)
            arrays.append(x)
        known = {at: int(x) for at, x in zip(self._shapes.inputs, arrays)
                 if x.ndim == 0 and np.issubdtype(x.dtype, np.integer) and not isinstance(x, jax.core.Tracer)}
        shapes = self._shapes.results([x.shape for x in arrays], known, _smaller, _larger)
        results = []
        for shape, dtype in zip(shapes, self._outputs):
            if jax.dtypes.canonicalize_dtype(dtype) != dtype:
                raise _lathe.fail("E0809", f"a result of `{self.kernel.name}` is {dtype}, which JAX has only with 64 bits", [],
                                  "jax.config.update('jax_enable_x64', True)")
            results.append(jax.ShapeDtypeStruct(shape, dtype))
        single = len(results) == 1
        made = jax.ffi.ffi_call(_TARGET, results[0] if single else results, vmap_method=self._method)
        done = made(*arrays, key=self._key, kernel=self._content)
        return done if single else tuple(done)

    def _back(self, vjp: Callable[..., Any], args: tuple[Any, ...], g: Any) -> tuple[Any, ...]:
        """The cotangents by the user's rule, which may leave those of integers out."""
        # One cotangent for each result.
        given = vjp(*args, *(g if isinstance(g, tuple) else (g,)))
        given = given if isinstance(given, (tuple, list)) else (given,)
        if len(given) != len(args):
            raise _lathe.fail("E0915", f"the rule of `{self.kernel.name}` gives {len(given)} cotangents for {len(args)} inputs", [],
                              "one for each input, in order; None for one that has none")
        return tuple(given)

    def _derivative(self, *args: Any) -> tuple[Any, ...]:
        """The rule where the user gives none: the derivative of the kernel, made when it is first asked for."""
        inputs, given = args[:len(self._inputs)], args[len(self._inputs):]
        wrt, of = differentiable(self.kernel), differentiable(self.kernel, "out")
        if not wrt or not of:
            return (None,) * len(inputs)
        if self._derived is None:
            self._derived = op(derived(self.kernel, wrt, of), threads=self._threads, vmap_method=self._method)
        results = [p[0] for p in self.kernel.parameters if p[1] == "out"]
        # JAX's cotangents of complex numbers are the conjugates of Lathe's.
        back = self._derived(*inputs, *(_conjugate(g) for g, n in zip(given, results) if n in of))
        found = dict(zip(wrt, map(_conjugate, back if isinstance(back, tuple) else (back,))))
        return tuple(found.get(name) for name, _, _, _ in self._inputs)


def _conjugate(x: Any) -> Any:
    return jnp.conj(x) if jnp.iscomplexobj(x) else x


def _smaller(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else jax.core.min_dim(a, b)


def _larger(a: Any, b: Any) -> Any:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else jax.core.max_dim(a, b)


def direct(kernel: Kernel, args: tuple[Any, ...], given: dict[str, Any] | None) -> Any:
    """A call of the kernel itself with arrays of JAX: what is wrong is raised here, not when the result is looked at."""
    named: dict[str, Any] = {}
    options: dict[str, Any] = {}
    copy = False
    if given:
        named = dict(given)
        options = {n: named.pop(n) for n in ("strategy", "params", "specialize", "threads") if n in named}
        copy = bool(named.pop("copy", False))
        if named.get("timeout") is not None and all(p[0] != "timeout" for p in kernel.parameters):
            raise _lathe.fail("E0917", "XLA runs kernels to their end: `timeout` is for arrays of numpy and tensors of PyTorch",
                              [], "numpy.asarray(array)")
    if any(_is_array(a) and not _on_host(a) for a in (*args, *named.values())):
        args = _in_one_place(kernel, bound(kernel, args, named), copy)
        named = {}
    operator = op(kernel, **options) if options else _direct.all.get(kernel) or _direct.get(kernel, lambda: op(kernel))
    try:
        done = operator(*args, **named)
        if isinstance(done, jax.Array):
            # A value that is traced is ready.
            return done.block_until_ready() if hasattr(done, "block_until_ready") else done
        return jax.block_until_ready(done)
    except LatheError:
        raise
    except jax.errors.JaxRuntimeError as e:
        raise _raised(e) from None


def _is_array(a: Any) -> bool:
    """Whether it is an array in memory, and not what stands for one while a function is traced."""
    return isinstance(a, jax.Array) and not isinstance(a, jax.core.Tracer)


def _on_host(a: jax.Array) -> bool:
    return all(d.platform == "cpu" for d in a.devices())


def _in_one_place(kernel: Kernel, args: tuple[Any, ...], copy: bool) -> tuple[Any, ...]:
    """The arguments of a call with an array on a device: all arrays are there, or are copied there if the call allows it."""
    places = [a.devices() for a in args if _is_array(a) and not _on_host(a)]
    place = next(iter(places[0]))
    out = []
    for (name, _, _), a in zip((p for p in kernel.parameters if p[1] != "out"), args):
        if _is_array(a) and len(a.devices()) > 1:
            raise _lathe.fail("E0916", f"`{name}` is spread over {len(a.devices())} devices", [], "jax.device_put(array, device)")
        # Numbers go where they are needed; the operator refuses what is not an array of this type.
        there = a.devices() == {place} if _is_array(a) else not isinstance(a, np.ndarray) or a.ndim == 0
        if not there and a.dtype == kernel.dtype(name):
            if not copy:
                where = next(iter(a.devices())) if _is_array(a) else "the memory of the host"
                raise _lathe.fail("E0916", f"`{name}` is in {where}, but another argument in {place}", [],
                                  "jax.device_put(array, device), or copy=True")
            warnings.warn(f"`{name}` was copied: it is not where the other arrays are", CopyWarning, stacklevel=3)
            a = jax.device_put(a, place)
        out.append(a)
    return tuple(out)


_direct = Kept(256)


def _raised(e: Exception) -> Exception:
    """The exception of a kernel that failed inside of XLA."""
    said = re.search(r"lathe: error\[(E\d{4})\]: ([^\n]*)((?:\n  note: [^\n]*)*)(?:\n  help: ([^\n]*))?", str(e))
    if said is None:
        return e
    notes = [n.removeprefix("  note: ") for n in said[3].splitlines() if n]
    return _lathe.fail(said[1], said[2], notes, said[4])
