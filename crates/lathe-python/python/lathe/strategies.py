"""Strategies as values of Python, with the combinators of the strategy language.

>>> import lathe
>>> s = lathe.strategy(lambda p: p.tile(i=p.pick(16, 256, step=16), j=64) >> p.parallel("i.o"), for_="gemm", name="mine")
>>> print(s.source())
strategy mine(p1 = 16 in 16..=256 step 16) for gemm =
    tile(i: p1, j: 64) ; parallel(i.o)
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from . import _lathe
from .errors import StrategyError

__all__ = ["Pick", "Step", "Steps", "Strategy", "pick", "strategy"]


class Pick:
    """A parameter of a strategy, or a formula of parameters: ``p * 2``, ``p // 4``."""

    __slots__ = ("_default", "_name", "_range", "_text")

    def __init__(self, values: str | None, default: Any, name: str | None, text: str | None = None) -> None:
        self._range = values
        self._default = default
        self._name = name
        self._text = text

    def __repr__(self) -> str:
        name = "" if self._name is None else f"{self._name}: "
        return f"<{name}{_value(self._default)}{f' in {self._range}' if self._range else ''}>"

    def _binary(self, op: str, other: Any, swap: bool = False) -> _Formula:
        return _Formula(op, other, self) if swap else _Formula(op, self, other)

    def __add__(self, other: Any) -> _Formula:
        return self._binary("+", other)

    def __radd__(self, other: Any) -> _Formula:
        return self._binary("+", other, True)

    def __sub__(self, other: Any) -> _Formula:
        return self._binary("-", other)

    def __rsub__(self, other: Any) -> _Formula:
        return self._binary("-", other, True)

    def __mul__(self, other: Any) -> _Formula:
        return self._binary("*", other)

    def __rmul__(self, other: Any) -> _Formula:
        return self._binary("*", other, True)

    def __floordiv__(self, other: Any) -> _Formula:
        return self._binary("//", other)

    def __mod__(self, other: Any) -> _Formula:
        return self._binary("%", other)


class _Formula(Pick):
    """Arithmetic with parameters."""

    __slots__ = ("_left", "_op", "_right")

    def __init__(self, op: str, left: Any, right: Any) -> None:
        super().__init__(None, None, None)
        self._op, self._left, self._right = op, left, right

    def __repr__(self) -> str:
        return f"({self._left!r} {self._op} {self._right!r})"


def pick(lo: Any, hi: int | None = None, *, step: int | None = None, default: Any = None,
         name: str | None = None) -> Pick:
    """A value that tuning may choose: of ``lo`` to ``hi`` in steps, or of a collection. The default is the first."""
    if hi is None:
        if not isinstance(lo, Iterable) or isinstance(lo, str):
            raise StrategyError("pick(16, 256, step=16), or pick([16, 32, 64])")
        values = list(lo)
        if not values:
            raise StrategyError("there is nothing to pick from")
        text = "{" + ", ".join(_value(v) for v in values) + "}"
        return Pick(text, values[0] if default is None else default, name)
    by = "" if step is None else f" step {step}"
    return Pick(f"{lo}..={hi}{by}", lo if default is None else default, name)


def _value(v: Any) -> str:
    if isinstance(v, bool):
        return "true" if v else "false"
    return str(v)


class Step:
    """A strategy: a step, or steps that are combined. Made by what a function for :func:`strategy` gets."""

    def __rshift__(self, other: Step) -> Step:
        """One after the other: ``;``."""
        return _Joined(";", [self, _step(other)])

    def __or__(self, other: Step) -> Step:
        """The first that can be done: ``<+``."""
        return _Joined("<+", [self, _step(other)])

    def __matmul__(self, place: Step) -> Step:
        """Somewhere: ``@``."""
        return _Joined("@", [self, _step(place)])

    def normal(self, other: Step) -> Step:
        """One after the other, with normalization between: ``;;``."""
        return _Joined(";;", [self, _step(other)])


