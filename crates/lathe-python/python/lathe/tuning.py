"""The tuner: for kernels, for any function, and for any command."""

from __future__ import annotations

import hashlib
import html
import inspect
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import _lathe
from .errors import TuneError
from .kernels import Kernel, _worker

__all__ = ["Evaluation", "Parameter", "Picture", "Progress", "Tuned", "count", "param", "tune"]


class Parameter:
    """A tuning parameter: a finite sequence of values, with a condition on them. Made by :func:`param`."""

    __slots__ = ("condition", "default", "values")

    def __init__(self, values: Any, condition: str | Callable[..., bool] | None, default: Any) -> None:
        self.values = values
        self.condition = condition
        self.default = default

    def __repr__(self) -> str:
        condition = "" if self.condition is None else f", {self.condition!r}"
        default = "" if self.default is None else f", default={self.default!r}"
        return f"param({self.values!r}{condition}{default})"

    def _json(self, name: str) -> dict[str, Any]:
        out: dict[str, Any] = {"name": name, "range": _range(name, self.values)}
        if isinstance(self.condition, str):
            out["constraint"] = self.condition
        if self.default is not None:
            out["default"] = _plain(self.default)
        return out


def param(values: Any, condition: str | Callable[..., bool] | None = None, *, default: Any = None) -> Parameter:
    """A parameter for :func:`tune`.

    ``values`` is a ``range``, a collection of numbers, words or truth values, or a text such as ``interval<int>(1, N)``.
    ``condition`` is a text (``divides(N)``, ``is_multiple_of(WPT) && at_most(64)``) or a function, whose arguments' names
    say which parameters it reads.
    """
    return Parameter(values, condition, default)


class Progress:
    """What is known while a search runs."""

    __slots__ = ("best", "cost", "done", "elapsed", "evaluations", "known", "remaining", "valid")

    def __init__(self, data: dict[str, Any]) -> None:
        #: How many configurations were looked at, how many of them are valid, how many were known from the store.
        self.evaluations: int = data["evaluations"]
        self.valid: int = data["valid"]
        self.known: int = data["known"]
        #: Seconds since the search began, and until it probably ends.
        self.elapsed: float = data["elapsed"]
        self.remaining: float | None = data["remaining"]
        #: From 0 to 1.
        self.done: float = data["done"]
        #: The best so far.
        self.best: dict[str, Any] | None = data.get("best")
        self.cost: float | None = data["cost"][0] if "cost" in data else None

    def __repr__(self) -> str:
        return f"<{self.evaluations} evaluations, {self.elapsed:.1f} s, best {self.cost}>"


class Evaluation:
    """One configuration of a search: its costs, or why it has none."""

    __slots__ = ("at", "configuration", "costs", "reason")

    def __init__(self, configuration: dict[str, Any], costs: list[float] | None, reason: str | None, at: float) -> None:
        self.configuration = configuration
        self.costs = costs
        self.reason = reason
        #: Seconds since the search began.
        self.at = at

    @property
    def cost(self) -> float | None:
        """The first cost."""
        return self.costs[0] if self.costs else None

    def __repr__(self) -> str:
        return f"<{self.configuration}: {self.cost if self.costs else self.reason}>"


class Picture(str):
    """An SVG, which notebooks show."""

    def _repr_svg_(self) -> str:
        return str(self)


