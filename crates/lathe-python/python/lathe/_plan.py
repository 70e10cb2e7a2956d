"""What is done for one contraction: found once from shapes and strides, then repeated on any arrays that lie alike.

Complex numbers are two real ones with a dimension of their own. Where both operands of a product of matrices have it,
one of them is written as the real matrices that multiply by its elements, `re im` over `-im re`: then the product is one
of real matrices, of exactly the multiplications that it needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._forms import complex_pair, factors, general, product
from ._lathe import strided
from ._notation import Labels
from ._order import Step, path_of
from ._terms import FACTOR, PART, Term, dense, diagonal, fused, sizes_of

#: The types of numpy that kernels have.
TYPES = {"float32": "f32", "float64": "f64", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
         "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool"}
#: The types that others are computed in. Sums of small floats are added up in single precision.
WORK = {"complex64": "float32", "complex128": "float64", "float16": "float32", "bfloat16": "float32"}

#: From so many multiplications on it pays to pack the operands of a product of matrices.
_PACKED = 20_000


class View:
    """The plan of a result that is the operand itself, seen in another way: of any type, and nothing is computed."""

    direct: list[int] | None = None

    def __init__(self, labels: Labels, output: Labels, operand: np.ndarray, common: np.dtype[Any]) -> None:
        self.common = self.work = common
        t = diagonal(0, operand.shape, operand.strides, labels, sizes_of([labels], [operand]))
        self.result = t.ordered(output)

    def run(self, operands: Sequence[np.ndarray], out: np.ndarray | None, options: dict[str, Any]) -> np.ndarray:
        return strided(operands[0], self.result.shape, self.result.strides)


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
        self.steps: list[tuple[str, Any, list[Any], Any]] = []
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
        if self.steps and self.steps[-1][0] == "call" and not self.complex and self.work == self.common:
            order = sorted(range(len(output)), key=lambda d: -result.strides[d])
            whole = ([result.shape[d] for d in order], [result.strides[d] for d in order])
            if (tuple(whole[0]), tuple(whole[1])) == self.roots[-1] and result.root == len(self.roots) - 1:
                self.direct = order

    # The arrays.

    def made(self, how: str, what: Any, views: list[Any], shape: Sequence[int], more: Any = None) -> int:
        """Adds a step that makes an array in row-major order."""
        self.steps.append((how, what, views, (tuple(shape), more)))
        self.roots.append((tuple(shape), tuple(dense(shape, self.unit))))
        return len(self.roots) - 1

    def operand(self, n: int, a: np.ndarray, labels: Labels) -> Term:
        """An operand where it lies, or a copy of it."""
        pairs = self.common.kind == "c" and a.dtype.kind == "c"
        wanted = self.common if pairs else self.work
        if a.dtype != wanted or not a.dtype.isnative or not a.flags.aligned or any(s % self.unit for s in a.strides):
            n = self.made("copy", wanted, [(n, None, None)], a.shape)
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
        root = self.made("copy", self.work, [self.view(t)], t.shape)
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
        work = math.prod(self.sizes[s] for s in {*x.labels, *y.labels} - {PART})
        if summed and rows and columns and self.kind in ("f32", "f64") and work >= _PACKED:
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
        kernel = complex_pair(self.kind, inputs, result, numbered[PART]) if both else general(self.kind, inputs, result)
        flat = [math.prod(extents[x]) for x in labels]
        shape = [n for x in labels for n in extents[x]]
        root = self.made("call", kernel, [self.view(t) for t in joined], shape, None if flat == shape else tuple(flat))
        return Term(root, *self.roots[root], output)

    def matrix(self, t: Term, rows: Sequence[int], columns: Sequence[int], rest: Sequence[int]) -> tuple[Term, bool] | None:
        """The operand as matrices, and whether their columns come first; the last dimension is dense. None if a group of
        labels is not one dimension in memory."""
        r, c, z = (t.as_one(g, self.unit) for g in (rows, columns, rest))
        if r is None or c is None or z is None:
            return None
        if c[1] == self.unit or c[0] == 1:
            first, second, turned = r, c, False
        elif r[1] == self.unit or r[0] == 1:
            first, second, turned = c, r, True
        else:
            return None
        second = (second[0], self.unit if second[0] == 1 else second[1])
        parts = [z, first, second] if rest and z[0] != 1 else [first, second]
        return Term(t.root, [p[0] for p in parts], [p[1] for p in parts], range(len(parts))), turned

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
        rows, columns = x.by_stride(rows), y.by_stride(columns)
        batch = x.by_stride(batch)
        for t in (x, y):
            inner = t.by_stride(summed)
            a, b = self.matrix(x, rows, inner, batch), self.matrix(y, inner, columns, batch)
            if a is not None and b is not None:
                break
        else:
            inner = x.by_stride(summed)
            if (a := self.matrix(x, rows, inner, batch)) is None:
                x = self.turned(x, [*batch, *rows, *inner])
                a = self.matrix(x, rows, inner, batch)
            if (b := self.matrix(y, inner, columns, batch)) is None:
                y = self.turned(y, [*batch, *inner, *columns])
                b = self.matrix(y, inner, columns, batch)
        if a is None or b is None:
            return None
        (left, a_turned), (right, b_turned) = a, b
        shape = [x.size(s) for s in [*batch, *rows]] + [y.size(s) for s in columns]
        many = len(left.shape) == 3
        m, n = math.prod(x.size(s) for s in rows), math.prod(y.size(s) for s in columns)
        flat = (left.shape[0], m, n) if many else (m, n)
        kernel = product(self.kind, a_turned, b_turned, many)
        root = self.made("call", kernel, [self.view(left), self.view(right)], shape, None if tuple(shape) == flat else flat)
        return Term(root, *self.roots[root], [*batch, *rows, *columns])

    def multiplier(self, y: Term, outer: Sequence[int], columns: Sequence[int]) -> Term:
        """A complex operand as the real matrices that multiply by its elements."""
        y = y.ordered([*outer, *columns, PART])
        shape = [*(y.size(s) for s in outer), 2, *(y.size(s) for s in columns), 2]
        root = self.made("call", factors(self.kind, len(outer), len(columns)), [self.view(y)], shape)
        return Term(root, *self.roots[root], [*outer, FACTOR, *columns, PART])

    # Doing it.

    def run(self, operands: Sequence[np.ndarray], out: np.ndarray | None, options: dict[str, Any]) -> np.ndarray:
        """The result; in `out` where the last step can write it there."""
        values: list[np.ndarray] = list(operands)
        for n in self.parts:
            if n < self.given:
                values[n] = values[n].real
        last = len(self.roots) - 1
        for how, what, views, (shape, flat) in self.steps:
            args = [values[r] if s is None else strided(values[r], s, d) for r, s, d in views]
            if how == "copy":
                made = np.array(args[0], what, order="C")
                values.append(made.real if len(values) in self.parts else made)
                continue
            made = out if out is not None and len(values) == last else np.empty(shape, self.work)
            what(*args, out=made if flat is None else made.reshape(flat), **options)
            values.append(made)
        t = self.result
        if self.complex:
            # Pairs that a step has made are complex numbers.
            return strided(values[t.root].view(self.common), t.shape, t.strides)
        if (t.shape, t.strides) == self.roots[t.root]:
            return values[t.root]
        return strided(values[t.root], t.shape, t.strides)
