"""What is done for one contraction: found once from shapes and strides, then repeated on any arrays that lie alike."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ._forms import general, product
from ._lathe import strided
from ._notation import Labels
from ._order import pairs as pairs_of

#: The types of numpy that kernels have.
TYPES = {"float32": "f32", "float64": "f64", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
         "uint16": "u16", "uint32": "u32", "uint64": "u64"}


class Term:
    """A view of one of the plan's arrays, with a label for each dimension, no label twice."""

    __slots__ = ("labels", "root", "shape", "strides")

    def __init__(self, root: int, shape: Sequence[int], strides: Sequence[int], labels: Sequence[int]) -> None:
        self.root = root
        self.shape, self.strides, self.labels = tuple(shape), tuple(strides), tuple(labels)

    def size(self, x: int) -> int:
        return self.shape[self.labels.index(x)]

    def stride(self, x: int) -> int:
        return self.strides[self.labels.index(x)]

    def ordered(self, order: Sequence[int]) -> Term:
        return Term(self.root, [self.size(x) for x in order], [self.stride(x) for x in order], order)

    def by_stride(self, labels: Iterable[int]) -> list[int]:
        """The longest stride first."""
        return sorted(labels, key=lambda x: -abs(self.stride(x)))


def mismatch(label: int, sizes: Iterable[int]) -> str:
    name = f"`{chr(label)}`" if label > 0 else "of the ellipsis"
    return f"einsum: the label {name} has the sizes {' and '.join(map(str, sorted(set(sizes))))}"


def sizes_of(inputs: Sequence[Labels], operands: Sequence[np.ndarray]) -> dict[int, int]:
    """The extent of each label; one element is spread out."""
    sizes: dict[int, int] = {}
    for labels, a in zip(inputs, operands):
        for x, n in zip(labels, a.shape):
            old = sizes.setdefault(x, n)
            if old != n:
                if 1 not in (old, n):
                    raise ValueError(mismatch(x, (old, n)))
                sizes[x] = n if old == 1 else old
    return sizes


def _dense(shape: Sequence[int], size: int) -> list[int]:
    """Strides of an array in row-major order."""
    strides, step = [], size
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return strides[::-1]


