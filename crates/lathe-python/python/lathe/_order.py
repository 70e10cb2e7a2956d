"""The order in which operands are contracted."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any


def pairs(terms: list[frozenset[int]], output: frozenset[int], sizes: dict[int, int]) -> list[tuple[int, int]]:
    """Pairs to contract: positions in the list of terms, from which the two are taken and to whose end the result goes.
    Up to six operands all orders are compared by their multiplications, beyond it the best next pair is taken."""
    n = len(terms)
    if n <= 2:
        return [(0, 1)] * (n - 1)
    if n <= 6:
        return _best(terms, output, sizes)
    return _greedy(list(terms), output, sizes)


def _cost(labels: frozenset[int], sizes: dict[int, int]) -> float:
    return math.prod(float(max(sizes[x], 1)) for x in labels)


def _best(terms: list[frozenset[int]], output: frozenset[int], sizes: dict[int, int]) -> list[tuple[int, int]]:
    n = len(terms)
    whole = (1 << n) - 1

    @functools.lru_cache(maxsize=None)
    def labels(s: int) -> frozenset[int]:
        inside: frozenset[int] = frozenset().union(*(terms[i] for i in range(n) if s >> i & 1))
        outside = output.union(*(terms[i] for i in range(n) if not s >> i & 1))
        return inside & outside if s & (s - 1) else terms[s.bit_length() - 1]

    @functools.lru_cache(maxsize=None)
    def best(s: int) -> tuple[float, Any]:
        if not s & (s - 1):
            return 0.0, s.bit_length() - 1
        least: tuple[float, Any] = (math.inf, None)
        first = s & -s
        a = (s - 1) & s
        while a:
            if a & first:
                b = s ^ a
                (ca, ta), (cb, tb) = best(a), best(b)
                cost = ca + cb + _cost(labels(a) | labels(b), sizes)
                if cost < least[0]:
                    least = (cost, (ta, tb))
            a = (a - 1) & s
        return least

    found: list[tuple[int, int]] = []
    alive = [1 << i for i in range(n)]

    def walk(tree: Any) -> int:
        if isinstance(tree, int):
            return 1 << tree
        a, b = walk(tree[0]), walk(tree[1])
        i, j = alive.index(a), alive.index(b)
        found.append((i, j))
        for s in (a, b):
            alive.remove(s)
        alive.append(a | b)
        return a | b

    walk(best(whole)[1])
    return found


def _greedy(terms: list[frozenset[int]], output: frozenset[int], sizes: dict[int, int]) -> list[tuple[int, int]]:
    out = []
    while len(terms) > 1:
        best: tuple[tuple[float, float], int, int, frozenset[int]] | None = None
        for i, j in itertools.combinations(range(len(terms)), 2):
            rest = output.union(*(t for k, t in enumerate(terms) if k not in (i, j)))
            both = terms[i] | terms[j]
            kept = both & rest
            saved = _cost(kept, sizes) - _cost(terms[i], sizes) - _cost(terms[j], sizes)
            rank = (saved, _cost(both, sizes))
            if best is None or rank < best[0]:
                best = (rank, i, j, kept)
        assert best is not None
        _, i, j, kept = best
        out.append((i, j))
        terms = [t for k, t in enumerate(terms) if k not in (i, j)] + [kept]
    return out