class Tuned:
    """What a search found."""

    __slots__ = ("checked", "costs", "default", "entry", "history", "interval", "known", "params", "sizes", "stopped",
                 "strategy", "svg", "trouble", "unchecked")

    def __init__(self, data: dict[str, Any]) -> None:
        #: The strategy, for kernels.
        self.strategy: str | None = data.get("strategy")
        #: The winner.
        self.params: dict[str, Any] = data.get("params") or data.get("best") or {}
        #: Its costs; for kernels and commands that are timed, seconds.
        self.costs: list[float] = [data["seconds"]] if "seconds" in data else list(data["cost"])
        #: A 95 % interval of the first, where it was measured more than once.
        self.interval: tuple[float, float] | None = data.get("interval")
        #: The time with the strategy's own values.
        self.default: float | None = data.get("default")
        #: Sizes that were tuned for.
        self.sizes: dict[str, int] = data.get("sizes") or {}
        #: What the winner's result was compared with, and the largest error; or why it was not.
        self.checked: tuple[str, float, float] | None = data.get("checked")
        self.unchecked: str | None = data.get("unchecked")
        #: Why the search ended: ``stopped``, ``interrupted``, ``exhausted``, ...
        self.stopped: str = data["stopped"]
        #: How many evaluations were taken from the store, and the name of its entry.
        self.known: int = data["known"]
        self.entry: str | None = data["entry"]
        #: What went wrong beside the search.
        self.trouble: str | None = data["trouble"]
        #: Every evaluation in order.
        self.history: list[Evaluation] = [Evaluation(*e) for e in data["history"]]
        #: A picture: cost over time, and how often each cost occurred.
        self.svg: Picture | None = Picture(data["svg"]) if data["svg"] else None

    @property
    def cost(self) -> float:
        """The first cost of the winner."""
        return self.costs[0]

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture as an SVG."""
        if self.svg is None:
            raise TuneError("there is nothing to draw")
        Path(path).write_text(self.svg)

    def __repr__(self) -> str:
        what = f"{self.strategy} " if self.strategy else ""
        params = ", ".join(f"{n}={v}" for n, v in self.params.items())
        return f"<tuned: {what}({params}), cost {self.cost:.6g}, {len(self.history)} evaluations, {self.stopped}>"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td><code>{html.escape(n)}</code></td><td>{html.escape(str(v))}</td></tr>"
                       for n, v in self.params.items())
        name = f"strategy <code>{html.escape(self.strategy)}</code>" if self.strategy else "winner"
        return (f"<h4>{name}: {self.cost:.6g}</h4><table>{rows}</table><p>{len(self.history)} evaluations, "
                f"{html.escape(self.stopped)}</p>{self.svg or ''}")


def seconds(budget: str | float | None) -> float | None:
    """A length of time in seconds: ``30``, ``"30s"``, ``"5min"``."""
    if budget is None:
        return None
    if isinstance(budget, (int, float)):
        out = float(budget)
    else:
        text = budget.strip().lower()
        units = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
        number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
        unit = text[len(number):].strip() or "s"
        try:
            out = float(number) * units[unit]
        except (ValueError, KeyError):
            raise TuneError(f"`{budget}` is not a length of time: for example 30s or 5min") from None
    if not out > 0:
        raise TuneError(f"`{budget}` is not a length of time: more than nothing")
    return out


def _store(store: str | os.PathLike[str] | bool) -> str | None:
    """Where results are kept."""
    if store is False:
        return None
    if store is not True:
        return os.fspath(store)
    given = os.environ.get("LATHE_STORE")
    if given:
        return given
    data = os.environ.get("XDG_DATA_HOME", "")
    folder = Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"
    return str(folder / "lathe" / "results.sqlite")


def _rules(budget: Any, until: str | None, technique: str | None, seed: int, fresh: bool, store: Any) -> dict[str, Any]:
    return {"until": until, "budget": seconds(budget), "technique": technique, "seed": seed, "fresh": fresh,
            "store": _store(store)}


def _listener(progress: bool | Callable[[Progress], None]) -> Callable[[dict[str, Any]], None] | None:
    if not progress:
        return None
    if progress is not True:
        return lambda data: progress(Progress(data))

    shown = [0.0]

    def show(data: dict[str, Any]) -> None:
        p = Progress(data)
        best = "-" if p.cost is None else f"{p.cost:.4g}"
        line = f"{p.done:4.0%}  {p.evaluations} evaluations, {p.valid} valid, best {best}"
        if sys.stderr.isatty():
            end = "\n" if p.done >= 1 else ""
            sys.stderr.write(f"\r\x1b[K{line}{end}")
        elif p.done >= 1 or p.elapsed >= shown[0] + 5:
            # What is not a terminal gets a line now and then.
            shown[0] = p.elapsed
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    return show


def tune_kernel(kernel: Kernel, arrays: Sequence[Any], *, sizes: Mapping[str, int] | None, strategy: Any,
                params: Mapping[str, Any] | None, budget: Any, until: str | None, technique: str | None,
                threads: int | None, seed: int, fresh: bool, specialize: bool, data: bool, store: Any,
                progress: bool | Callable[[Progress], None], device: str | None = None) -> Tuned:
    """What :meth:`Kernel.tune` does."""
    device = _place(arrays, device)
    all_sizes = dict(sizes or {})
    inputs: dict[str, str] = {}
    text, name = kernel.source(), strategy
    if strategy is not None and not isinstance(strategy, str):
        text, name = "\n".join([text, strategy.source()]), strategy.name
    given = [p for p in kernel.parameters if p[1] != "out"]
    if arrays:
        left_out = [p[0] for p in given[len(arrays):]]
        arrays = [*arrays, *(kernel.defaults[n] for n in left_out if n in kernel.defaults)]
    with tempfile.TemporaryDirectory(prefix="lathe-") as folder:
        if arrays and len(arrays) != len(given):
            names = ", ".join(p[0] for p in given)
            raise _lathe.fail("E0808", f"`{kernel.name}` takes {len(given)} arguments, {len(arrays)} were given", [],
                              f"in this order: {names}")
        for (param_name, _, kind), value in zip(given, arrays):
            if "[" not in kind and kind not in ("c64", "c128"):
                inputs[param_name] = _scalar(value)
                continue
            extents = [e.strip() for e in kind[kind.index("[") + 1:-1].split(",")] if "[" in kind and kind[-2:] != "[]" else []
            array = _array(value, data)
            for extent, n in zip(extents, array.shape):
                if extent.isidentifier() and extent in kernel.sizes:
                    all_sizes.setdefault(extent, n)
            if data:
                path = os.path.join(folder, f"{param_name}.npy")
                np.save(path, np.ascontiguousarray(array))
                inputs[param_name] = path
        file = os.path.join(folder, "kernel" + (".mdh" if kernel.file.endswith(".mdh") else ".lathe"))
        Path(file).write_text(text)
        found = _lathe.tune_kernel(kernel, file, name, all_sizes, inputs, dict(params or {}),
                                   threads or _lathe.get_threads(), specialize,
                                   _rules(budget, until, technique, seed, fresh, store), _worker(), _listener(progress), device)
    return Tuned(found)


def _scalar(value: Any) -> str:
    return str(value.item() if hasattr(value, "item") else value).lower() if isinstance(value, bool) else str(
        value.item() if hasattr(value, "item") else value)


def _on(value: Any) -> str | None:
    """The device in whose memory an array is: ``cuda:0``; ``cpu`` for the host's, ``None`` for numbers."""
    if isinstance(value, np.ndarray):
        return "cpu" if value.ndim else None
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(value, jax.Array):
        found = {d.platform if d.platform == "cpu" else f"cuda:{d.local_hardware_id or 0}" for d in value.devices()}
        return found.pop() if len(found) == 1 else ", ".join(sorted(found))
    if not getattr(value, "ndim", 0):
        return None
    if getattr(value, "is_cuda", False) or hasattr(value, "__cuda_array_interface__"):
        return f"cuda:{value.__dlpack_device__()[1]}"
    return "cpu"