class Plan:
    """Steps that each make one array, and the result as a view of the last one."""

    def __init__(self, inputs: Sequence[Labels], output: Labels, operands: Sequence[np.ndarray], work: np.dtype[Any],
                 path: Sequence[tuple[int, int]] | None) -> None:
        self.work, self.kind, self.itemsize = work, TYPES[work.name], work.itemsize
        #: Shape and strides of the arrays that there are: operands, then those that steps make.
        self.roots = [(a.shape, a.strides) for a in operands]
        self.steps: list[tuple[str, Any, list[Any], Any]] = []
        self.sizes = sizes_of(inputs, operands)
        terms = []
        for n, (a, labels) in enumerate(zip(operands, inputs)):
            root = n
            usable = a.dtype.isnative and a.flags.aligned and not any(s % a.itemsize for s in a.strides)
            if a.dtype != work or not usable:
                root = self.made("copy", None, [(n, None, None)], a.shape)
            terms.append(self.diagonal(root, labels))
        self.result = self.contracted(terms, output, path)

    # The arrays.

    def made(self, how: str, what: Any, views: list[Any], shape: Sequence[int], flat: Any = None) -> int:
        """Adds a step that makes an array in row-major order."""
        self.steps.append((how, what, views, (tuple(shape), flat)))
        self.roots.append((tuple(shape), tuple(_dense(shape, self.itemsize))))
        return len(self.roots) - 1

    def view(self, t: Term) -> tuple[int, Any, Any]:
        """A term as an argument: the array itself where it is the whole array as it lies."""
        if (t.shape, t.strides) == self.roots[t.root]:
            return t.root, None, None
        return t.root, t.shape, t.strides

    def diagonal(self, root: int, labels: Labels) -> Term:
        """Repeated labels become a diagonal, and what is spread out is left out."""
        shape, strides = self.roots[root]
        out = []
        for x in dict.fromkeys(labels):
            at = [d for d, y in enumerate(labels) if y == x]
            long = [d for d in at if shape[d] == self.sizes[x]]
            if len(long) < len(at) and any(shape[d] != 1 for d in at if d not in long):
                raise ValueError(mismatch(x, [shape[d] for d in at]))
            if long:
                out.append((x, self.sizes[x], sum(strides[d] for d in long)))
        return Term(root, [o[1] for o in out], [o[2] for o in out], [o[0] for o in out])

    def turned(self, t: Term, order: Sequence[int]) -> Term:
        """A copy with its dimensions in this order."""
        t = t.ordered(order)
        root = self.made("copy", None, [self.view(t)], t.shape)
        return Term(root, *self.roots[root], order)

    # Contractions.

    def contracted(self, terms: list[Term], output: Labels, path: Sequence[tuple[int, int]] | None) -> Term:
        wanted = frozenset(output)
        if path is None:
            path = pairs_of([frozenset(t.labels) for t in terms], wanted, self.sizes)
        for step, (i, j) in enumerate(path):
            others = [t for k, t in enumerate(terms) if k not in (i, j)]
            rest = wanted.union(*(t.labels for t in others))
            x = self.summed(terms[i], rest | frozenset(terms[j].labels))
            y = self.summed(terms[j], rest | frozenset(x.labels))
            both = frozenset(x.labels) | frozenset(y.labels)
            last = step == len(path) - 1
            order = [s for s in output if s in both] if last else None
            terms = [*others, self.pair(x, y, rest & both, order)]
        t = self.summed(terms[0], wanted)
        # Labels that only dimensions of one element have are spread out.
        shape = [self.sizes[x] for x in output]
        return Term(t.root, shape, [t.stride(x) if x in t.labels else 0 for x in output], output)

    def summed(self, t: Term, rest: frozenset[int]) -> Term:
        """Without the labels that nothing else has."""
        if all(x in rest for x in t.labels):
            return t
        return self.general([t], [x for x in t.by_stride(t.labels) if x in rest])

    def pair(self, x: Term, y: Term, keep: frozenset[int], order: Sequence[int] | None) -> Term:
        """Contracts two operands. `order` is the order of the result's labels, where there is a wish."""
        shared = [s for s in x.labels if s in y.labels]
        summed = [s for s in shared if s not in keep]
        batch = [s for s in shared if s in keep]
        rows = [s for s in x.labels if s not in y.labels]
        columns = [s for s in y.labels if s not in x.labels]
        if summed and rows and columns and self.kind in ("f32", "f64"):
            done = self.product(x, y, batch, rows, columns, summed, order)
            if done is not None:
                return done
        labels = [*batch, *rows, *columns]
        if order is not None and not summed:
            # What the result's elements are computed from is read once, so they are written in their order.
            labels = list(order)
        elif summed and columns and not rows:
            labels = [*batch, *y.by_stride(columns)]
        return self.general([x, y], labels)

    def general(self, terms: list[Term], output: Sequence[int]) -> Term:
        """By a kernel in index notation."""
        fused, labels, extents = self.fused(terms, output)
        numbered = {s: n for n, s in enumerate(dict.fromkeys(x for t in fused for x in t.labels))}
        kernel = general(self.kind, tuple(tuple(numbered[s] for s in t.labels) for t in fused),
                         tuple(numbered[s] for s in labels))
        lies = {x: math.prod(extents[x]) for x in labels}
        root = self.made("call", kernel, [self.view(t) for t in fused], [lies[x] for x in labels])
        shape = [n for x in labels for n in extents[x]]
        return Term(root, shape, _dense(shape, self.itemsize), output)

    def fused(self, terms: list[Term], output: Sequence[int]) -> tuple[list[Term], list[int], dict[int, list[int]]]:
        """Operands in which labels that always stand behind each other in memory are one. Also the result's labels, and
        the extents that each of them stands for."""
        terms, labels = list(terms), list(output)
        extents: dict[int, list[int]] = {}
        for t in terms:
            extents |= {x: [n] for x, n in zip(t.labels, t.shape)}
        found = True
        while found:
            found = False
            for a, b in [p for t in terms for p in itertools.permutations(t.labels, 2)]:
                having = [t for t in terms if a in t.labels or b in t.labels]
                if any(a not in t.labels or b not in t.labels for t in having) or (a in labels) != (b in labels):
                    continue
                if a in labels and labels.index(b) != labels.index(a) + 1:
                    continue
                merged = [self.as_one(t, (a, b)) for t in having]
                if any(m is None for m in merged):
                    continue
                for t, m in zip(having, merged):
                    assert m is not None
                    parts = [(x, *(m if x == a else (t.size(x), t.stride(x)))) for x in t.labels if x != b]
                    terms[terms.index(t)] = Term(t.root, [p[1] for p in parts], [p[2] for p in parts], [p[0] for p in parts])
                extents[a] += extents.pop(b)
                if b in labels:
                    labels.remove(b)
                found = True
                break
        return [t.ordered(t.by_stride(t.labels)) for t in terms], labels, extents

    def as_one(self, t: Term, order: Sequence[int]) -> tuple[int, int] | None:
        """Extent and stride of the dimensions of these labels as one, if they lie behind each other."""
        extent, stride = 1, self.itemsize
        for x in reversed(order):
            n, s = t.size(x), t.stride(x)
            if n == 1:
                continue
            if extent > 1 and s != extent * stride:
                return None
            if extent == 1:
                stride = s
            extent *= n
        return extent, stride

    def matrix(self, t: Term, rows: Sequence[int], columns: Sequence[int], rest: Sequence[int]) -> tuple[Term, bool] | None:
        """The operand as matrices, and whether their columns come first; the last dimension is dense. None if a group of
        labels is not one dimension in memory. Labels of the view are -1 and -2, after one for the rest."""
        r, c, z = self.as_one(t, rows), self.as_one(t, columns), self.as_one(t, rest)
        if r is None or c is None or z is None:
            return None
        if c[1] == self.itemsize or c[0] == 1:
            first, second, turned = r, c, False
        elif r[1] == self.itemsize or r[0] == 1:
            first, second, turned = c, r, True
        else:
            return None
        second = (second[0], self.itemsize if second[0] == 1 else second[1])
        parts = [z, first, second] if rest and z[0] != 1 else [first, second]
        return Term(t.root, [p[0] for p in parts], [p[1] for p in parts], range(len(parts))), turned

    def product(self, x: Term, y: Term, batch: list[int], rows: list[int], columns: list[int], summed: list[int],
                order: Sequence[int] | None) -> Term | None:
        """As products of matrices."""
        # The operand with the result's last label gives the columns.
        if order is not None and order[-1] in rows:
            x, y, rows, columns = y, x, columns, rows
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

    # Doing it.

    def run(self, operands: Sequence[np.ndarray], options: dict[str, Any]) -> np.ndarray:
        values = list(operands)
        for how, what, views, (shape, flat) in self.steps:
            args = [values[r] if s is None else strided(values[r], s, d) for r, s, d in views]
            if how == "call":
                out = np.empty(shape, self.work)
                what(*args, out=out if flat is None else out.reshape(flat), **options)
            else:
                out = np.array(args[0], self.work, order="C")
            values.append(out)
        root, shape, strides = self.view(self.result)
        return values[root] if shape is None else strided(values[root], shape, strides)
