"""numpy.einsum's notation, computed by kernels.

The operands are contracted in pairs, in an order that is searched for. Each pair becomes a product of matrices where it
is one (dimensions that lie behind each other in memory are one dimension), else a kernel of its own. Kernels are made
once for each form of contraction, not for its sizes.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ._notation import Labels, parse
from ._order import pairs as pairs_of
from .kernels import Kernel

__all__ = ["einsum", "einsum_path"]

#: The types of numpy that kernels have, and the type that products of them are added up in.
_TYPES = {"float32": "f32", "float64": "f64", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
          "uint16": "u16", "uint32": "u32", "uint64": "u64"}


# One operand: diagonals, dimensions of one element, sums.


class _Term:
    """An operand with a label for each dimension, no label twice."""

    __slots__ = ("array", "labels")

    def __init__(self, array: np.ndarray, labels: Labels) -> None:
        self.array, self.labels = array, labels


def _diagonal(a: np.ndarray, labels: Labels, sizes: dict[int, int]) -> _Term:
    """An operand whose labels are distinct: repeated ones become a diagonal, and what is spread out is left out."""
    shape, strides, out = [], [], []
    for x in dict.fromkeys(labels):
        at = [d for d, y in enumerate(labels) if y == x]
        long = [d for d in at if a.shape[d] == sizes[x]]
        if len(long) < len(at) and any(a.shape[d] != 1 for d in at if d not in long):
            raise ValueError(_mismatch(x, [a.shape[d] for d in at]))
        if not long:
            # One element, used for all.
            continue
        out.append(x)
        shape.append(sizes[x])
        strides.append(sum(a.strides[d] for d in long))
    if tuple(out) == labels:
        return _Term(a, labels)
    view = np.lib.stride_tricks.as_strided(a, shape, strides, writeable=a.flags.writeable)
    return _Term(view, tuple(out))


def _mismatch(label: int, sizes: Iterable[int]) -> str:
    name = f"`{chr(label)}`" if label > 0 else "of the ellipsis"
    return f"einsum: the label {name} has the sizes {' and '.join(map(str, sorted(set(sizes))))}"


def _sizes(inputs: list[Labels], operands: list[np.ndarray]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for labels, a in zip(inputs, operands):
        for x, n in zip(labels, a.shape):
            old = sizes.setdefault(x, n)
            if old != n:
                if 1 not in (old, n):
                    raise ValueError(_mismatch(x, (old, n)))
                sizes[x] = n if old == 1 else old
    return sizes


# Kernels.

#: Products of matrices: panels of both are packed, a tile of the result stays in registers (BLIS). `A` and `B` lie in
#: either order. One product is split among the threads by rows, several by products.
_PRODUCT = """
kernel product(A: {t}[{a}], B: {t}[{b}]) -> (C: {t}[{c}]) {{
    C[{ci}] = sum[k](A[{ai}] * B[{bi}])
}}
strategy fast(nc = 1024 in 256..=4096 step 256, kc = 512 in 128..=512 step 64, mc = 64 in 16..=256 step 16) for product =
    fission(C.init) ; vectorize(C.init.j, {w}, tail: separate) ;
    split(C.j, nc) ; split(C.k, kc) ; split(C.i, mc) ; split(C.j.i, {w2}) ; split(C.i.i, 8) ;
    reorder(C.j.o, C.k.o, C.i.o, C.j.i.o, C.i.i.o, C.k.i, C.i.i.i, C.j.i.i) ;
    stage(B, at: C.k.o, layout: tile({bj}, {w2}), layout: permute({bp}), pad: true) ;
    stage(A, at: C.i.o, layout: tile({ad}, 8), layout: permute({ap}), pad: true) ;
    stage(C, at: C.i.i.o, space: register, pad: true) ;
    pad(C.i.i.i) ; pad(C.j.i.i) ;
    vectorize(C.j.i.i, {w}) ; unroll(C.i.i.i) ; unroll(C.j.i.i.o) ; contract(C) ;
    vectorize(copy(C).{c1}, {w}) ; unroll(copy(C).{c0}) ; unroll(copy(C).{c1}.o) ;
    vectorize(copy(C).out.{c1}, {w}) ; unroll(copy(C).out.{c0}) ; unroll(copy(C).out.{c1}.o) ;
    {copies} ; parallel({threads})
