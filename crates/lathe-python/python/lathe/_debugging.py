"""Calls with ``debug=True``: they run the ``print`` and ``assert`` of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _lathe
from ._kept import Kept

#: The parameter that these statements write to, and its length.
_LOG, _SLOTS = "debug.log", 1 << 18

_made = Kept(64)


def call(kernel: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    named = {name: value for name, value in given.items() if name != "debug"}
    made = _made.get(kernel, kernel.debugging)
    if made is None:
        return kernel(*args, **named)
    # As it is written: steps that bring its statements out of order are refused.
    if named.get("strategy") is None:
        named["strategy"] = "naive"
    log = np.zeros(_SLOTS, np.int64)
    try:
        results = made.call_plain(*args, **named, **{_LOG: log})
    except BaseException:
        failed = _show(made, log)
        if failed is not None:
            raise failed from None
        raise
    if results is NotImplemented:
        raise _lathe.fail("E0917", "`debug` is for direct calls on the host, without gradients",
                          ["an argument is traced, on a device, or requires a gradient"], "pass arrays of numpy")
    _show(made, log)
    return results


def _show(made: Any, log: np.ndarray[Any, Any]) -> BaseException | None:
    """Prints what was printed; gives the exception for an assert that failed."""
    printed, failed = made.shown(log[: 2 + int(log[0])].tolist())
    for line in printed:
        print(line)
    return failed
