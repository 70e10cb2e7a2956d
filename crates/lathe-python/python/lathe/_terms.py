"""Views with labels: what a plan contracts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from ._notation import Labels
from .errors import OptionError

#: The dimension of a complex number's two parts: one that is multiplied, and one that is still there afterwards. Labels
#: of the notation are characters, those of an ellipsis are negative.
PART, FACTOR = 0, 1


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

    def elements(self) -> int:
        return math.prod(self.shape)

    def ordered(self, order: Sequence[int]) -> Term:
        return Term(self.root, [self.size(x) for x in order], [self.stride(x) for x in order], order)

    def renamed(self, old: int, new: int) -> Term:
        return Term(self.root, self.shape, self.strides, [new if x == old else x for x in self.labels])

    def by_stride(self, labels: Iterable[int]) -> list[int]:
        """The longest stride first."""
        return sorted(labels, key=lambda x: -abs(self.stride(x)))

    def as_one(self, order: Sequence[int], unit: int) -> tuple[int, int] | None:
        """Extent and stride of the dimensions of these labels as one, if they lie behind each other; `unit` is the stride
        of one element."""
        extent, stride = 1, unit
        for x in reversed(order):
            n, s = self.size(x), self.stride(x)
            if n == 1:
                continue
            if extent > 1 and s != extent * stride:
                return None
            if extent == 1:
                stride = s
            extent *= n
        return extent, stride


def fused(terms: Sequence[Term], output: Sequence[int], apart: Sequence[int],
          unit: int) -> tuple[list[Term], list[int], dict[int, list[int]]]:
    """Terms in which labels that always stand behind each other in memory are one, except those that stay apart. Also the
    result's labels, and the extents that each of them stands for."""
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
            if a in apart or b in apart or (a in labels and labels.index(b) != labels.index(a) + 1):
                continue
            merged = [t.as_one((a, b), unit) for t in having]
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
    return terms, labels, extents


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
                    raise OptionError(mismatch(x, (old, n)))
                sizes[x] = n if old == 1 else old
    return sizes


def diagonal(root: int, shape: Sequence[int], strides: Sequence[int], labels: Labels, sizes: dict[int, int]) -> Term:
    """An array as a term: repeated labels become a diagonal, and what is spread out is left out."""
    out = []
    for x in dict.fromkeys(labels):
        at = [d for d, y in enumerate(labels) if y == x]
        if len({shape[d] for d in at}) > 1:
            raise OptionError(mismatch(x, [shape[d] for d in at]))
        if shape[at[0]] == sizes[x]:
            out.append((x, sizes[x], sum(strides[d] for d in at)))
    return Term(root, [o[1] for o in out], [o[2] for o in out], [o[0] for o in out])


def dense(shape: Sequence[int], size: int) -> list[int]:
    """Strides of an array in row-major order."""
    strides, step = [], size
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return strides[::-1]
