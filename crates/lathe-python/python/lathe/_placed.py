"""Contractions of arrays on devices, where they lie: every step is a kernel there, and nothing goes through the host.

Arrays of devices are dense, so a step first orders the dimensions of its operands, by their package. A pair that is a product of
matrices becomes one, else index notation as it stands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from . import _lathe
from ._forms import general
from ._order import path_of
from ._plan import NUMBERS, TYPES, WORK

__all__ = ["Cupy", "Jax", "Numpy", "Package", "Torch", "contract"]


class Package(Protocol):
    """What is needed of a package of arrays."""

    def name(self, a: Any) -> str:
        """numpy's name of the type of the elements."""

    def cast(self, a: Any, name: str) -> Any: ...

    def ordered(self, a: Any, order: Sequence[int]) -> Any:
        """With the dimensions in this order, dense."""

    def reshaped(self, a: Any, shape: Sequence[int]) -> Any: ...

    def call(self, kernel: Any, arrays: Sequence[Any]) -> Any: ...


class Numpy:
    """Arrays of the host, which these steps are tested with."""

    def name(self, a: Any) -> str:
        return str(a.dtype.name)

    def cast(self, a: Any, name: str) -> Any:
        return a.astype(name)

    def ordered(self, a: Any, order: Sequence[int]) -> Any:
        return np.ascontiguousarray(np.transpose(a, order)).reshape([a.shape[d] for d in order])

    def reshaped(self, a: Any, shape: Sequence[int]) -> Any:
        return a.reshape(tuple(shape))

    def call(self, kernel: Any, arrays: Sequence[Any]) -> Any:
        return np.asarray(kernel(*arrays))


class Cupy(Numpy):
    def ordered(self, a: Any, order: Sequence[int]) -> Any:
        import cupy

        # A number becomes an array of one element there.
        made = cupy.ascontiguousarray(a.transpose(tuple(order))).reshape([a.shape[d] for d in order])
        return made.copy() if made.data.ptr % 16 else made

    def call(self, kernel: Any, arrays: Sequence[Any]) -> Any:
        return kernel(*(a if a.ndim else a.item() for a in arrays))


class Torch:
    def name(self, a: Any) -> str:
        return str(a.dtype).removeprefix("torch.")

    def cast(self, a: Any, name: str) -> Any:
        import torch

        return a.to(getattr(torch, name))

    def ordered(self, a: Any, order: Sequence[int]) -> Any:
        made = a.detach().resolve_conj().resolve_neg().permute(tuple(order)).contiguous()
        return made.clone() if made.data_ptr() % 16 else made

    def reshaped(self, a: Any, shape: Sequence[int]) -> Any:
        return a.reshape(tuple(shape))

    def call(self, kernel: Any, arrays: Sequence[Any]) -> Any:
        return kernel(*(a if a.ndim else a.item() for a in arrays))


class Jax:
    def name(self, a: Any) -> str:
        return str(a.dtype.name)

    def cast(self, a: Any, name: str) -> Any:
        return a.astype(name)

    def ordered(self, a: Any, order: Sequence[int]) -> Any:
        import jax.numpy as jnp

        return jnp.transpose(a, tuple(order))

    def reshaped(self, a: Any, shape: Sequence[int]) -> Any:
        return a.reshape(tuple(shape))

    def call(self, kernel: Any, arrays: Sequence[Any]) -> Any:
        from .jax import op

        return op(kernel)(*arrays)