"""


@functools.lru_cache(maxsize=None)
def _product(kind: str, a_turned: bool, b_turned: bool, several: bool) -> Kernel:
    w = 16 if kind == "f32" else 8
    o = 1 if several else 0
    lead, at = ("Z, ", "z, ") if several else ("", "")

    def permuted(*dims: int) -> str:
        return ", ".join(map(str, [*range(o), *(d + o for d in dims)]))

    along = "vectorize(copy({0}).{c1}, {w}, tail: separate)"
    across = ("split(copy({0}).{c0}, 8) ; separate(copy({0}).{c0}.o) ; vectorize(copy({0}).{c1}, {w}, tail: separate) ; "
              "reorder(copy({0}).{c0}.o, copy({0}).{c1}.o, copy({0}).{c1}.i, copy({0}).{c0}.i) ; "
              "unroll(copy({0}).{c0}.i)")
    c = {"c0": o, "c1": o + 1, "w": w}
    copies = " ; ".join([(along if not b_turned else across).format("B", **c),
                         (across if not a_turned else along).format("A", **c)])
    text = _PRODUCT.format(
        t=kind, w2=2 * w, copies=copies, threads="C.z" if several else "C.i.o", **c,
        a=lead + ("K, M" if a_turned else "M, K"), ai=at + ("k, i" if a_turned else "i, k"),
        ad=o + (1 if a_turned else 0), ap=permuted(1, 0, 2) if a_turned else permuted(0, 2, 1),
        b=lead + ("N, K" if b_turned else "K, N"), bi=at + ("j, k" if b_turned else "k, j"),
        bj=o + (0 if b_turned else 1), bp=permuted(0, 2, 1) if b_turned else permuted(1, 0, 2),
        **{"c": lead + "M, N", "ci": at + "i, j"})
    return Kernel(text)


@functools.lru_cache(maxsize=None)
def _general(kind: str, inputs: tuple[Labels, ...], output: Labels) -> Kernel:
    """Index notation as it stands; sizes are named after labels."""
    names: dict[int, str] = {}
    for labels in inputs:
        for x in labels:
            names.setdefault(x, f"i{len(names)}")
    params = ", ".join(f"A{n}: {kind}[{', '.join(names[x].upper() for x in labels)}]" if labels else f"A{n}: {kind}"
                       for n, labels in enumerate(inputs))
    product = " * ".join(f"A{n}[{', '.join(names[x] for x in labels)}]" if labels else f"A{n}"
                         for n, labels in enumerate(inputs))
    summed = [names[x] for x in names if x not in output]
    value = f"sum[{', '.join(summed)}]({product})" if summed else product
    shape = f"[{', '.join(names[x].upper() for x in output)}]" if output else ""
    at = f"[{', '.join(names[x] for x in output)}]" if output else ""
    text = f"kernel einsum({params}) -> (C: {kind}{shape}) {{\n    C{at} = {value}\n}}\n"
    return Kernel(text + _loops(kind, [[names[x] for x in labels] for labels in inputs], [names[x] for x in output], summed))


def _loops(kind: str, inputs: list[list[str]], out: list[str], summed: list[str]) -> str:
    """A strategy for the general form. What a form does not have the first way, it has the second."""
    if kind not in ("f32", "f64") or not (out or summed):
        return ""
    w = 16 if kind == "f32" else 8
    plain = []
    if out:
        if summed:
            plain.append(f"try(fission(C.init)) ; try(vectorize(C.init.{out[-1]}, {w}, tail: separate))")
        plain.append(f"try(vectorize(C.{out[-1]}, {w}, tail: separate))")
        if len(out) > 1:
            plain.append(f"try(parallel(C.{out[0]}))")
    largest = max(inputs, key=len)
    best: list[str] = []
    if not summed and len(out) == 1:
        x = out[0]
        best = [f"split({x}, 16384) ; vectorize({x}.i, {w}, tail: separate) ; parallel({x}.o)"]
    elif len(summed) == 1 and not out:
        # Blocks go to the threads; in a block many partial sums hide the latency of the additions.
        k = summed[0]
        best = [f"split({k}, 65536) ; privatize(C, {k}.o, name: part) ; split({k}.i, {4 * w}) ; factor(part, {k}.i.i)",
                f"parallel({k}.o) ; separate({k}.i.o) ; vectorize({k}.i.i, {w}) ; unroll({k}.i.i.o) ; try(contract(C))"]
    elif len(summed) == 1 and largest and largest[-1] == summed[0]:
        # Rows: four share each part of the vector, each has partial sums two vectors wide.
        i, k = out[-1], summed[0]
        threads = f"parallel({i}.o)" if len(out) == 1 else f"parallel({out[0]})"
        n = len(out)
        lanes = ", ".join(map(str, [*range(n - 1), n, n - 1]))
        best = [f"split({i}, 64) ; split({i}.i, 4) ; separate({i}.i.o) ; reorder({i}.i.i, {k}) ; split({k}, {2 * w})",
                f"reorder({k}.o, {i}.i.i, {k}.i) ; factor(C, {k}.i, at: {k}.o) ; "
                f"set_layout(C.p, permute({lanes}))",
                f"separate({k}.o) ; vectorize({k}.i, {w}) ; unroll({i}.i.i) ; unroll({k}.i.o) ; try(contract(C)) ; {threads}"]
    elif len(summed) == 1 and largest and largest[-1] == out[-1]:
        # Columns: a block of the result stays in the cache while the rows run through.
        j, k = out[-1], summed[0]
        threads = f"parallel(C.{j}.o)" if len(out) == 1 else f"parallel(C.{out[0]})"
        best = [f"fission(C.init) ; vectorize(C.init.{j}, {w}, tail: separate) ; split(C.{j}, 512)",
                f"reorder(C.{j}.o, C.{k}, C.{j}.i) ; vectorize(C.{j}.i, {w}, tail: separate) ; try(contract(C)) ; {threads}"]
    ways = ["(" + " ; ".join(way) + ")" for way in (best, plain) if way]
    return f"strategy fast for einsum =\n    {' <+ '.join(ways)}\n" if ways else ""


# Contractions.


def _strided(a: np.ndarray, labels: Labels, order: Sequence[int]) -> tuple[int, int] | None:
    """Extent and stride of the dimensions of these labels as one, if they lie behind each other."""
    extent, stride = 1, a.itemsize
    for x in reversed(order):
        d = labels.index(x)
        n, s = a.shape[d], a.strides[d]
        if n == 1:
            continue
        if extent > 1 and s != extent * stride:
            return None
        if extent == 1:
            stride = s
        extent *= n
    return extent, stride


def _by_stride(t: _Term, labels: Iterable[int]) -> list[int]:
    return sorted(labels, key=lambda x: -abs(t.array.strides[t.labels.index(x)]))


def _turned(t: _Term, order: Sequence[int]) -> _Term:
    """A copy with its dimensions in this order."""
    a = t.array.transpose([t.labels.index(x) for x in order])
    return _Term(np.ascontiguousarray(a), tuple(order))


def _matrix(t: _Term, rows: Sequence[int], columns: Sequence[int], rest: Sequence[int]) -> tuple[np.ndarray, bool] | None:
    """The operand with two groups of labels as two dimensions after the rest, and whether the columns come first; one of
    the two is dense. None if a group is not one dimension in memory."""
    r, c = _strided(t.array, t.labels, rows), _strided(t.array, t.labels, columns)
    if r is None or c is None:
        return None
    size = t.array.itemsize
    shape = [t.array.shape[t.labels.index(x)] for x in rest]
    strides = [t.array.strides[t.labels.index(x)] for x in rest]
    if c[1] == size or c[0] == 1:
        first, second, turned = r, c, False
    elif r[1] == size or r[0] == 1:
        first, second, turned = c, r, True
    else:
        return None
    second = (second[0], size if second[0] == 1 else second[1])
    view = np.lib.stride_tricks.as_strided(t.array, [*shape, first[0], second[0]], [*strides, first[1], second[1]],
                                           writeable=False)
    return view, turned


def _merged(a: np.ndarray) -> np.ndarray:
    """The array with all dimensions but the last two as one."""
    if a.ndim == 3:
        return a
    one = _strided(a, tuple(range(a.ndim)), range(a.ndim - 2))
    if one is None:
        return np.ascontiguousarray(a).reshape(-1, *a.shape[-2:])
    return np.lib.stride_tricks.as_strided(a, [one[0], *a.shape[-2:]], [one[1], *a.strides[-2:]], writeable=False)


def _pair(x: _Term, y: _Term, keep: frozenset[int], kind: str, order: Sequence[int] | None, threads: int | None) -> _Term:
    """Contracts two operands. `order` is the order of the result's labels where it matters."""
    shared = [s for s in x.labels if s in y.labels]
    summed = [s for s in shared if s not in keep]
    batch = [s for s in shared if s in keep]
    rows = [s for s in x.labels if s not in y.labels]
    columns = [s for s in y.labels if s not in x.labels]
    options = {} if threads is None else {"threads": threads}
    if summed and rows and columns and kind in ("f32", "f64"):
        done = _as_product(x, y, batch, rows, columns, summed, kind, order, options)
        if done is not None:
            return done
    labels = tuple([*batch, *rows, *columns])
    if order is not None and not summed:
        # What the result's elements are computed from is read once, so they are written in their order.
        labels = tuple(order)
    elif summed and columns and not rows:
        labels = tuple([*batch, *_by_stride(y, columns)])
    return _computed([x, y], labels, kind, options)


