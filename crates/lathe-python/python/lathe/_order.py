"""The order in which operands are contracted."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any
from .errors import OptionError

#: One contraction: positions in the list of operands, from which they are taken and to whose end the result goes.
Step = tuple[int, ...]

#: Up to so many operands the default compares all orders, and so does ``optimal``; beyond it the best next pair is taken.
_AUTO, _OPTIMAL = 8, 11


def path_of(terms: Sequence[frozenset[int]], output: frozenset[int], sizes: dict[int, int], optimize: Any) -> list[Step]:
    """The order that ``optimize`` asks for: what numpy understands by it, and ``auto``, which is ``True``."""
    n = len(terms)
    how, limit = optimize, math.inf
    if isinstance(how, (tuple, list)):
        if len(how) == 2 and isinstance(how[0], str) and isinstance(how[1], (int, float)):
            how, limit = how
        else:
            return _given(how, n)
    if how is None or how is False:
        return [tuple(range(n))]
    most = {True: _AUTO, "auto": _AUTO, "optimal": _OPTIMAL, "greedy": 0}.get(how) if isinstance(how, (bool, str)) else None
    if most is None:
        raise OptionError(f"einsum: optimize={optimize!r}: True, False, 'auto', 'greedy', 'optimal', one of these with a limit "
                         "for the elements of intermediates, or a path")
    if n <= 2:
        return [tuple(range(n))]
    found = (_best if n <= most else _greedy)(terms, output, sizes, limit)
    return [tuple(range(n))] if found is None else found


def _given(path: Sequence[Any], n: int) -> list[Step]:
    """A path as ``numpy.einsum_path`` gives it; its first word may be missing."""
    steps: list[Step] = []
    alive = n
    for step in path[1:] if path and path[0] == "einsum_path" else path:
        at = tuple(step) if isinstance(step, (tuple, list)) else ()
        if not at or len(set(at)) != len(at) or any(not isinstance(i, int) or not 0 <= i < alive for i in at):
            raise OptionError(f"einsum: the step {step!r} of the path is not a choice among {alive} operands")
        steps.append(at)
        alive += 1 - len(at)
    if alive != 1:
        raise OptionError(f"einsum: the path leaves {alive} operands to be contracted")
    return steps


def flops(terms: Sequence[frozenset[int]], output: frozenset[int], sizes: dict[int, int], path: Sequence[Step]) -> float:
    """The multiplications of a path: the extents of all labels of each step."""
    alive, total = list(terms), 0.0
    for step in path:
        taken = [alive[i] for i in step]
        alive = [t for i, t in enumerate(alive) if i not in step]
        labels = frozenset().union(*taken)
        total += _cost(labels, sizes)
        alive.append(labels & output.union(*alive))
    return total


def _cost(labels: frozenset[int], sizes: dict[int, int]) -> float:
    return math.prod(float(max(sizes[x], 1)) for x in labels)


def _best(terms: Sequence[frozenset[int]], output: frozenset[int], sizes: dict[int, int], limit: float) -> list[Step] | None:
    """The pairs with the fewest multiplications, by dynamic programming over sets of operands; None if every order has an
    intermediate beyond the limit."""
    n = len(terms)
    whole = (1 << n) - 1

    @functools.lru_cache(maxsize=None)
    def labels(s: int) -> frozenset[int]:
        if not s & (s - 1):
            return terms[s.bit_length() - 1]
        inside: frozenset[int] = frozenset().union(*(terms[i] for i in range(n) if s >> i & 1))
        return inside & output.union(*(terms[i] for i in range(n) if not s >> i & 1))

    @functools.lru_cache(maxsize=None)
    def best(s: int) -> tuple[float, Any]:
        if not s & (s - 1):
            return 0.0, s.bit_length() - 1
        least: tuple[float, Any] = (math.inf, None)
        if s != whole and _cost(labels(s), sizes) > limit:
            return least
        first = s & -s
        a = (s - 1) & s
        while a:
            if a & first:
                (ca, ta), (cb, tb) = best(a), best(s ^ a)
                if ca + cb < least[0]:
                    cost = ca + cb + _cost(labels(a) | labels(s ^ a), sizes)
                    if cost < least[0]:
                        least = (cost, (ta, tb))
            a = (a - 1) & s
        return least

    cost, tree = best(whole)
    if cost == math.inf:
        return None
    found: list[Step] = []
    alive = [1 << i for i in range(n)]

    def walk(tree: Any) -> int:
        if isinstance(tree, int):
            return 1 << tree
        a, b = walk(tree[0]), walk(tree[1])
        found.append(tuple(sorted((alive.index(a), alive.index(b)))))
        for s in (a, b):
            alive.remove(s)
        alive.append(a | b)
        return a | b

    walk(tree)
    return found


def _greedy(terms: Sequence[frozenset[int]], output: frozenset[int], sizes: dict[int, int], limit: float) -> list[Step]:
    """The next pair is always the one that frees most memory; operands without a common label come last."""
    alive = list(terms)
    # In how many operands a label is; one more keeps those of the result.
    uses: dict[int, int] = dict.fromkeys(output, 1)
    for t in alive:
        for x in t:
            uses[x] = uses.get(x, 0) + 1
    out: list[Step] = []
    while len(alive) > 1:
        n = len(alive)
        least: tuple[tuple[float, float], int, int, frozenset[int]] | None = None
        sharing = [(i, j) for i in range(n) for j in range(i + 1, n) if not alive[i].isdisjoint(alive[j])]
        for i, j in sharing or [(i, j) for i in range(n) for j in range(i + 1, n)]:
            both = alive[i] | alive[j]
            kept = frozenset(x for x in both if uses[x] > (x in alive[i]) + (x in alive[j]))
            size = _cost(kept, sizes)
            if size > limit and n > 2:
                continue
            rank = (size - _cost(alive[i], sizes) - _cost(alive[j], sizes), _cost(both, sizes))
            if least is None or rank < least[0]:
                least = (rank, i, j, kept)
        if least is None:
            out.append(tuple(range(n)))
            return out
        _, i, j, kept = least
        for t in (alive[i], alive[j]):
            for x in t:
                uses[x] -= 1
        for x in kept:
            uses[x] += 1
        out.append((i, j))
        alive = [t for k, t in enumerate(alive) if k not in (i, j)] + [kept]
    return out
