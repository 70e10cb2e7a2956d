"""Calls of kernels with buffers of :mod:`lathe.device`: they run on the device of the buffers, and results are new buffers there.
Called by the compiled part."""

from __future__ import annotations

import weakref
from typing import Any

from . import _lathe
from ._beside import is_buffer
from ._shapes import Shapes, bound
from .device import Buffer

__all__ = ["direct"]

_shapes: weakref.WeakKeyDictionary[_lathe.Kernel, Shapes] = weakref.WeakKeyDictionary()


def direct(kernel: _lathe.Kernel, args: tuple[Any, ...], given: dict[str, Any] | None) -> Any:
    """A call with buffers, all of one device."""
    named = dict(given or {})
    # Inputs may have the names of options.
    inputs = {p[0] for p in kernel.parameters if p[1] != "out"}
    options = {n: named.pop(n) for n in ("strategy", "params", "specialize") if n in named and n not in inputs}
    out = None if "out" in inputs else named.pop("out", None)
    for option in ("threads", "copy", "timeout"):
        if option not in inputs and named.pop(option, None):
            raise _lathe.fail("E0917", f"`{option}` is an option of calls with arrays of the host", [],
                              "launches on buffers have the options strategy, params and specialize")
    args = bound(kernel, args, named)
    buffers = [a for a in (*args, *(out if isinstance(out, (tuple, list)) else (out,))) if is_buffer(a)]
    devices = buffers[0].devices
    if len(devices) != 1:
        raise _lathe.fail("E0916", f"the buffers of this call belong to {len(devices)} devices, and nothing says on which of them "
                          f"`{kernel.name}` runs", [], "devices[n].launch(kernel, …), or buffers of Devices(['cuda:0'])")
    results = [p for p in kernel.parameters if p[1] == "out"]
    if out is None:
        if kernel not in _shapes:
            _shapes[kernel] = Shapes(kernel)
        rules = _shapes[kernel]
        known = {at: a for at, a in zip(rules.inputs, args) if isinstance(a, int)}
        shapes = rules.results([tuple(getattr(a, "shape", ())) for a in args], known)
        made = tuple(Buffer.empty(devices, shape, kernel.dtype(p[0])) for shape, p in zip(shapes, results))
    else:
        made = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        if len(made) != len(results):
            raise _lathe.fail("E0808", f"`{kernel.name}` has {len(results)} results, {len(made)} buffers were given for them", [], None)
    devices[0].launch(kernel, *args, *made, **options)
    return None if not made else made[0] if len(made) == 1 else made