def _fused(terms: list[_Term], output: Sequence[int]) -> tuple[list[_Term], list[int], dict[int, tuple[int, ...]]]:
    """Operands in which labels that always stand behind each other in memory are one. Also the result's labels, and the
    extents that each of them stands for."""
    terms, labels = list(terms), list(output)
    extents: dict[int, tuple[int, ...]] = {}
    for t in terms:
        extents |= {x: (n,) for x, n in zip(t.labels, t.array.shape)}
    again = True
    while again:
        again = False
        for a, b in [(p, q) for t in terms for p, q in itertools.permutations(t.labels, 2)]:
            having = [t for t in terms if a in t.labels or b in t.labels]
            if any(a not in t.labels or b not in t.labels for t in having) or (a in labels) != (b in labels):
                continue
            if a in labels and labels.index(b) != labels.index(a) + 1:
                continue
            if any(_strided(t.array, t.labels, (a, b)) is None for t in having):
                continue
            for t in having:
                n = terms.index(t)
                merged = _strided(t.array, t.labels, (a, b))
                assert merged is not None
                keep = [d for d, x in enumerate(t.labels) if x != b]
                shape = [merged[0] if t.labels[d] == a else t.array.shape[d] for d in keep]
                strides = [merged[1] if t.labels[d] == a else t.array.strides[d] for d in keep]
                view = np.lib.stride_tricks.as_strided(t.array, shape, strides, writeable=False)
                terms[n] = _Term(view, tuple(t.labels[d] for d in keep))
            extents[a] += extents.pop(b)
            if b in labels:
                labels.remove(b)
            again = True
            break
    # The longest stride comes first.
    terms = [_Term(t.array.transpose([t.labels.index(x) for x in order]), tuple(order))
             for t in terms for order in [_by_stride(t, t.labels)]]
    return terms, labels, extents


