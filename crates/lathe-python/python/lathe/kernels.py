"""Kernels: sources that can be called with arrays."""

from __future__ import annotations

import html
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from . import _lathe
from ._written import Written, known
from .errors import LatheError

if TYPE_CHECKING:
    from .strategies import Strategy
    from .tuning import Progress, Tuned

__all__ = ["Compiled", "Explanation", "Kernel", "fun", "kernel", "load"]


class Explanation(str):
    """The steps of a strategy with their evidence; a notebook shows it as a table."""

    _data: dict[str, Any]

    def __new__(cls, text: str, data: dict[str, Any]) -> Explanation:
        self = super().__new__(cls, text)
        self._data = data
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (Explanation, (str(self), self._data))

    @property
    def data(self) -> dict[str, Any]:
        """The same as plain data: versions with their conditions, steps and trees."""
        return self._data

    def _repr_html_(self) -> str:
        out = []
        for v in self._data["versions"]:
            when = f" when <code>{html.escape(v['condition'])}</code>" if v["condition"] else ""
            name = html.escape(self._data["strategy"])
            out.append(f"<h4>{html.escape(self._data['kernel'])}: {name}{when}</h4>")
            out.append("<table><tr><th></th><th>step</th><th>why it is legal</th></tr>")
            for i, s in enumerate(v["steps"], 1):
                args = html.escape(", ".join(s["args"]))
                why = "<br>".join(html.escape(text) for text in v["sentences"][i - 1]) or "nothing to show"
                out.append(f"<tr><td>{i}</td><td style='text-align:left'><code>{html.escape(s['rule'])}({args})</code></td>"
                           f"<td style='text-align:left'>{why}</td></tr>")
            out.append("</table>")
            out.append(f"<details><summary>tree</summary><pre>{html.escape(v['tree'])}</pre></details>")
        return "".join(out)


class Compiled:
    """What a kernel was compiled as."""

    __slots__ = ("assumptions", "from_cache", "params", "source", "strategy")

    def __init__(self, strategy: str, source: str, params: dict[str, str], assumptions: list[str],
                 from_cache: bool) -> None:
        #: The strategy's name.
        self.strategy = strategy
        #: Why it was taken: ``requested``, ``stored``, ``fast``, ``auto`` or ``naive``.
        self.source = source
        #: Its parameters.
        self.params = params
        #: Facts that were stated and not proved.
        self.assumptions = assumptions
        #: Whether an earlier process had compiled it.
        self.from_cache = from_cache

    def __repr__(self) -> str:
        params = ", ".join(f"{n}={v}" for n, v in self.params.items())
        return f"<compiled: {self.strategy}({params}), {self.source}{', from the cache' if self.from_cache else ''}>"


