"""Derivatives of kernels, which are kernels themselves.

>>> import lathe, numpy as np
>>> loss = lathe.kernel("kernel loss(x: f64[N]) -> (y: f64) { y = sum[i](x[i] * x[i]) }")
>>> lathe.grad(loss)(np.array([1.0, 2.0]))
array([2., 4.])
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from . import _lathe
from ._beside import Host, beside
from ._shapes import bound
from .errors import LatheError
from .kernels import Kernel

__all__ = ["grad", "hessian", "hvp", "jacobian", "jvp", "sparsity", "value_and_grad", "vjp"]

_REALS = ("f16", "bf16", "f32", "f64")
_FLOATS = (*_REALS, "c64", "c128")
_OTHERS = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "index")
Names = str | Iterable[str] | None

# How many products one call computes.
_AT_ONCE = 256


def vjp(kernel: Kernel, wrt: Names = None, of: Names = None, *, value: bool = False, allow_steps: bool = False,
        checkpoints: int | None = None, directions: bool = False) -> Kernel:
    """Reverse mode: the kernel ``(A, …, C_bar, …) -> (A_bar, …)`` of cotangents.

    ``wrt`` names inputs and ``of`` results, all of float types where they are left out. With ``value`` the results come
    first. With ``allow_steps``, ``floor``, ``round`` and conversions to integers count as locally constant; else a result that
    depends on an input through one is refused. With ``checkpoints``, so many states of a loop in time are kept at once, instead of
    values of every iteration, and iterations between them run again. With ``directions``, cotangents have one dimension more,
    the last one: as many products at once, for which the kernel's own values are computed once.

    >>> import lathe, numpy as np
    >>> square = lathe.kernel("kernel square(x: f64[N]) -> (y: f64[N]) { y[i] = x[i] * x[i] }")
    >>> lathe.vjp(square)(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([ 2., 40.])
    >>> lathe.vjp(square, directions=True)(np.array([1.0, 2.0]), np.eye(2))
    array([[2., 0.],
           [0., 4.]])
    """
    return _derived(kernel, "vjp", wrt, of, value, allow_steps, checkpoints, directions)


def jvp(kernel: Kernel, wrt: Names = None, of: Names = None, *, allow_steps: bool = False, directions: bool = False) -> Kernel:
    """Forward mode: the kernel ``(A, …, A_dot, …) -> (C, …, C_dot, …)`` of results and their tangents. ``directions`` are those
    of :func:`vjp`, of tangents."""
    return _derived(kernel, "jvp", wrt, of, False, allow_steps, None, directions)


def hvp(kernel: Kernel, wrt: Names = None, of: Names = None, *, allow_steps: bool = False, directions: bool = False) -> Kernel:
    """Second derivatives times a vector: the kernel ``(A, …, C_bar, …, A_dot, …) -> (A_bar, …, A_bar_dot, …)``. ``directions`` are
    those of :func:`vjp`, of ``A_dot`` and ``A_bar_dot``."""
    return _derived(kernel, "hvp", wrt, of, False, allow_steps, None, directions)


def grad(kernel: Kernel, wrt: Names = None, *, checkpoints: int | None = None) -> Callable[..., Any]:
    """A function that takes what the kernel takes and returns the derivatives of its one number by the inputs ``wrt`` (all
    of float types): an array for one input, a tuple for several. `checkpoints` are those of :func:`vjp`."""
    names, result = _inputs(kernel, wrt, structs=True), _number(kernel)
    derived = vjp(kernel, names, result, checkpoints=checkpoints)

    def gradient(*args: Any, **named: Any) -> Any:
        args = bound(kernel, args, named)
        return derived(*args, beside(args).one(kernel.dtype(result)))

    return _like(gradient, kernel, "The gradient of")


def value_and_grad(kernel: Kernel, wrt: Names = None, *, checkpoints: int | None = None) -> Callable[..., Any]:
    """As :func:`grad`, with the kernel's own number first: ``(value, gradient)``."""
    names, result = _inputs(kernel, wrt, structs=True), _number(kernel)
    derived = vjp(kernel, names, result, value=True, checkpoints=checkpoints)

    def value_and_gradient(*args: Any, **named: Any) -> Any:
        args = bound(kernel, args, named)
        value, *gradients = derived(*args, beside(args).one(kernel.dtype(result)))
        return value, gradients[0] if len(gradients) == 1 else tuple(gradients)

    return _like(value_and_gradient, kernel, "The value and the gradient of")


def hessian(kernel: Kernel, wrt: str | None = None) -> Callable[..., Any]:
    """A function that takes what the kernel takes and returns the second derivatives of its one number by one input, of the
    shape of the input twice: products with the unit vectors, many at once.

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
    _real(kernel, names[0], "Hessian")
    product = _along(hvp, kernel, names, result)
    at = [p[0] for p in kernel.parameters if p[1] != "out"].index(names[0])

    def second(*args: Any, **named: Any) -> Any:
        args = bound(kernel, args, named)
        place = beside(args)
        shape, dtype = tuple(np.shape(args[at])), kernel.dtype(names[0])
        one = place.one(kernel.dtype(result))
        columns = [product(place, *args, one, place.put(seeds)) for seeds in _units(shape, dtype, place)]
        return place.shaped(place.joined(columns), shape + shape) if columns else place.put(np.empty(shape + shape, dtype))

    return _like(second, kernel, "The Hessian of")


def jacobian(kernel: Kernel, wrt: str | None = None, of: str | None = None, *, mode: str | None = None,
             pattern: tuple[Any, Any] | str | None = None, check: bool = True, allow_steps: bool = False) -> Callable[..., Any]:
    """A function that takes what the kernel takes and returns the derivatives of one result by one input, of the shape of the
    result and then that of the input.

    ``mode`` is ``forward`` (a product for each element of the input) or ``reverse`` (one for each element of the result);
    without it, the one with fewer products. Up to 256 products are computed by one call.

    ``pattern`` says which derivatives need not be zero: two lists of equal length, positions in the result and positions in the
    input, both counted in the order of rows. The derivatives at these positions are returned, in the order of the lists. Inputs
    that no result depends on together (or results that share no input) have one product in common; which ones do is found by
    colouring (Curtis, Powell and Reid, "On the Estimation of Sparse Jacobian Matrices"). One more product, with random numbers,
    tells whether derivatives outside of the pattern are zero where the function is called, unless ``check`` is false. With
    ``pattern="static"`` the whole Jacobian is returned, by as few products as the pattern of :func:`sparsity` asks for.

    >>> import lathe, numpy as np
    >>> squares = lathe.kernel("kernel squares(x: f64[N]) -> (y: f64[N]) { y[i] = x[i] * x[i] }")
    >>> lathe.jacobian(squares)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    >>> lathe.jacobian(squares, pattern=([0, 1], [0, 1]))(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    names, results = _by_one(kernel, wrt, of)
    if mode not in (None, "forward", "reverse"):
        raise _lathe.fail("E0917", f"there is no mode {mode!r}", [], "mode='forward', or mode='reverse'")
    find = sparsity(kernel, names[0], results[0], allow_steps=allow_steps) if isinstance(pattern, str) and pattern == "static" else None
    given_pattern = None if pattern is None or find else _Pattern(pattern, mode)
    coloured: dict[int, _Pattern] = {}
    derived: dict[bool, Callable[..., Any]] = {}
    inputs = [p[0] for p in kernel.parameters if p[1] != "out"]
    outputs = [p[0] for p in kernel.parameters if p[1] == "out"]

    def matrix(*args: Any, **named: Any) -> Any:
        args = bound(kernel, args, named)
        place = beside(args, None if pattern is None else "a Jacobian by its pattern is put together on the host")
        x, x_type = tuple(np.shape(args[inputs.index(names[0])])), kernel.dtype(names[0])
        values = kernel(*args)
        y, y_type = tuple(np.shape(values[outputs.index(results[0])] if len(outputs) > 1 else values)), kernel.dtype(results[0])
        rows, columns = math.prod(y), math.prod(x)
        sparse = given_pattern
        if find is not None and (found := find(*args)) is not None:
            if id(found) not in coloured:
                coloured.clear()
                coloured[id(found)] = _Pattern(found, mode)
            sparse = coloured[id(found)]
        forward = sparse.forward if sparse else mode == "forward" or mode is None and columns <= rows
        if forward not in derived:
            derive = jvp if forward else vjp
            derived[forward] = _along(derive, kernel, names, results, allow_steps=allow_steps)
        given, type_ = (x, x_type) if forward else (y, y_type)

        def products(seeds: Any) -> Any:
            """Products with the columns of a matrix, as columns."""
            count = seeds.shape[-1]
            seeds = np.ascontiguousarray(seeds.reshape(*given, count), dtype=type_)
            return place.shaped(derived[forward](place, *args, place.put(seeds)), (rows if forward else columns, count))

        if sparse:
            values = sparse.values(products, kernel.name, rows, columns, check and find is None)
            if find is None:
                return values
            made = np.zeros((rows, columns), dtype=y_type)
            made[sparse.rows, sparse.columns] = values
            return made.reshape(y + x)
        parts = [products(seeds) for seeds in _units(given, type_, place)]
        if not parts or not rows * columns:
            return place.put(np.empty(y + x, dtype=y_type))
        made = place.joined(parts)
        return place.shaped(made if forward else place.turned(made), y + x)

    return _like(matrix, kernel, "The Jacobian of")


def sparsity(kernel: Kernel, wrt: str | None = None, of: str | None = None, *, allow_steps: bool = False) -> Callable[..., Any]:
    """A function that takes what the kernel takes and returns which derivatives of one result by one input need not be zero:
    positions in the result and positions in the input, both counted in the order of rows, as :func:`jacobian` takes them. They
    are those for all values of the floats, and are kept for the next call with the same shapes and integers; do not change them.
    ``None`` where floats decide which branch is taken or which element is read.

    >>> import lathe, numpy as np
    >>> chain = lathe.kernel("kernel chain(x: f64[N]) -> (y: f64[N]) { y[i] = x[i] * x[max(i - 1, 0)] }")
    >>> rows, columns = lathe.sparsity(chain)(np.ones(3))
    >>> rows.tolist(), columns.tolist()
    ([0, 1, 1, 2, 2], [0, 0, 1, 1, 2])
    """
    names, results = _by_one(kernel, wrt, of)
    try:
        depends = _derived(kernel, "sparsity", names, results, False, allow_steps, None, True)
    except LatheError as e:
        if e.code != "E1308":
            raise
        depends = None
    inputs = [p for p in kernel.parameters if p[1] != "out"]
    at = [p[0] for p in inputs].index(names[0])
    floats = [p[2].split("[")[0] in _FLOATS for p in inputs]
    known: dict[Any, Any] = {}

    def pattern(*args: Any, **named: Any) -> Any:
        args = bound(kernel, args, named)
        beside(args, "a pattern is found by the integers among the arguments, on the host")
        if depends is None:
            return None
        arrays = [np.asarray(a) for a in args]
        key = tuple((a.shape, None if is_float else a.tobytes()) for a, is_float in zip(arrays, floats))
        if key not in known:
            rows, columns = [], []
            for first, seeds in enumerate(_units(arrays[at].shape, bool, Host())):
                found = np.asarray(depends(*args, seeds))
                r, c = np.nonzero(found.reshape(-1, found.shape[-1]))
                rows.append(r)
                columns.append(c + first * _AT_ONCE)
            empty = np.empty(0, dtype=np.int64)
            r, c = (np.concatenate(p) if p else empty for p in (rows, columns))
            order = np.lexsort((c, r))
            known.clear()
            known[key] = r[order], c[order]
        return known[key]

    return _like(pattern, kernel, "Which derivatives need not be zero of")


class _Pattern:
    """Which elements of a Jacobian need not be zero, and which share a product."""

    def __init__(self, pattern: Any, mode: str | None) -> None:
        try:
            rows, columns = (np.asarray(list(p)) for p in pattern)
        except (TypeError, ValueError):
            rows, columns = np.zeros(1), np.zeros(1)
        fits = all(p.ndim == 1 and (p.dtype.kind in "iu" or not p.size) for p in (rows, columns)) and rows.size == columns.size
        if not fits or rows.size and min(rows.min(), columns.min()) < 0:
            raise _lathe.fail("E0917", "a pattern is two lists of positions, of equal length: in the result, and in the input", [],
                              "pattern=([0, 1], [0, 1])")
        self.rows, self.columns = rows.astype(np.int64), columns.astype(np.int64)
        if len(set(zip(self.rows.tolist(), self.columns.tolist()))) < rows.size:
            raise _lathe.fail("E0917", "a pattern names each derivative once", [], None)
        by_mode = {forward: _coloured(*((self.columns, self.rows) if forward else (self.rows, self.columns)))
                   for forward in (True, False) if mode is None or forward == (mode == "forward")}
        self.forward = min(by_mode, key=lambda forward: by_mode[forward].max(initial=-1))
        self.colours = by_mode[self.forward]

    def values(self, products: Callable[[Any], Any], name: str, results: int, inputs: int, check: bool) -> Any:
        """The derivatives, by products of the Jacobian (or of its transpose) with vectors."""
        seeds, found, sizes = self.columns, self.rows, (inputs, results)
        if not self.forward:
            seeds, found, sizes = found, seeds, (results, inputs)
        if seeds.size and (seeds.max() >= sizes[0] or found.max() >= sizes[1]):
            raise _lathe.fail("E0917", f"the pattern is larger than the Jacobian of `{name}`, which has {results} rows and {inputs} columns",
                              [], None)
        count = self.colours.max(initial=-1) + 1
        check = check and bool(sizes[0])
        vectors = np.zeros((sizes[0], count + check))
        vectors[seeds, self.colours] = 1
        if check:
            # Distinct numbers: what a wrong pattern mixes up or leaves out changes the product.
            vectors[:, count] = np.random.default_rng(0).uniform(0.5, 1.5, sizes[0])
        if not vectors.size:
            return np.zeros(seeds.size)
        chunks = [vectors[:, n:n + _AT_ONCE] for n in range(0, count + check, _AT_ONCE)]
        whole = np.concatenate([products(c) for c in chunks], axis=-1)
        parts = whole[found, self.colours]
        if check:
            total = whole[:, count]
            seed = vectors[:, count].astype(whole.dtype)
            terms = parts.astype(np.float64) * seed[seeds]
            size = np.bincount(found, abs(terms), sizes[1])
            wrong = abs(np.bincount(found, terms, sizes[1]) - total)
            near = np.sqrt(np.finfo(whole.dtype if whole.dtype.itemsize > 2 else np.float16).eps)
            # What is not finite cannot be compared.
            bad = np.flatnonzero(np.isfinite(wrong) & (wrong > near * (size + size.max(where=np.isfinite(size), initial=0))))
            if bad.size:
                what = "result" if self.forward else "input"
                raise _lathe.fail("E0915", f"`{name}` has derivatives outside of the pattern: element {bad[0]} of the {what} has some",
                                  [], "name all derivatives that need not be zero")
        return parts


def _units(shape: tuple[int, ...], dtype: Any, place: Host) -> Iterable[Any]:
    """The unit vectors of an array's shape, along the last dimension: some at once."""
    size = math.prod(shape)
    step = _AT_ONCE if place.in_parts else max(size, 1)
    for n in range(0, size, step):
        count = min(step, size - n)
        yield np.eye(size, count, -n, dtype=dtype).reshape(*shape, count)


def _coloured(these: Any, those: Any) -> Any:
    """A colour for each element of a pattern: equal for equal `these`, and different for those that meet in one of `those`."""
    begin = np.argsort(these, kind="stable")
    groups = np.split(begin, np.flatnonzero(np.diff(these[begin])) + 1) if these.size else []
    taken: dict[int, int] = {}
    colours = np.empty(these.size, dtype=np.int64)
    # Those that meet most others choose first.
    for group in sorted(groups, key=len, reverse=True):
        met = those[group].tolist()
        used = 0
        for other in met:
            used |= taken.get(other, 0)
        colour = (~used & (used + 1)).bit_length() - 1
        colours[group] = colour
        for other in met:
            taken[other] = taken.get(other, 0) | 1 << colour
    return colours


def _like(f: Callable[..., Any], kernel: Kernel, what: str) -> Callable[..., Any]:
    f.__name__ = f.__qualname__ = f"{f.__name__}_of_{kernel.name}"
    f.__doc__ = f"{what} `{kernel.name}`."
    return f


def _derived(kernel: Kernel, rule: str, wrt: Names, of: Names, value: bool, allow_steps: bool,
             checkpoints: int | None = None, directions: bool = False) -> Kernel:
    if not isinstance(kernel, Kernel):
        raise _lathe.fail("E0917", f"a derivative is one of a kernel, not of {type(kernel).__name__}", [], "lathe.kernel(…)")
    if checkpoints is not None and (isinstance(checkpoints, bool) or not isinstance(checkpoints, int) or not 0 < checkpoints < 1 << 16):
        raise _lathe.fail("E0917", f"checkpoints are a number from 1 to 65535, not {checkpoints!r}", [], "checkpoints=8")
    if kernel.is_tree:
        return _derived_tree(kernel, rule, _names(wrt), _names(of), value, allow_steps, checkpoints, directions)
    options = [f"{word}: ({', '.join(names)})" for word, names in (("wrt", _names(wrt)), ("of", _names(of))) if names is not None]
    options += ["value: true"] * bool(value) + ["allow: steps"] * bool(allow_steps)
    if checkpoints is not None:
        options.append(f"checkpoint: {checkpoints}")
    text, name, size = kernel.source().rstrip(), f"{kernel.name}_{rule}", "K"
    while re.search(rf"\b{re.escape(name)}\b", text):
        name += "_"
    while re.search(rf"\b{size}\b", text):
        size += "_"
    options += [f"directions: {size}"] * bool(directions)
    return Kernel(f"{text}\n\nkernel {name} = {rule}({', '.join([kernel.name, *options])})\n", name)


def _derived_tree(kernel: Kernel, rule: str, wrt: list[str] | None, of: list[str] | None, value: bool, allow_steps: bool,
                  checkpoints: int | None, directions: bool) -> Kernel:
    """Of a kernel of a tree, which has no `kernel d = vjp(f)`."""
    def made(of_: Kernel, rule: str, wrt: list[str], of: list[str], directions: bool) -> Kernel:
        text, name = of_.derived_tree(rule == "jvp", f"{of_.name}_{rule}", wrt=wrt, of=of, value=value, allow_steps=allow_steps,
                                      checkpoints=checkpoints, directions="K" if directions else None)
        return Kernel(text, name)

    if rule == "sparsity":
        raise _lathe.fail("E0917", f"`{kernel.name}` is a function of a tree, whose pattern is not asked for from Python", [],
                          "pattern=(rows, columns) gives one to lathe.jacobian")
    if rule == "hvp":
        wrt = differentiable(kernel) if wrt is None else wrt
        return made(made(kernel, "vjp", wrt, of or [], False), "jvp", wrt, [f"{n}_bar" for n in wrt], directions)
    return made(kernel, rule, wrt or [], of or [], directions)


def _along(derive: Callable[..., Kernel], kernel: Kernel, wrt: Names, of: Names, **how: bool) -> Callable[..., Any]:
    """Products with the columns of the last argument, as columns: by one call, or one by one where a derivative in several
    directions is not shown to write all of its results, as where only one branch of a condition on data does."""
    made = {True: derive(kernel, wrt, of, directions=True, **how)}

    def product(place: Host, directions: bool, *args: Any) -> Any:
        found = made[directions](*args)
        return place.made(found[-1] if isinstance(found, tuple) else found)

    def products(place: Host, *args: Any) -> Any:
        if False not in made:
            try:
                return product(place, True, *args)
            except LatheError as e:
                if e.code != "E0502":
                    raise
                made[False] = derive(kernel, wrt, of, **how)
        *others, seeds = args
        columns = (place.column(seeds, k) for k in range(seeds.shape[-1]))
        return place.stacked([product(place, False, *others, column) for column in columns])

    return products


def _names(names: Names) -> list[str] | None:
    if names is None:
        return None
    names = [names] if isinstance(names, str) else list(names)
    for n in names:
        if not isinstance(n, str) or not n.isidentifier():
            raise _lathe.fail("E0917", f"parameters are given by their names, not by {n!r}", [], "wrt='x', or wrt=('x', 'y')")
    return names


def _by_one(kernel: Kernel, wrt: str | None, of: str | None) -> tuple[list[str], list[str]]:
    """The input and the result of a Jacobian."""
    names = _inputs(kernel, wrt)
    results = differentiable(kernel, "out") if of is None else _names(of) or []
    for what, found in (("input", names), ("result", results)):
        if len(found) != 1:
            raise _lathe.fail("E0917", f"a Jacobian is of one result by one input, and there are {len(found)} {what}s: {', '.join(found)}",
                              [], f"lathe.jacobian(kernel, wrt={names[0]!r}, of=…)" if names else None)
    for name in (names[0], results[0]):
        _real(kernel, name, "Jacobian")
    return names, results


def _real(kernel: Kernel, name: str, what: str) -> None:
    """Refuses what holds no real numbers."""
    for p in kernel.parameters:
        if p[0] == name and (base := p[2].split("[")[0]) not in _REALS:
            raise _lathe.fail("E0915", f"a {what} is one of real numbers, and `{name}` is of {base}", [],
                              "lathe.jvp(kernel) and lathe.vjp(kernel) give products with vectors of such elements")


def _inputs(kernel: Kernel, wrt: Names, structs: bool = False) -> list[str]:
    """The inputs of a gradient."""
    if not isinstance(kernel, Kernel):
        raise _lathe.fail("E0917", f"a derivative is one of a kernel, not of {type(kernel).__name__}", [], "lathe.kernel(…)")
    changed = next((p[0] for p in kernel.parameters if p[1] == "inout"), None)
    if changed is not None:
        raise _lathe.fail("E0915", f"`{kernel.name}` changes its input `{changed}`, and is not a function with a gradient", [],
                          "lathe.vjp(kernel) takes the cotangent of the changed array, and gives that of the first")
    names = _names(wrt)
    known = differentiable(kernel, structs=structs)
    if names is None:
        return known
    # In the order of the inputs, in which they come back.
    return [n for n in known if n in names] + [n for n in names if n not in known]


def differentiable(kernel: Kernel, mode: str = "in", structs: bool = False) -> list[str]:
    """The parameters of float types, and those of structs with floats among them."""
    def floats(dtype: Any) -> bool:
        return any(floats(dtype[n]) for n in dtype.names) if dtype.names else np.issubdtype(dtype, np.inexact) or dtype.name == "bfloat16"

    found = []
    for name, direction, text, *_ in kernel.parameters:
        base = text.split("[")[0]
        if direction == mode and (base in _FLOATS or structs and base not in _OTHERS and floats(kernel.dtype(name))):
            found.append(name)
    return found


def _number(kernel: Kernel) -> str:
    """The result that is differentiated."""
    results = [p for p in kernel.parameters if p[1] == "out"]
    if len(results) != 1 or results[0][2].rstrip("[]") not in _REALS:
        kinds = ", ".join(f"{p[0]}: {p[2]}" for p in results) or "nothing"
        raise _lathe.fail("E0915", f"a gradient is that of one number, and `{kernel.name}` gives {kinds}", [],
                          "lathe.vjp(kernel) takes a cotangent for each result")
    return str(results[0][0])