def _computed(terms: list[_Term], output: Sequence[int], kind: str, options: dict[str, Any]) -> _Term:
    """By a kernel of the general form."""
    fused, labels, extents = _fused(terms, output)
    numbered = {s: n for n, s in enumerate(dict.fromkeys(x for t in fused for x in t.labels))}
    forms = tuple(tuple(numbered[s] for s in t.labels) for t in fused)
    kernel = _general(kind, forms, tuple(numbered[s] for s in labels))
    out = np.asarray(kernel(*[t.array if t.labels else t.array[()] for t in fused], **options))
    return _Term(out.reshape([n for x in labels for n in extents[x]]), tuple(output))


def _as_product(x: _Term, y: _Term, batch: list[int], rows: list[int], columns: list[int], summed: list[int], kind: str,
                order: Sequence[int] | None, options: dict[str, Any]) -> _Term | None:
    """As products of matrices, one for each element of the batch."""
    if order is not None:
        at = {s: n for n, s in enumerate(order)}
        # The operand with the result's last label gives the columns.
        if at[order[-1]] != max(at[s] for s in columns) and order[-1] in rows:
            x, y, rows, columns = y, x, columns, rows
    rows, columns = _by_stride(x, rows), _by_stride(y, columns)
    for t in (x, y):
        inner = _by_stride(t, summed)
        a, b = _matrix(x, rows, inner, batch), _matrix(y, inner, columns, batch)
        if a is not None and b is not None:
            break
    else:
        inner = _by_stride(x, summed)
        if (a := _matrix(x, rows, inner, batch)) is None:
            x = _turned(x, [*batch, *rows, *inner])
            a = _matrix(x, rows, inner, batch)
        if (b := _matrix(y, inner, columns, batch)) is None:
            y = _turned(y, [*batch, *inner, *columns])
            b = _matrix(y, inner, columns, batch)
    if a is None or b is None:
        return None
    (left, a_turned), (right, b_turned) = a, b
    shape = [x.array.shape[x.labels.index(s)] for s in [*batch, *rows]]
    shape += [y.array.shape[y.labels.index(s)] for s in columns]
    labels = tuple([*batch, *rows, *columns])
    result = np.empty(shape, x.array.dtype)
    if result.size:
        m, n = math.prod(shape[len(batch):len(batch) + len(rows)]), math.prod(shape[len(batch) + len(rows):])
        many = math.prod(shape[:len(batch)])
        if many == 1:
            _product(kind, a_turned, b_turned, False)(left.reshape(left.shape[-2:]), right.reshape(right.shape[-2:]),
                                                      out=result.reshape(m, n), **options)
        else:
            kernel = _product(kind, a_turned, b_turned, True)
            kernel(_merged(left), _merged(right), out=result.reshape(many, m, n), **options)
    return _Term(result, labels)


