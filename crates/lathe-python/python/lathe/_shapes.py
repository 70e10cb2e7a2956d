"""Shapes of a kernel's arguments and results without a call: what operators of other packages are asked while they are
traced. Extents may be numbers or symbols; what cannot be decided for symbols is left to the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import _lathe

__all__ = ["Shapes", "bound"]


def bound(kernel: _lathe.Kernel, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments in the order of the kernel's inputs."""
    names = [p[0] for p in kernel.parameters if p[1] != "out"]
    given: dict[str, Any] = {}
    for name, a in zip(names, args):
        given[name] = a
    for name, a in named.items():
        if name not in names:
            raise _lathe.fail("E0808", f"`{kernel.name}` has no argument `{name}`", [], f"its arguments: {', '.join(names)}")
        if name in given:
            raise _lathe.fail("E0808", f"the argument `{name}` of `{kernel.name}` is given twice", [], None)
        given[name] = a
    given = {**kernel.defaults, **given}
    if len(args) > len(names) or len(given) < len(names):
        count = len(args) + len(named)
        raise _lathe.fail("E0808", f"`{kernel.name}` takes {len(names)} arguments, {count} were given", [],
                          f"in this order: {', '.join(names)}")
    return tuple(given[n] for n in names)


class Shapes:
    """The rules of a kernel's shapes."""

    def __init__(self, kernel: _lathe.Kernel) -> None:
        self.name = kernel.name
        self.params = kernel.parameters
        self.inputs = [i for i, p in enumerate(self.params) if p[1] != "out"]
        self.outputs = [i for i, p in enumerate(self.params) if p[1] == "out"]
        self.rules, formulas = kernel.shape_rules()
        # The formulas are the compiled part's own: numbers, s[…], v[…], arithmetic, min and max.
        self.formulas: list[list[Callable[..., Any] | None]] = [
            [None if f is None else eval(f"lambda s, v, min, max: {f}", {"__builtins__": {}}) for f in fs]  # noqa: S307
            for fs in formulas
        ]

    def results(self, shapes: Sequence[Sequence[Any]], values: dict[int, Any],
                smaller: Callable[[Any, Any], Any] = min, larger: Callable[[Any, Any], Any] = max) -> list[tuple[Any, ...]]:
        """The shapes of the results for inputs of these shapes; `values` are those of integer parameters that are known.
        Inputs that do not fit each other are refused as a call would."""
        given = dict(zip(self.inputs, shapes))
        for at, shape in given.items():
            name, want = self.params[at][0], len(self.formulas[at])
            if len(shape) != want:
                raise _lathe.fail("E0810", f"`{name}` has {want} dimensions, but the argument has {len(shape)}", [], None)
        sizes: list[Any] = []
        for _, param, dim, times, plus, others in self.rules:
            value = given[param][dim] - plus
            for other, n in others:
                value = value - n * sizes[other]
            sizes.append(value if times == 1 else value // times)
        for at, shape in given.items():
            for dim, f in enumerate(self.formulas[at]):
                want = _value(f, sizes, values, smaller, larger)
                if want is not None and _differ(shape[dim], want):
                    text = f"dimension {dim} of `{self.params[at][0]}` must have extent {want}, but the argument has {shape[dim]}"
                    raise _lathe.fail("E0811", text, self.notes(sizes), None)
        out = []
        for at in self.outputs:
            made = []
            for dim, f in enumerate(self.formulas[at]):
                extent = _value(f, sizes, values, smaller, larger)
                if extent is None:
                    text = f"the extents of the result `{self.params[at][0]}` do not follow from the shapes of the arguments"
                    raise _lathe.fail("E0811", text, self.notes(sizes), "a kernel whose results' extents are numbers that "
                                      "it is given cannot be traced")
                if isinstance(extent, int) and extent < 0:
                    text = f"dimension {dim} of the result `{self.params[at][0]}` would have {extent} elements"
                    raise _lathe.fail("E0811", text, self.notes(sizes), None)
                made.append(extent)
            out.append(tuple(made))
        return out

    def notes(self, sizes: Sequence[Any]) -> list[str]:
        return [f"{name} = {value}, by dimension {dim} of `{self.params[param][0]}`"
                for (name, param, dim, *_), value in zip(self.rules, sizes)]


def _value(f: Callable[..., Any] | None, sizes: Sequence[Any], values: dict[int, Any], smaller: Any, larger: Any) -> Any:
    if f is None:
        return None
    try:
        return f(sizes, values, smaller, larger)
    except (KeyError, ZeroDivisionError):
        return None


def _differ(a: Any, b: Any) -> bool:
    """Whether two extents are surely not the same."""
    if isinstance(a, int) and isinstance(b, int):
        return a != b
    try:
        return bool(a != b) if _decided(a) and _decided(b) else False
    except Exception:  # noqa: BLE001 - a symbol of another package that cannot be decided
        return False


def _decided(x: Any) -> bool:
    """Numbers, and the symbols of PyTorch, which have a value and remember what was asked."""
    return isinstance(x, int) or type(x).__name__ == "SymInt"