def contract(text: str, arrays: Sequence[Any], optimize: Any, package: Package) -> Any:
    """The contraction with these labels, of arrays of one type, on one device."""
    left, output = text.split("->")
    name = package.name(arrays[0])
    work = name if name.startswith("complex") else WORK.get(name, name)
    kind = NUMBERS[{"complex64": "f32", "complex128": "f64"}[work]] if work.startswith("complex") else TYPES.get(work)
    if kind is None:
        raise _lathe.fail("E0809", f"einsum: there are no kernels of {name}", [], "convert the operands")
    sizes: dict[str, int] = {}
    for labels, a in zip(left.split(","), arrays):
        for x, n in zip(labels, a.shape):
            sizes[x] = n if sizes.get(x, 1) == 1 else sizes[x]
    terms: list[tuple[Any, str]] = []
    for labels, a in zip(left.split(","), arrays):
        # What is stretched from one element has no label.
        kept = [d for d, x in enumerate(labels) if a.shape[d] == sizes[x]]
        a = package.ordered(a, range(len(labels)))
        if len(kept) < len(labels):
            a = package.reshaped(a, [a.shape[d] for d in kept])
        terms.append((a if work == name else package.cast(a, work), "".join(labels[d] for d in kept)))
    numbers = {x: n for n, x in enumerate(sizes)}
    named = {numbers[x]: size for x, size in sizes.items()}
    path = path_of([frozenset(numbers[x] for x in t[1]) for t in terms], frozenset(numbers[x] for x in output), named, optimize)
    steps = _Steps(kind, sizes, package)
    for n, step in enumerate(path):
        taken = [terms[i] for i in step]
        terms = [t for i, t in enumerate(terms) if i not in step]
        rest = set(output).union(*(t[1] for t in terms))
        last = n == len(path) - 1
        terms.append(steps.step(taken, rest, output if last else None))
    a, labels = steps.step(terms, set(output), output) if len(terms) > 1 else steps.summed(*terms[0], set(output))
    missing = [x for x in output if x not in labels]
    if missing:
        # All operands that have the label were stretched.
        a, labels = package.reshaped(a, [*a.shape, *(1 for _ in missing)]), labels + "".join(missing)
    if labels != output:
        a = package.ordered(a, [labels.index(x) for x in output])
    return a if work == name else package.cast(a, name)


class _Steps:
    def __init__(self, kind: str, sizes: dict[str, int], package: Package) -> None:
        self.kind, self.sizes, self.package = kind, sizes, package

    def step(self, terms: list[tuple[Any, str]], rest: set[str], order: str | None) -> tuple[Any, str]:
        """Contracts operands to the labels that the rest needs."""
        if len(terms) == 1:
            return self.summed(*terms[0], rest)
        if len(terms) == 2:
            (a, x), (b, y) = terms
            a, x = self.summed(a, x, rest | set(y))
            b, y = self.summed(b, y, rest | set(x))
            return self.pair(a, x, b, y, rest, order)
        return self.general(terms, "".join(k for k in order or dict.fromkeys("".join(t[1] for t in terms)) if k in rest))

    def summed(self, a: Any, labels: str, rest: set[str]) -> tuple[Any, str]:
        """Without the labels that nothing else has, and with each of the others once."""
        kept = "".join(x for x in dict.fromkeys(labels) if x in rest)
        return (a, labels) if kept == labels else self.general([(a, labels)], kept)

    def pair(self, a: Any, x: str, b: Any, y: str, rest: set[str], order: str | None) -> tuple[Any, str]:
        summed = [k for k in x if k in y and k not in rest]
        batch = [k for k in x if k in y and k in rest]
        rows, columns = [k for k in x if k not in y], [k for k in y if k not in x]
        if summed and rows and columns and self.kind in ("f32", "f64", "c64", "c128"):
            shape = [self.sizes[k] for k in (*batch, *rows, *columns)]
            z, m, k, n = (math.prod(self.sizes[s] for s in group) for group in (batch, rows, summed, columns))
            a = self.package.ordered(a, [x.index(s) for s in (*batch, *rows, *summed)])
            b = self.package.ordered(b, [y.index(s) for s in (*batch, *summed, *columns)])
            lead = [z] if batch else []
            a, b = self.package.reshaped(a, [*lead, m, k]), self.package.reshaped(b, [*lead, k, n])
            inputs = ((0, 1, 2), (0, 2, 3)) if batch else ((1, 2), (2, 3))
            made = self.package.call(general(self.kind, inputs, (0, 1, 3) if batch else (1, 3)), [a, b])
            return self.package.reshaped(made, shape), "".join((*batch, *rows, *columns))
        there = dict.fromkeys(x + y)
        return self.general([(a, x), (b, y)], "".join(s for s in order or there if s in there and s in rest))

    def general(self, terms: Sequence[tuple[Any, str]], output: str) -> tuple[Any, str]:
        numbers = {s: n for n, s in enumerate(dict.fromkeys("".join(t[1] for t in terms)))}
        kernel = general(self.kind, tuple(tuple(numbers[s] for s in t[1]) for t in terms), tuple(numbers[s] for s in output))
        return self.package.call(kernel, [t[0] for t in terms]), output