def _alone(t: _Term, labels: Sequence[int], kind: str, threads: int | None) -> _Term:
    """Sums over what is not kept."""
    kept = tuple(x for x in labels if x in t.labels)
    if set(kept) == set(t.labels):
        return _Term(t.array.transpose([t.labels.index(x) for x in kept]), kept)
    lying = tuple(x for x in _by_stride(t, t.labels) if x in kept)
    return _computed([t], lying, kind, {} if threads is None else {"threads": threads})


def einsum(*args: Any, out: np.ndarray | None = None, dtype: Any = None, order: Any = "K", casting: Any = "safe",
           optimize: Any = True, threads: int | None = None) -> Any:
    """Sums of products by labels, in all forms that ``numpy.einsum`` reads.

    >>> import lathe, numpy as np
    >>> a, b = np.ones((2, 3, 4), np.float32), np.ones((2, 4, 5), np.float32)
    >>> lathe.einsum("bij,bjk->bik", a, b).shape
    (2, 3, 5)

    Operands of several types are converted to their common type, as numpy does. Complex numbers and objects are
    computed by numpy itself. A result that is only another view of the operand is a view here, too. ``optimize`` is
    accepted for numpy's sake: the order of contractions is always searched, unless a path is given as a list of pairs.
    """
    inputs, output, operands = parse(args)
    common = np.result_type(*operands) if dtype is None else np.dtype(dtype)
    name = common.name
    small = name in ("float16", "bfloat16")
    if name not in _TYPES and not small:
        return np.einsum(*args, out=out, dtype=dtype, order=order, casting=casting, optimize=bool(optimize))
    for a in operands:
        if not np.can_cast(a.dtype, common, casting):
            raise TypeError(f"einsum: {a.dtype} is not cast to {common} by the rule '{casting}'")
    # Sums of small floats are added up in single precision.
    work = np.dtype(np.float32) if small else common
    kind = _TYPES[work.name]
    sizes = _sizes(inputs, operands)
    if len(inputs) == 1 and out is None and work == operands[0].dtype == common:
        t = _diagonal(operands[0], inputs[0], sizes)
        if set(t.labels) == set(output):
            view = t.array.transpose([t.labels.index(x) for x in output])
            view.flags.writeable = operands[0].flags.writeable
            return view if view.ndim else view[()]
    terms = []
    for a, labels in zip(operands, inputs):
        if a.dtype != work or not a.dtype.isnative or not a.flags.aligned or any(s % a.itemsize for s in a.strides):
            a = a.astype(work)
        terms.append(_diagonal(a, labels, sizes))
    if out is not None and tuple(sizes[x] for x in output) != out.shape:
        raise ValueError(f"einsum: `out` has the shape {out.shape}, the result {tuple(sizes[x] for x in output)}")
    result = _contract(terms, output, sizes, kind, optimize, threads)
    # Labels that only dimensions of one element have.
    if result.labels != output:
        missing = [x for x in output if x not in result.labels]
        array = result.array.reshape(result.array.shape + (1,) * len(missing))
        labels = result.labels + tuple(missing)
        array = array.transpose([labels.index(x) for x in output])
        result = _Term(np.broadcast_to(array, [sizes[x] for x in output]) if missing else array, output)
    array = result.array
    if out is not None:
        np.copyto(out, array, casting=casting)
        return out
    if array.dtype != common:
        array = array.astype(common)
    if order in ("C", "F"):
        array = np.asarray(array, order=order)
    if not array.ndim:
        return array[()]
    return array if array.flags.writeable else array.copy()