def _place(arrays: Sequence[Any], device: str | None) -> str | None:
    """The device to tune on: where the arrays are, or the one that is named."""
    there = dict.fromkeys(p for p in map(_on, arrays) if p is not None)
    named = None if device is None else device if ":" in device or device == "cpu" else f"{device}:0"
    if len(there) > 1 or (named is not None and any(p not in (named, "cpu") for p in there)):
        where = ", ".join(there) if len(there) > 1 else f"{next(iter(there))}, not {named}"
        raise _lathe.fail("E0916", f"the arrays are in the memory of {where}", [], "all in one place")
    found = named or next(iter(there), "cpu")
    return None if found == "cpu" else found


def _array(value: Any, data: bool) -> Any:
    if isinstance(value, np.ndarray):
        return value
    if _on(value) != "cpu":
        # Only the shape matters, unless these elements are to be measured with.
        if not data or not hasattr(value, "shape"):
            return value
        return np.asarray(value.get() if hasattr(value, "get") else value.cpu() if hasattr(value, "cpu") else value)
    from ._interop import view

    out = view(value, False)
    if out is None:
        raise _lathe.fail("E0809", f"a `{type(value).__name__}` is not an array", [], "numpy.asarray(...)")
    return out


def _plain(v: Any) -> Any:
    return v.item() if isinstance(v, np.generic) else v