class Kernel(_lathe.Kernel):
    """A kernel that can be called with arrays.

    ``kernel(A, B, out=None, strategy=None, params=None, threads=None, copy=False, specialize=None, timeout=None,
    debug=False)``

    Inputs are given in their order or by name; results are returned, or written to ``out`` (a tuple where there are
    several). Arrays are used where they lie, whatever their strides. An input that cannot be used so (of the byte order
    of other machines, misaligned, a list) is copied only with ``copy=True``, and a :class:`CopyWarning` says so; nothing
    is ever converted to another type. The interpreter's lock is released while the kernel runs; signals are handled all
    the same, and Ctrl-C ends the call, as does its ``timeout`` in seconds (:class:`TimeLimitError`). What the kernel had
    written until then is unspecified.

    The first call compiles, or takes what an earlier process left in the cache.
    """

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

    def compile(self, *arrays: Any, strategy: str | Strategy | None = None, params: Mapping[str, Any] | None = None,
                specialize: Mapping[str, int] | None = None, threads: int | None = None) -> Compiled:
        """Compiles without a call: for any sizes, or what a call with these arrays would run."""
        if arrays:
            return Compiled(*self.compile_call(*arrays, threads=threads, **_how(strategy, params, specialize)))
        return Compiled(*self.compile_(_how(strategy, params, specialize)))

    def explain(self, *, strategy: str | Strategy | None = None, params: Mapping[str, Any] | None = None,
                specialize: Mapping[str, int] | None = None, diff: bool = False) -> Explanation:
        """Every step of a strategy with its evidence; with ``diff`` also what it changed in the tree."""
        how = _how(strategy, params, specialize)
        return Explanation(self.explain_(how, diff), json.loads(self.explain_json(how)))

    def emit(self, form: str, path: str | os.PathLike[str] | None = None, *, strategy: str | Strategy | None = None,
             params: Mapping[str, Any] | None = None, specialize: Mapping[str, int] | None = None,
             cpu: str | None = None) -> str | bytes | Path:
        """Code to read, to link and to ship.

        ``form`` is ``tree``, ``llvm``, ``asm``, ``c``, ``header`` or ``object``. Without a path the code is returned, an
        object as bytes; with one it is written there, with a C header beside it for ``object`` and ``c``.
        """
        how = _how(strategy, params, specialize)
        code = self.emit_(form, how, cpu)
        if path is None:
            return code if form == "object" else code.decode()
        path = Path(path)
        try:
            _write(path, code)
            if form in ("object", "c"):
                _write(path.with_suffix(".h"), self.emit_("header", how, cpu))
        except OSError as e:
            raise _file_error("E0919", f"cannot write `{path}`", e) from e
        return path

    def tune(self, *arrays: Any, sizes: Mapping[str, int] | None = None, strategy: str | Strategy | None = None,
             params: Mapping[str, Any] | None = None, budget: str | float | None = "60s", until: str | None = None,
             technique: str | None = None, threads: int | None = None, seed: int = 0, fresh: bool = False,
             specialize: bool = False, data: bool = False, store: str | os.PathLike[str] | bool = True,
             progress: bool | Callable[[Progress], None] = False, device: str | None = None) -> Tuned:
        """Searches the parameters of a strategy for the sizes of these arrays, and stores the winner.

        Later calls of a kernel with the same source, sizes and threads use it, in this process and in others. Sizes may
        be given by name instead of by arrays. Each configuration is measured in a process of its own with data that are
        made up, or with ``data=True`` with these arrays (the winner then counts for these data only). Ctrl-C ends the
        search and keeps the best.

        Of arrays on a CUDA device, or with ``device`` (``"cuda:1"``, ``"opencl"``), configurations run there, with these sizes
        compiled in; their times are those of the device's clock, without copies, and the winner is for devices of this name.
        """
        from .tuning import tune_kernel

        return tune_kernel(self, arrays, sizes=sizes, strategy=strategy, params=params, budget=budget, until=until,
                           technique=technique, threads=threads, seed=seed, fresh=fresh, specialize=specialize,
                           data=data, store=store, progress=progress, device=device)

    def with_(self, *definitions: Any) -> Kernel:
        """The kernel with further definitions: strategies made by :func:`lathe.strategy`, or texts."""
        for d in definitions:
            if not isinstance(d, str) and not hasattr(d, "source"):
                raise _lathe.fail("E0917", f"a definition is a text or a strategy, not {type(d).__name__}", [], None)
        texts = [d if isinstance(d, str) else d.source() for d in definitions]
        return _restored("\n".join([self.source().rstrip(), "", *texts, ""]), self.name, self.defaults)

    def with_derivative(self, *rules: Any) -> Kernel:
        """The kernel with derivatives of the user's: kernels, texts or functions that compute what ``vjp`` or ``jvp`` of it does,
        with the parameters of that by name. Each is compared with the automatic derivative on small random arrays, where
        there is one. Derivatives of every kind, also those of operators of PyTorch and JAX, use it.

        >>> import lathe, numpy as np
        >>> rounded = lathe.kernel("kernel rounded(x: f64[N]) -> (y: f64[N]) { y[i] = round(x[i]) }")
        >>> through = lathe.kernel("kernel through(x: f64[N], y_bar: f64[N]) -> (x_bar: f64[N]) { x_bar[i] = y_bar[i] }")
        >>> lathe.vjp(rounded.with_derivative(through))(np.array([0.2, 1.7]), np.array([3.0, 4.0]))
        array([3., 4.])
        """
        text = self.source().rstrip()
        for r in rules:
            rule = r if isinstance(r, Kernel) else kernel(r)
            own = rule.source().strip()
            # Kernels of one text have the same.
            text += "" if own in text else f"\n\n{own}"
            text += f"\n\nderivative {self.name} = {rule.name}"
        made = _restored(text + "\n", self.name, self.defaults)
        for attribute in ("__doc__", "__name__", "__qualname__", "__module__", "__wrapped__"):
            if attribute in self.__dict__:
                setattr(made, attribute, self.__dict__[attribute])
        return made

    def typed(self, **types: Any) -> Kernel:
        """The kernel for these element types, of one that is generic in them: ``kernel.typed(T=lathe.f64)``.

        A call chooses by its arrays; to compile, explain, tune or emit another choice than the usual one, it is named.
        """
        name = self.choice({n: str(getattr(t, "name", t)) for n, t in types.items()})
        return _restored(self.source(), name, self.defaults)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (self.source(), self.name, self.defaults))

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td><code>{html.escape(n)}</code></td><td>{m}</td><td><code>{html.escape(t)}</code></td></tr>"
                       for n, m, t in self.parameters)
        names = ", ".join(f"<code>{html.escape(n)}({', '.join(p)})</code>" for n, p in self.strategies())
        return (f"<h4>kernel {html.escape(self.name)}</h4><table>{rows}</table><p>strategies: {names}</p>"
                f"<details><summary>source</summary><pre>{html.escape(self.source())}</pre></details>")