def _contract(terms: list[_Term], output: Labels, sizes: dict[int, int], kind: str, optimize: Any,
              threads: int | None) -> _Term:
    wanted = frozenset(output)

    def summed(t: _Term, rest: frozenset[int]) -> _Term:
        """Without the labels that nothing else has."""
        if any(x not in rest for x in t.labels):
            return _alone(t, [x for x in t.labels if x in rest], kind, threads)
        return t

    pairs = _given(optimize, len(terms))
    if pairs is None:
        pairs = pairs_of([frozenset(t.labels) for t in terms], wanted, sizes)
    for step, (i, j) in enumerate(pairs):
        others = [t for k, t in enumerate(terms) if k not in (i, j)]
        rest = wanted.union(*(t.labels for t in others))
        x = summed(terms[i], rest | frozenset(terms[j].labels))
        y = summed(terms[j], rest | frozenset(x.labels))
        both = frozenset(x.labels) | frozenset(y.labels)
        last = step == len(pairs) - 1
        order = [s for s in output if s in both] if last else None
        terms = [*others, _pair(x, y, rest & both, kind, order, threads)]
    return _alone(terms[0], [x for x in output if x in terms[0].labels], kind, threads)


def _given(optimize: Any, n: int) -> list[tuple[int, int]] | None:
    """A path as `numpy.einsum_path` gives it, if all its steps are pairs."""
    if not isinstance(optimize, (list, tuple)) or not optimize or isinstance(optimize[0], (bool, int)):
        return None
    steps = [tuple(p) for p in optimize if not isinstance(p, str)]
    if len(steps) != n - 1 or any(len(p) != 2 for p in steps):
        return None
    return [(p[0], p[1]) for p in steps]


def einsum_path(*args: Any) -> list[tuple[int, int]]:
    """The order in which :func:`einsum` contracts: pairs of positions, as ``numpy.einsum_path`` writes them."""
    inputs, output, operands = parse(args)
    sizes = _sizes(inputs, operands)
    return pairs_of([frozenset(x) for x in inputs], frozenset(output), sizes)