def _range(name: str, values: Any) -> Any:
    if isinstance(values, str):
        return values
    if isinstance(values, range):
        if len(values) == 0:
            raise TuneError(f"the parameter `{name}` has no values")
        if values.step > 0:
            return f"interval<int>({values[0]}, {values[-1]}, {values.step})"
        values = list(values)
    if isinstance(values, Iterable):
        plain = [_plain(v) for v in values]
        if not plain:
            raise TuneError(f"the parameter `{name}` has no values")
        return plain
    raise TuneError(f"the values of `{name}` are a range, a collection, or a text, not a `{type(values).__name__}`")


def _space(parameters: Mapping[str, Any], constants: Mapping[str, Any] | None,
           constraints: Iterable[str | Callable[..., bool]]) -> tuple[dict[str, Any], list[tuple[str, list[str], Any]]]:
    """The space as JSON, and its conditions that are functions."""
    if not parameters:
        raise TuneError("there are no parameters to search")
    all_params = {n: p if isinstance(p, Parameter) else Parameter(p, None, None) for n, p in parameters.items()}
    order = list(all_params)
    conditions: list[tuple[str, list[str], Any]] = []
    rows = {n: p._json(n) for n, p in all_params.items()}

    def function(f: Callable[..., bool], own: str | None) -> None:
        reads = list(inspect.signature(f).parameters)
        for r in reads:
            if r not in all_params and r not in (constants or {}):
                raise TuneError(f"a condition reads `{r}`, which is not a parameter")
        mine = [r for r in reads if r in all_params]
        if own is None:
            # It is asked as soon as the last of its parameters has a value.
            own = max(mine, key=order.index) if mine else order[-1]
        conditions.append((own, reads, f))

    for n, p in all_params.items():
        if callable(p.condition):
            function(p.condition, n)
    for c in constraints:
        if callable(c):
            function(c, None)
            continue
        # A text is put to the last parameter that it names.
        named = [n for n in order if _names(c, n)]
        if not named:
            raise TuneError(f"the constraint `{c}` names no parameter")
        row = rows[named[-1]]
        row["constraint"] = f"({row['constraint']}) && ({c})" if "constraint" in row else c
    out: dict[str, Any] = {"tuning_parameters": list(rows.values())}
    if constants:
        out["constants"] = {n: _plain(v) for n, v in constants.items()}
    return out, conditions


def _names(text: str, name: str) -> bool:
    import re

    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) is not None


def count(parameters: Mapping[str, Any], *, constants: Mapping[str, Any] | None = None,
          constraints: Iterable[str | Callable[..., bool]] = ()) -> tuple[int, int]:
    """How many configurations a space has: without its constraints, and with them."""
    space, conditions = _space(parameters, constants, constraints)
    a, b = _lathe.count_space(json.dumps(space), conditions)
    return int(a), int(b)