class _Call(Step):
    def __init__(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.name, self.args, self.named = name, args, named


class _Joined(Step):
    def __init__(self, op: str, parts: list[Step]) -> None:
        self.op, self.parts = op, parts


class _When(Step):
    def __init__(self, condition: str, then: Step, other: Step) -> None:
        self.condition, self.then, self.other = condition, then, other


class Strategy(Step):
    """A named strategy. ``kernel(..., strategy=s)`` uses it, and so does every function that names strategies."""

    def __init__(self, name: str, params: list[tuple[str, Pick]], target: str | None, body: str,
                 needs: list[Strategy], where: list[str]) -> None:
        self.name = name
        self._params = params
        self._target = target
        self._body = body
        self._needs = needs
        self._where = where

    def source(self) -> str:
        """The definition in the language of ``.lathe`` files, after those that it uses."""
        out: dict[str, str] = {}
        self._collect(out)
        return "\n".join(out.values())

    def _collect(self, out: dict[str, str]) -> None:
        for n in self._needs:
            n._collect(out)
        parts = [f"{n} = {_value(p._default)}" + (f" in {p._range}" if p._range else "") for n, p in self._params]
        where = f" where {' and '.join(self._where)}" if self._where else ""
        params = f"({', '.join(parts)}{where})" if parts else ""
        target = f" for {self._target}" if self._target else ""
        out[f"{self.name} {self._target}"] = f"strategy {self.name}{params}{target} =\n    {self._body}"

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters."""
        return [n for n, _ in self._params]

    def __repr__(self) -> str:
        return f"<lathe strategy {self.name}({', '.join(self.parameters)})>"


class Steps:
    """What a function for :func:`strategy` gets: every step, rule and definition is an attribute of it."""

    #: Does nothing.
    id = _Call("id", (), {})

    def pick(self, lo: Any, hi: int | None = None, *, step: int | None = None, default: Any = None,
             name: str | None = None) -> Pick:
        """As :func:`lathe.pick`."""
        return pick(lo, hi, step=step, default=default, name=name)

    def when(self, condition: str, then: Step, other: Step | None = None) -> Step:
        """By a condition on sizes, parameters and the machine."""
        return _When(condition, _step(then), _step(other) if other is not None else self.id)

    def try_(self, s: Step) -> Step:
        """A step, or nothing where it cannot be done."""
        return _Call("try", (s,), {})

    def __getattr__(self, name: str) -> Callable[..., Step]:
        if name.startswith("__"):
            raise AttributeError(name)

        def made(*args: Any, **named: Any) -> Step:
            return _Call(name.rstrip("_") if name.endswith("_") else name, args, named)

        return made


def _step(s: Any) -> Step:
    if isinstance(s, Step):
        return s
    raise StrategyError(f"a `{type(s).__name__}` is not a step")


class _Writer:
    """Steps as text, with the parameters that they mention."""

    def __init__(self, names: dict[int, str]) -> None:
        self.params: dict[int, tuple[str, Pick]] = {}
        self.names = names
        self.needs: list[Strategy] = []
        self.numbers = itertools.count(1)

    def pick(self, p: Pick) -> str:
        if isinstance(p, _Formula):
            return f"({self.formula(p._left)} {p._op} {self.formula(p._right)})"
        known = self.params.get(id(p))
        if known is None:
            taken = {n for n, _ in self.params.values()}
            name = self.names.get(id(p)) or p._name
            while name is None or name in taken:
                if name is not None:
                    raise StrategyError(f"two parameters are called `{name}`")
                name = f"p{next(self.numbers)}"
                name = None if name in taken else name
            known = self.params[id(p)] = (name, p)
        return known[0]

    def formula(self, v: Any) -> str:
        return self.pick(v) if isinstance(v, Pick) else _value(v)

    def argument(self, v: Any) -> str:
        if isinstance(v, Pick):
            return self.pick(v)
        if isinstance(v, Step):
            return self.step(v)
        if isinstance(v, (bool, int, float, str)):
            return _value(v)
        if isinstance(v, (tuple, list)):
            return ", ".join(self.argument(x) for x in v)
        raise StrategyError(f"a `{type(v).__name__}` is not an argument of a step")

    def step(self, s: Step, inside: bool = False) -> str:
        if isinstance(s, Strategy):
            if s not in self.needs:
                self.needs.append(s)
            return s.name
        if isinstance(s, _Call):
            args = [self.argument(a) for a in s.args] + [f"{n}: {self.argument(v)}" for n, v in s.named.items()]
            return f"{s.name}({', '.join(args)})" if args else s.name
        if isinstance(s, _When):
            text = f"if {s.condition} then {self.step(s.then, True)} else {self.step(s.other, True)}"
            return f"({text})" if inside else text
        if isinstance(s, _Joined):
            # The same operator needs no brackets on its left.
            first, second = s.parts
            left = self.step(first, not (isinstance(first, _Joined) and first.op == s.op))
            text = f"{left} {s.op} {self.step(second, True)}"
            return f"({text})" if inside else text
        raise StrategyError(f"a `{type(s).__name__}` is not a step")


_NAMES = itertools.count(1)


def strategy(body: Callable[..., Step] | Step, *, for_: Any = None, name: str | None = None,
             where: str | Iterable[str] = ()) -> Strategy:
    """A strategy from a function of the steps that there are.

    Steps are joined by ``>>`` (one after the other), ``|`` (the first that can be done) and ``@`` (somewhere). Paths of
    loops are texts (``"i.o"``), named arguments are named by keywords. Further arguments of the function with a default
    made by :func:`pick` are parameters of their names. ``where`` are constraints on parameters and sizes.
    """
    target = None
    if for_ is not None:
        target = for_.name if isinstance(for_, _lathe.Kernel) else str(for_)
    names: dict[int, str] = {}
    if callable(body) and not isinstance(body, Step):
        given: dict[str, Any] = {}
        for n, p in list(inspect.signature(body).parameters.items())[1:]:
            value = p.default
            if not isinstance(value, Pick):
                value = Pick(None, value, n)
            names[id(value)] = n
            given[n] = value
        steps = _step(body(Steps(), **given))
        declared = list(given.values())
    else:
        steps, declared = _step(body), []
    writer = _Writer(names)
    for p in declared:
        writer.pick(p)
    text = writer.step(steps)
    if name is None:
        function = getattr(body, "__name__", "<lambda>")
        name = function if function.isidentifier() else f"python{next(_NAMES)}"
    conditions = [where] if isinstance(where, str) else list(where)
    return Strategy(name, list(writer.params.values()), target, text, writer.needs, [c for c in conditions if c])