def _restored(source: str, name: str, defaults: dict[str, Any]) -> Kernel:
    """A kernel with the numbers that its calls may leave out."""
    made = Kernel(source, name)
    if defaults:
        made.set_defaults(defaults)
    return made


def _how(strategy: Any, params: Mapping[str, Any] | None, specialize: Mapping[str, int] | None) -> dict[str, Any]:
    """What a look at a kernel asks for."""
    return {"strategy": strategy, "params": None if params is None else dict(params),
            "specialize": None if specialize is None else dict(specialize)}


def _file_error(code: str, what: str, e: OSError | UnicodeError) -> Exception:
    """The exception for a file that cannot be used; it has the number that the system's own has."""
    error = _lathe.fail(code, f"{what}: {getattr(e, 'strerror', None) or e}", [], None)
    if isinstance(error, OSError) and isinstance(e, OSError):
        error.errno, error.filename = e.errno, e.filename
    return error


def _write(path: Path, code: bytes) -> None:
    """Writes a file as a whole: an old one stays whole if that fails."""
    handle, name = tempfile.mkstemp(dir=path.parent or Path(), prefix=".lathe-")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(code)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


@overload
def kernel(source: str, name: str | None = None) -> Kernel: ...
@overload
def kernel(source: Callable[..., Any], name: str | None = None) -> Kernel: ...


def kernel(source: str | Callable[..., Any], name: str | None = None) -> Kernel:
    """A kernel from a text in the language of ``.lathe`` files or in the notation of homomorphisms (``.mdh``), or, as a
    decorator, from a Python function.

    >>> import lathe, numpy as np
    >>> scale = lathe.kernel("kernel scale(a: f32, x: f32[N]) -> (y: f32[N]) { y[i] = a * x[i] }")
    >>> scale(2, np.arange(3, dtype=np.float32))
    array([0., 2., 4.], dtype=float32)
    """
    if isinstance(source, str):
        return _made(source, name, None)
    from .frontend import source_of

    return _decorated(source, source_of, name)


def _made(text: Any, name: Any, path: Path | None) -> Kernel:
    if name is not None and not isinstance(name, str):
        raise _lathe.fail("E0917", f"the name of a kernel is a text, not {type(name).__name__}", [], None)
    return Kernel(text, name) if path is None else Kernel(text, name, file=path)


def _decorated(f: Any, read: Callable[..., Written], name: str | None) -> Kernel:
    """A kernel of a Python function, that looks like it."""
    if not callable(f) or not hasattr(f, "__code__"):
        what = "a text in Lathe's language, or a Python function"
        raise _lathe.fail("E0917", f"a kernel is made of {what}, not of {type(f).__name__}", [], None)
    written = read(f)
    made = Kernel(written.text, name or f.__name__, file=known(written))
    defaults = {}
    names = [p[0] for p in made.parameters]
    for parameter, (value, misfit) in written.defaults.items():
        try:
            made.check_number(names.index(parameter), value)
        except LatheError as e:
            raise misfit(e.message) from None
        defaults[parameter] = value
    if defaults:
        made.set_defaults(defaults)
    for attribute in ("__doc__", "__name__", "__qualname__", "__module__"):
        setattr(made, attribute, getattr(f, attribute, None))
    # Shows its signature, and leads to what it was made of.
    made.__wrapped__ = f
    return made


def fun(source: str | Callable[..., Any], name: str | None = None) -> Kernel:
    """A functional pattern as a kernel: from a text, or, as a decorator, from a Python function.

    In a function ``xs | f`` hands data on, ``f >> g`` composes, and ``pair(lambda x, y: ...)`` takes a pair apart.

    >>> import lathe
    >>> @lathe.fun
    ... def dot(xs: lathe.f32["K"], ys: lathe.f32["K"]) -> lathe.f32:
    ...     return zip(xs, ys) | map(pair(lambda x, y: x * y)) | reduce(add, 0)
    >>> print(dot.source())
    fun dot(xs: f32[K], ys: f32[K]) -> f32 =
        zip(xs, ys) |> map(|(x, y)| x * y) |> reduce(add, 0)
    <BLANKLINE>
    """
    if isinstance(source, str):
        return _made(source, name, None)
    from .frontend import fun_source_of

    return _decorated(source, fun_source_of, name)


def load(path: str | os.PathLike[str], name: str | None = None) -> Kernel:
    """A kernel of a ``.lathe`` or ``.mdh`` file; ``name`` says which one, if there are several."""
    if not isinstance(path, (str, os.PathLike)):
        raise _lathe.fail("E0917", f"a file is named by a text or a path, not by {type(path).__name__}", [], None)
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as e:
        raise _file_error("E0901", f"cannot read `{path}`", e) from e
    return _made(text, name, path)


def _worker() -> list[str]:
    """The command that measures kernels."""
    return [sys.executable, "-c", "import lathe._worker"]