def tune(cost: Callable[..., Any] | str | Sequence[str], parameters: Mapping[str, Any], *, constants: Mapping[str, Any] | None = None,
         constraints: Iterable[str | Callable[..., bool]] = (), budget: str | float | None = None,
         until: str | None = None, technique: str | None = None, seed: int = 0,
         start: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (), order: str | None = None, key: str | None = None,
         store: str | os.PathLike[str] | bool = True, fresh: bool = False,
         progress: bool | Callable[[Progress], None] = False, folder: str | os.PathLike[str] | None = None,
         compile: str | Sequence[str] | None = None, source: str | os.PathLike[str] | None = None,
         cost_file: str | None = None, runs: int | None = None, negative_costs: bool = False,
         gold: str | os.PathLike[str] | None = None, tolerance: float = 1e-6, result: str | None = None,
         timeout: str | float = "60s", memory: int | None = None, jobs: int | None = None,
         side_by_side: bool = False) -> Tuned:
    """Searches the parameters of anything for the lowest cost.

    ``cost`` is a function that takes the parameters by name and returns what they cost (a number, or several), or a
    command that is run and timed. A function that raises makes the configuration invalid. ``parameters`` has for each
    name a ``range``, a collection, or :func:`param`. ``constraints`` are texts (``A * B <= 1024``) or functions.

    The search ends by ``budget`` (a time), by ``until`` (``"200 evaluations || cost <= 0.5"``), when everything was tried,
    or by Ctrl-C, which keeps the best. Equal seeds and costs give equal searches. With a ``key`` results of a function are
    kept in the store under it, so that a later search goes on where this one ended; results of commands always are.

    For commands (text for the shell, or a list of a program and its arguments): ``compile`` is run before, parameters are
    environment variables, and stand in the text of ``source``; ``cost_file`` is where the program writes its cost, which
    is the median of so many ``runs``, and below zero only with ``negative_costs``; ``gold`` holds the right result, to be
    compared with the output or the file ``result``.
    """
    if not callable(cost) and not isinstance(cost, str):
        raise TuneError(f"what is tuned is a function or a command, not {type(cost).__name__}")
    space, conditions = _space(parameters, constants, constraints)
    rules = _rules(budget, until, technique, seed, fresh, store)
    starts = [dict(start)] if isinstance(start, Mapping) else [dict(s) for s in start]
    starts = [s for s in starts if s]
    if callable(cost):
        function = cost
        constant = dict(constants or {})
        if constant and set(constant) <= set(_accepted(function)):
            def call(c: dict[str, Any]) -> Any:
                return function(**c, **constant)
        else:
            def call(c: dict[str, Any]) -> Any:
                return function(**c)
        where = (key, hashlib.blake2b(key.encode(), digest_size=16).hexdigest()) if key else None
        if where is None:
            rules["store"] = None
        return Tuned(_lathe.tune_function(call, json.dumps(space), conditions, starts, order, rules, where,
                                          _listener(progress)))
    if conditions:
        raise TuneError("conditions of a command's parameters are texts")
    here = Path(folder or ".")
    space |= {"run_script": cost if isinstance(cost, str) else list(cost)}
    if compile is not None:
        space["compile_script"] = compile if isinstance(compile, str) else list(compile)
    if source is not None:
        space["program_source"] = os.fspath(source)
    if cost_file is not None:
        space["cost_file"] = cost_file
    handle, name = tempfile.mkstemp(dir=here, prefix=".lathe-", suffix=".json")
    try:
        with os.fdopen(handle, "w") as f:
            json.dump(space, f)
        correct = (os.fspath(gold), tolerance, result) if gold is not None else None
        limit = seconds(timeout) or 60.0
        found = _lathe.tune_command(name, [], rules, limit, memory, jobs or (os.cpu_count() or 1), side_by_side,
                                    (runs, negative_costs), correct, order, _listener(progress))
    finally:
        os.unlink(name)
    return Tuned(found)


def _accepted(f: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        return []
