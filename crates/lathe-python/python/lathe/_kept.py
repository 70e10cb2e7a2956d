"""Operators that were made, found again: those of the same kernel with the same options and the same rule are one.

An operator that is made inside of a function, again at each call, would else be compiled, registered and traced again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from . import _lathe

__all__ = ["Kept", "meaning"]

T = TypeVar("T")


class Kept:
    """The last so many things that were made."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.all: OrderedDict[Any, Any] = OrderedDict()
        self.lock = threading.RLock()

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """The thing of this key, made if there is none; without a key it is made and not kept."""
        if key is None:
            return make()
        with self.lock:
            found: T | None = self.all.get(key)
            if found is not None:
                self.all.move_to_end(key)
                return found
            made = make()
            self.all[key] = made
            if len(self.all) > self.most:
                self.all.popitem(last=False)
            return made


class _Same:
    """An object by its identity, kept alive."""

    __slots__ = ("it",)

    def __init__(self, it: Any) -> None:
        self.it = it

    def __hash__(self) -> int:
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.it is self.it


def meaning(f: Any) -> Any:
    """What a function does, as a key: functions made by the same code, with the same variables around them, are one. None
    for functions that hold more than kernels, functions and numbers, which must not be kept alive."""
    if f is None:
        return ()
    if not isinstance(f, FunctionType) or f.__dict__:
        return None
    cells = f.__closure__ or ()
    try:
        held = [c.cell_contents for c in cells]
    except ValueError:  # not yet filled in
        return None
    defaults = f.__defaults__ or ()
    named = sorted((f.__kwdefaults__ or {}).items())
    if not all(_light(x, 0) for x in (*held, *defaults, *(v for _, v in named))):
        return None
    return (f.__code__, _Same(f.__globals__), tuple(map(_Same, cells)), tuple(map(_Same, defaults)),
            tuple((n, _Same(v)) for n, v in named))


def _light(x: Any, depth: int) -> bool:
    if x is None or isinstance(x, (bool, int, float, str, ModuleType, type, _lathe.Kernel)):
        return True
    if isinstance(x, FunctionType) and depth < 4 and not x.__dict__:
        try:
            return all(_light(c.cell_contents, depth + 1) for c in x.__closure__ or ())
        except ValueError:
            return False
    return bool(getattr(type(x), "_of_lathe", False))
