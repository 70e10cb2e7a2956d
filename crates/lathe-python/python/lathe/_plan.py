"""What is done for one contraction: found once from shapes and strides, then repeated on any arrays that lie alike.

Complex numbers are two real ones with a dimension of their own; kernels in index notation of two of them take them as they
are. Where both operands of a product of matrices have it,
one of them is written as the real matrices that multiply by its elements, `re im` over `-im re`: then the product is one
of real matrices, of exactly the multiplications that it needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ._forms import factors, general, product
from ._lathe import strided
from ._notation import Labels
from ._order import Step, path_of
from ._terms import FACTOR, PART, Term, dense, diagonal, fused, sizes_of

#: The types of numpy that kernels have.
TYPES = {"float32": "f32", "float64": "f64", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
         "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool"}
#: Those of complex numbers, by the types of their parts.
NUMBERS = {"f32": "c64", "f64": "c128"}
#: The types that others are computed in. Sums of small floats are added up in single precision.
WORK = {"complex64": "float32", "complex128": "float64", "float16": "float32", "bfloat16": "float32"}

#: From so many multiplications on a step is worth the time that it takes to wake other threads: of products of matrices,
#: of kernels in index notation whose loops are vectors, and of others.
_PRODUCT, _VECTORS, _OTHERS = 600_000, 60_000, 20_000
#: Multiplications from which decisions are taken for exactly these sizes; smaller ones share code that takes all sizes.
_LARGE = 1 << 21
#: Matrices with as many rows or columns are worth a product of their own, where otherwise all of them had to be copied.
_ENOUGH = 16


class Matrix(NamedTuple):
    """Extent and stride of both dimensions of a matrix, of which the second is dense; turned if that is the one of the rows."""

    first: tuple[int, int]
    second: tuple[int, int]
    turned: bool

    def extents(self) -> tuple[int, int]:
        return (self.second[0], self.first[0]) if self.turned else (self.first[0], self.second[0])


class Count(NamedTuple):
    """How many products there are along some labels, and the distances of their operands."""

    extent: int
    strides: tuple[int, int]
    labels: list[int]


#: One call of a kernel: with which options, of which views of the operands (None: of the operands themselves), and
#: whether the result is a number.
AtOnce = tuple[Any, dict[str, Any], Any, bool]


class View:
    """The plan of a result that is the operand itself, seen in another way: of any type, and nothing is computed."""

    direct: list[int] | None = None

    def __init__(self, labels: Labels, output: Labels, operand: np.ndarray, common: np.dtype[Any]) -> None:
        self.common = self.work = common
        t = diagonal(0, operand.shape, operand.strides, labels, sizes_of([labels], [operand]))
        self.result = t.ordered(output)

    def run(self, operands: Sequence[np.ndarray], out: np.ndarray | None, options: dict[str, Any]) -> np.ndarray:
        return strided(operands[0], self.result.shape, self.result.strides)

    def at_once(self) -> AtOnce | None:
        return None


class Plan:
    """Steps that each make one array, and the result as a view of the last one."""

    def __init__(self, inputs: Sequence[Labels], output: Labels, operands: Sequence[np.ndarray], common: np.dtype[Any],
                 optimize: Any) -> None:
        self.common = common.newbyteorder("=")
        self.work: np.dtype[Any] = np.dtype(WORK.get(common.name, common.name))
        self.kind, self.unit = TYPES[self.work.name], self.work.itemsize
        #: Shape and strides of the arrays that there are: operands, then those that steps make.
        self.roots = [(a.shape, a.strides) for a in operands]
        self.given = len(operands)
        #: Arrays of complex numbers, of which views take the parts.
        self.parts: set[int] = set()
        #: Results of kernels of complex numbers.
        self.native: set[int] = set()
        self.steps: list[tuple[Any, Any, list[Any], tuple[int, ...], Any]] = []
        self.sizes = sizes_of(inputs, operands)
        terms = [self.operand(n, a, labels) for n, (a, labels) in enumerate(zip(operands, inputs))]
        path = path_of([frozenset(t.labels) - {PART} for t in terms], frozenset(output), self.sizes, optimize)
        result = self.contracted(terms, output, path)
        self.complex = PART in result.labels
        if self.complex:
            result = Term(result.root, result.shape[:-1], result.strides[:-1], result.labels[:-1])
        self.result = result
        #: The order of the result's dimensions in which the last step makes them, if it makes nothing else.
        self.direct: list[int] | None = None
        if self.steps and self.steps[-1][0] is not None and not self.complex and self.work == self.common:
            order = sorted(range(len(output)), key=lambda d: -result.strides[d])
            whole = ([result.shape[d] for d in order], [result.strides[d] for d in order])
            if (tuple(whole[0]), tuple(whole[1])) == self.roots[-1] and result.root == len(self.roots) - 1:
                self.direct = order

    # The arrays.

    def made(self, what: Any, how: Any, views: list[Any], shape: Sequence[int], flat: Sequence[int] | None = None) -> int:
        """Adds a step that makes an array in row-major order: by a kernel with options, or of a type by copying. `flat` is
        the array's shape as the kernel knows it."""
        self.steps.append((what, how, views, tuple(shape), flat))
        self.roots.append((tuple(shape), tuple(dense(shape, self.unit))))
        return len(self.roots) - 1

    def operand(self, n: int, a: np.ndarray, labels: Labels) -> Term:
        """An operand where it lies, or a copy of it."""
        pairs = self.common.kind == "c" and a.dtype.kind == "c"
        wanted = self.common if pairs else self.work
        unit = 2 * self.unit if pairs else self.unit
        if a.dtype != wanted or not a.dtype.isnative or not a.flags.aligned or any(s % unit for s in a.strides):
            n = self.made(None, wanted, [(n, None, None)], a.shape)
            if pairs:
                self.roots[n] = (a.shape, tuple(dense(a.shape, wanted.itemsize)))
        shape, strides = self.roots[n]
        t = diagonal(n, shape, strides, labels, self.sizes)
        if not pairs:
            return t
        self.parts.add(n)
        return Term(n, [*t.shape, 2], [*t.strides, self.unit], [*t.labels, PART])

    def view(self, t: Term) -> tuple[int, Any, Any]:
        """A term as an argument: the array itself where it is the whole array as it lies."""
        if t.root not in self.parts and (t.shape, t.strides) == self.roots[t.root]:
            return t.root, None, None
        return t.root, t.shape, t.strides

    def turned(self, t: Term, order: Sequence[int]) -> Term:
        """A copy with its dimensions in this order."""
        t = t.ordered(order)
        root = self.made(None, self.work, [self.view(t)], t.shape)
        return Term(root, *self.roots[root], order)

    # Contractions.

    def contracted(self, terms: list[Term], output: Labels, path: Sequence[Step]) -> Term:
        wanted = frozenset([*output, PART])
        for number, step in enumerate(path):
            taken = [terms[i] for i in step]
            terms = [t for i, t in enumerate(terms) if i not in step]
            rest = wanted.union(*(t.labels for t in terms))
            terms.append(self.step(taken, rest, output if number == len(path) - 1 else None))
        t = self.summed(terms[0], wanted)
        return t.ordered([*output, PART] if PART in t.labels else output)

    def step(self, terms: list[Term], rest: frozenset[int], order: Sequence[int] | None) -> Term:
        """Contracts some operands to what the rest needs."""
        if len(terms) == 1:
            return self.summed(terms[0], rest)
        if len(terms) == 2:
            x, y = terms
            x = self.summed(x, rest | frozenset(y.labels))
            y = self.summed(y, rest | frozenset(x.labels))
            return self.pair(x, y, rest & (frozenset(x.labels) | frozenset(y.labels)), order)
        if sum(PART in t.labels for t in terms) <= 1:
            there = dict.fromkeys(x for t in terms for x in t.labels if x in rest)
            labels = [x for x in order or there if x in there and x != PART]
            return self.general(terms, [*labels, *({PART} & set(there))])
        # Products of several complex numbers are made in pairs.
        inside = [frozenset(t.labels) - {PART} for t in terms]
        path = path_of(inside, (rest & frozenset().union(*inside)) - {PART}, self.sizes, True)
        for number, pair in enumerate(path):
            taken = [terms[i] for i in pair]
            terms = [t for i, t in enumerate(terms) if i not in pair]
            last = number == len(path) - 1
            terms.append(self.step(taken, rest.union(*(t.labels for t in terms)), order if last else None))
        return terms[0]

    def summed(self, t: Term, rest: frozenset[int]) -> Term:
        """Without the labels that nothing else has."""
        if all(x in rest for x in t.labels):
            return t
        return self.general([t], [x for x in t.by_stride(t.labels) if x in rest])

    def pair(self, x: Term, y: Term, keep: frozenset[int], order: Sequence[int] | None) -> Term:
        """Contracts two operands. `order` is the order of the result's labels, where there is a wish."""
        shared = [s for s in x.labels if s in y.labels and s != PART]
        summed = [s for s in shared if s not in keep]
        batch = [s for s in shared if s in keep]
        rows = [s for s in x.labels if s not in y.labels or s == PART]
        columns = [s for s in y.labels if s not in x.labels or s == PART]
        if summed and rows and columns and self.kind in ("f32", "f64"):
            done = self.product(x, y, batch, rows, columns, summed, order)
            if done is not None:
                return done
        labels = [*batch, *rows, *columns]
        if not summed:
            # What the result's elements are computed from is read once, so they are written as the larger one lies.
            large, other = (x, y) if x.elements() >= y.elements() else (y, x)
            labels = [*large.by_stride(large.labels), *(s for s in other.by_stride(other.labels) if s not in large.labels)]
        elif columns and not rows:
            labels = [*batch, *y.by_stride(columns)]
        return self.general([x, y], [*(s for s in labels if s != PART), *({PART} & {*x.labels, *y.labels})])

    def general(self, terms: Sequence[Term], output: Sequence[int]) -> Term:
        """By a kernel in index notation. The result's dimensions lie in this order."""
        both = sum(PART in t.labels for t in terms) == 2
        joined, labels, extents = fused(terms, output, [PART] if both else [], self.unit)
        joined = [t.ordered([*(x for x in t.by_stride(t.labels) if x != PART or not both), *([PART] if both else [])])
                  for t in joined]
        numbered = {s: n for n, s in enumerate(dict.fromkeys(x for t in joined for x in t.labels))}
        inputs = tuple(tuple(numbered[s] for s in t.labels) for t in joined)
        result = tuple(numbered[s] for s in labels)
        flat = [math.prod(extents[x]) for x in labels]
        shape = [n for x in labels for n in extents[x]]
        work = math.prod({x: n for t in terms for x, n in zip(t.labels, t.shape)}.values())
        plain = self.kind not in ("f32", "f64")
        how = _options(work, _OTHERS if plain else _VECTORS)
        if both:
            # Parts are last in all of them: whole numbers are taken.
            kernel = general(NUMBERS[self.kind], tuple(i[:-1] for i in inputs), result[:-1])
            views = [(~t.root, t.shape[:-1], t.strides[:-1]) for t in joined]
            root = self.made(kernel, how, views, shape, flat[:-1])
            self.native.add(root)
        else:
            kernel = general(self.kind, inputs, result)
            root = self.made(kernel, how, [self.view(t) for t in joined], shape, None if flat == shape else flat)
        return Term(root, *self.roots[root], output)

    def matrix(self, t: Term, rows: Sequence[int], columns: Sequence[int]) -> Matrix | None:
        """Extents and strides of an operand as a matrix, one of which is dense. None if a group of labels is not one
        dimension in memory."""
        r, c = t.as_one(rows, self.unit), t.as_one(columns, self.unit)
        if r is None or c is None:
            return None
        if c[1] == self.unit or c[0] == 1:
            return Matrix(r, (c[0], self.unit if c[0] == 1 else c[1]), False)
        if r[1] == self.unit or r[0] == 1:
            return Matrix(c, (r[0], self.unit if r[0] == 1 else r[1]), True)
        return None

    def matrices(self, x: Term, y: Term, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int],
                 inner: Sequence[int]) -> tuple[Matrix, Matrix, list[Count], list[int]] | None:
        """Both operands as matrices where they lie, how many there are, and the other labels of the result. Labels of one
        operand that are in the way count products, as those of both do: the other operand is the same for all of them."""
        batch, rows, columns = list(batch), x.by_stride(rows), y.by_stride(columns)
        while (a := self.matrix(x, rows, inner)) is None:
            if len(rows) < 2 or math.prod(x.size(s) for s in rows[1:]) < _ENOUGH:
                return None
            batch.append(rows.pop(0))
        while (b := self.matrix(y, inner, columns)) is None:
            if len(columns) < 2 or math.prod(y.size(s) for s in columns[1:]) < _ENOUGH:
                return None
            batch.append(columns.pop(0))
        sizes = {s: t.size(s) for t in (x, y) for s in t.labels}
        counts: list[Count] = []
        for s in sorted((s for s in batch if sizes[s] != 1), key=lambda s: -max(abs(t.stride(s)) for t in (x, y) if s in t.labels)):
            n = sizes[s]
            u, v = (t.stride(s) if s in t.labels else 0 for t in (x, y))
            if counts and counts[-1].strides == (n * u, n * v):
                c = counts.pop()
                counts.append(Count(c.extent * n, (u, v), [*c.labels, s]))
            else:
                counts.append(Count(n, (u, v), [s]))
        if len(counts) > 2:
            return None
        # The most are counted first: threads share them.
        counts.sort(key=lambda c: -c.extent)
        return a, b, counts, [*(s for s in batch if sizes[s] == 1), *rows, *columns]

    def product(self, x: Term, y: Term, batch: list[int], rows: list[int], columns: list[int], summed: list[int],
                order: Sequence[int] | None) -> Term | None:
        """As products of matrices."""
        two = PART in rows and PART in columns
        # The smaller one of two complex operands becomes matrices, else the one with the result's last label gives the
        # columns.
        last = PART if PART in (*rows, *columns) else order[-1] if order else None
        if x.elements() < y.elements() if two else last in rows:
            x, y, rows, columns = y, x, columns, rows
        if two:
            x, rows = x.renamed(PART, FACTOR), [s for s in rows if s != PART]
            if not rows:
                return None
            inner = x.by_stride(summed)
            y = self.multiplier(y, [*y.by_stride(batch), *inner], y.by_stride(s for s in columns if s != PART))
            summed = [*summed, FACTOR]
        for t in (x, y):
            inner = t.by_stride(summed)
            if (found := self.matrices(x, y, batch, rows, columns, inner)) is not None:
                break
        else:
            inner, batch = x.by_stride(summed), x.by_stride(batch)
            if self.matrix(x, x.by_stride(rows), inner) is None or x.as_one(batch, self.unit) is None:
                x = self.turned(x, [*batch, *x.by_stride(rows), *inner])
            if self.matrix(y, inner, y.by_stride(columns)) is None or y.as_one(batch, self.unit) is None:
                y = self.turned(y, [*batch, *inner, *y.by_stride(columns)])
            if (found := self.matrices(x, y, batch, rows, columns, inner)) is None:
                return None
        a, b, counts, labels = found
        labels = [*(s for c in counts for s in c.labels), *labels]
        extents = [c.extent for c in counts]
        views = [self.view(Term(t.root, (*extents, m.first[0], m.second[0]),
                                (*(c.strides[n] for c in counts), m.first[1], m.second[1]), ())) for n, (t, m) in enumerate(((x, a), (y, b)))]
        # Extents of the product: the operands' first or second ones.
        (m, k), n = a.extents(), b.extents()[1]
        shape, flat = [x.size(s) if s in x.labels else y.size(s) for s in labels], [*extents, m, n]
        kernel = product(self.kind, a.turned, b.turned, len(counts))
        root = self.made(kernel, _options(math.prod(flat) * k, _PRODUCT), views, shape, None if shape == flat else flat)
        return Term(root, *self.roots[root], labels)

    def multiplier(self, y: Term, outer: Sequence[int], columns: Sequence[int]) -> Term:
        """A complex operand as the real matrices that multiply by its elements."""
        y = y.ordered([*outer, *columns, PART])
        shape = [*(y.size(s) for s in outer), 2, *(y.size(s) for s in columns), 2]
        root = self.made(factors(self.kind, len(outer), len(columns)), _options(0, 1), [self.view(y)], shape)
        return Term(root, *self.roots[root], [*outer, FACTOR, *columns, PART])

    # Doing it.

    def run(self, operands: Sequence[np.ndarray], out: np.ndarray | None, options: dict[str, Any]) -> np.ndarray:
        """The result; in `out` where the last step can write it there."""
        values: list[np.ndarray] = list(operands)
        #: Whole complex numbers of what values have the parts of.
        whole = {n: values[n] for n in self.parts if n < self.given}
        for n in whole:
            values[n] = values[n].real

        def root(r: int) -> np.ndarray:
            return values[r] if r >= 0 else whole[~r] if ~r in whole else values[~r].view(self.common)

        last = len(self.roots) - 1
        for what, how, views, shape, flat in self.steps:
            args = [root(r) if s is None else strided(root(r), s, d) for r, s, d in views]
            if what is None:
                made = np.array(args[0], how, order="C")
                if len(values) in self.parts:
                    whole[len(values)] = made
                    made = made.real
                values.append(made)
                continue
            made = out if out is not None and len(values) == last else np.empty(shape, self.work)
            into = made.view(self.common) if len(values) in self.native else made
            what(*args, out=into if flat is None else into.reshape(flat), **(options | how if how else options))
            values.append(made)
        t = self.result
        if self.complex:
            # Pairs that a step has made are complex numbers.
            return strided(values[t.root].view(self.common), t.shape, t.strides)
        if (t.shape, t.strides) == self.roots[t.root]:
            return values[t.root]
        return strided(values[t.root], t.shape, t.strides)

    def at_once(self) -> AtOnce | None:
        """The plan as one call of a kernel that makes the result as it is."""
        if len(self.steps) != 1 or self.complex or self.parts or self.work != self.common:
            return None
        kernel, how, views, shape, flat = self.steps[0]
        if kernel is None or flat is not None or (self.result.shape, self.result.strides) != self.roots[self.result.root]:
            return None
        whole = all(s is None for _, s, _ in views) and [r for r, _, _ in views] == list(range(self.given))
        return kernel, how or {}, None if whole else views, not shape


def _options(work: int, worth: int) -> dict[str, Any] | None:
    """One thread for what is not worth more; code of its own for what is worth compiling."""
    if work >= _LARGE:
        return {"strategy": "auto"}
    return {"threads": 1} if work < worth else None
