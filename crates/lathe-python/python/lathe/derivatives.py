"""Derivatives of kernels, which are kernels themselves.

>>> import lathe, numpy as np
>>> loss = lathe.kernel("kernel loss(x: f64[N]) -> (y: f64) { y = sum[i](x[i] * x[i]) }")
>>> lathe.grad(loss)(np.array([1.0, 2.0]))
array([2., 4.])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from . import _lathe
from ._shapes import bound
from .kernels import Kernel

__all__ = ["grad", "hessian", "hvp", "jvp", "value_and_grad", "vjp"]

_REALS = ("f16", "bf16", "f32", "f64")
_FLOATS = (*_REALS, "c64", "c128")
Names = str | Iterable[str] | None


def vjp(kernel: Kernel, wrt: Names = None, of: Names = None, *, value: bool = False, allow_steps: bool = False,
        checkpoints: int | None = None) -> Kernel:
    """Reverse mode: the kernel ``(A, …, C_bar, …) -> (A_bar, …)`` of cotangents.

    ``wrt`` names inputs and ``of`` results, all of float types where they are left out. With ``value`` the results come
    first. With ``allow_steps``, ``floor``, ``round`` and conversions to integers count as locally constant; else a result that
    depends on an input through one is refused. With ``checkpoints``, so many states of a loop in time are kept at once, instead of
    values of every iteration, and iterations between them run again.

    >>> import lathe, numpy as np
    >>> square = lathe.kernel("kernel square(x: f64[N]) -> (y: f64[N]) { y[i] = x[i] * x[i] }")
    >>> lathe.vjp(square)(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([ 2., 40.])
    """
    return _derived(kernel, "vjp", wrt, of, value, allow_steps, checkpoints)


def jvp(kernel: Kernel, wrt: Names = None, of: Names = None, *, allow_steps: bool = False) -> Kernel:
    """Forward mode: the kernel ``(A, …, A_dot, …) -> (C, …, C_dot, …)`` of results and their tangents."""
    return _derived(kernel, "jvp", wrt, of, False, allow_steps)


def hvp(kernel: Kernel, wrt: Names = None, of: Names = None, *, allow_steps: bool = False) -> Kernel:
    """Second derivatives times a vector: the kernel ``(A, …, C_bar, …, A_dot, …) -> (A_bar, …, A_bar_dot, …)``."""
    return _derived(kernel, "hvp", wrt, of, False, allow_steps)


def grad(kernel: Kernel, wrt: Names = None, *, checkpoints: int | None = None) -> Callable[..., Any]:
    """A function that takes what the kernel takes and returns the derivatives of its one number by the inputs ``wrt`` (all
    of float types): an array for one input, a tuple for several. `checkpoints` are those of :func:`vjp`."""
    both = value_and_grad(kernel, wrt, checkpoints=checkpoints)

    def gradient(*args: Any, **named: Any) -> Any:
        return both(*args, **named)[1]

    return _like(gradient, kernel, "The gradient of")


def value_and_grad(kernel: Kernel, wrt: Names = None, *, checkpoints: int | None = None) -> Callable[..., Any]:
    """As :func:`grad`, with the kernel's own number first: ``(value, gradient)``."""
    names, result = _inputs(kernel, wrt), _number(kernel)
    derived = vjp(kernel, names, result, value=True, checkpoints=checkpoints)

    def value_and_gradient(*args: Any, **named: Any) -> Any:
        value, *gradients = derived(*bound(kernel, args, named), _one(kernel, result))
        return value, gradients[0] if len(gradients) == 1 else tuple(gradients)

    return _like(value_and_gradient, kernel, "The value and the gradient of")


def hessian(kernel: Kernel, wrt: str | None = None) -> Callable[..., Any]:
    """A function that takes what the kernel takes and returns the second derivatives of its one number by one input, of the
    shape of the input twice: a product with each unit vector.

    >>> import lathe, numpy as np
    >>> f = lathe.kernel("kernel f(x: f64[N]) -> (y: f64) { y = sum[i](x[i] * x[i] * x[i]) }")
    >>> lathe.hessian(f)(np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])
    """
    names, result = _inputs(kernel, wrt), _number(kernel)
    if len(names) != 1:
        raise _lathe.fail("E0917", f"a Hessian is by one input, and these are {len(names)}: {', '.join(names)}", [],
                          f"lathe.hessian(kernel, wrt={names[0]!r})")
    product = hvp(kernel, names, result)
    at = [p[0] for p in kernel.parameters if p[1] != "out"].index(names[0])

    def second(*args: Any, **named: Any) -> Any:
        args = bound(kernel, args, named)
        x = np.asarray(args[at], dtype=kernel.dtype(names[0]))
        rows = np.empty((x.size, *x.shape), dtype=x.dtype)
        unit = np.zeros_like(x, order="C")
        for n in range(x.size):
            unit.reshape(-1)[n] = 1
            rows[n] = product(*args, _one(kernel, result), unit if x.ndim else unit[()])[1]
            unit.reshape(-1)[n] = 0
        return rows.reshape(x.shape + x.shape)

    return _like(second, kernel, "The Hessian of")


def _one(kernel: Kernel, result: str) -> Any:
    return np.ones((), dtype=kernel.dtype(result))


def _like(f: Callable[..., Any], kernel: Kernel, what: str) -> Callable[..., Any]:
    f.__name__ = f.__qualname__ = f"{f.__name__}_of_{kernel.name}"
    f.__doc__ = f"{what} `{kernel.name}`."
    return f


def _derived(kernel: Kernel, rule: str, wrt: Names, of: Names, value: bool, allow_steps: bool,
             checkpoints: int | None = None) -> Kernel:
    if not isinstance(kernel, Kernel):
        raise _lathe.fail("E0917", f"a derivative is one of a kernel, not of {type(kernel).__name__}", [], "lathe.kernel(…)")
    options = [f"{word}: ({', '.join(names)})" for word, names in (("wrt", _names(wrt)), ("of", _names(of))) if names is not None]
    options += ["value: true"] * bool(value) + ["allow: steps"] * bool(allow_steps)
    if checkpoints is not None:
        if isinstance(checkpoints, bool) or not isinstance(checkpoints, int) or not 0 < checkpoints < 1 << 16:
            raise _lathe.fail("E0917", f"checkpoints are a number from 1 to 65535, not {checkpoints!r}", [], "checkpoints=8")
        options.append(f"checkpoint: {checkpoints}")
    text, name = kernel.source().rstrip(), f"{kernel.name}_{rule}"
    while re.search(rf"\b{re.escape(name)}\b", text):
        name += "_"
    return Kernel(f"{text}\n\nkernel {name} = {rule}({', '.join([kernel.name, *options])})\n", name)


def _names(names: Names) -> list[str] | None:
    if names is None:
        return None
    names = [names] if isinstance(names, str) else list(names)
    for n in names:
        if not isinstance(n, str) or not n.isidentifier():
            raise _lathe.fail("E0917", f"parameters are given by their names, not by {n!r}", [], "wrt='x', or wrt=('x', 'y')")
    return names


def _inputs(kernel: Kernel, wrt: Names) -> list[str]:
    """The inputs of a gradient."""
    if not isinstance(kernel, Kernel):
        raise _lathe.fail("E0917", f"a derivative is one of a kernel, not of {type(kernel).__name__}", [], "lathe.kernel(…)")
    changed = next((p[0] for p in kernel.parameters if p[1] == "inout"), None)
    if changed is not None:
        raise _lathe.fail("E0915", f"`{kernel.name}` changes its input `{changed}`, and is not a function with a gradient", [],
                          "lathe.vjp(kernel) takes the cotangent of the changed array, and gives that of the first")
    names = _names(wrt)
    known = differentiable(kernel)
    if names is None:
        return known
    # In the order of the inputs, in which they come back.
    return [n for n in known if n in names] + [n for n in names if n not in known]


def differentiable(kernel: Kernel, mode: str = "in") -> list[str]:
    """The parameters of float types."""
    return [p[0] for p in kernel.parameters if p[1] == mode and p[2].split("[")[0] in _FLOATS]


def _number(kernel: Kernel) -> str:
    """The result that is differentiated."""
    results = [p for p in kernel.parameters if p[1] == "out"]
    if len(results) != 1 or results[0][2].rstrip("[]") not in _REALS:
        kinds = ", ".join(f"{p[0]}: {p[2]}" for p in results) or "nothing"
        raise _lathe.fail("E0915", f"a gradient is that of one number, and `{kernel.name}` gives {kinds}", [],
                          "lathe.vjp(kernel) takes a cotangent for each result")
    return str(results[0][0])
