"""numpy.einsum's notation, computed by kernels.

The operands are contracted in pairs, in an order that is searched for. Each pair becomes a product of matrices where it
is one (dimensions that lie behind each other in memory are one dimension), else a kernel of its own. Kernels are made
once for each form of contraction, not for its sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._notation import parse
from ._order import pairs as pairs_of
from ._plan import TYPES, Plan, sizes_of

__all__ = ["einsum", "einsum_path"]

#: Plans by notation, options, and how the operands lie.
_PLANS: dict[Any, tuple[Plan, np.dtype[Any]]] = {}
#: More than so many are not kept.
_MOST = 4096


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
    plan, common, operands = _planned(args, dtype, casting, optimize)
    if plan is None:
        return np.einsum(*args, out=out, dtype=dtype, order=order, casting=casting, optimize=bool(optimize))
    if out is not None and plan.result.shape != out.shape:
        raise ValueError(f"einsum: `out` has the shape {out.shape}, the result {plan.result.shape}")
    array = plan.run(operands, {} if threads is None else {"threads": threads})
    if out is not None:
        np.copyto(out, array, casting=casting)
        return out
    if array.dtype != common:
        array = array.astype(common)
    if order in ("C", "F"):
        array = np.asarray(array, order=order)
    if plan.steps:
        # What is spread out gets a place of its own for each element.
        if 0 in plan.result.strides and array.size > 1:
            array = array.copy()
    return array if array.ndim else array[()]


def _planned(args: tuple[Any, ...], dtype: Any, casting: str,
             optimize: Any) -> tuple[Plan | None, np.dtype[Any], list[np.ndarray]]:
    """The plan for a call, the type of its result, and its operands; no plan for what numpy computes."""
    key = None
    if args and type(args[0]) is str:
        operands = list(args[1:])
        if all(type(a) is np.ndarray for a in operands):
            path = tuple(map(tuple, optimize)) if _is_path(optimize) else None
            lying = tuple((a.shape, a.strides, a.dtype, a.flags.aligned) for a in operands)
            key = (args[0], lying, None if dtype is None else np.dtype(dtype), casting, path)
            found = _PLANS.get(key)
            if found is not None:
                return (*found, operands)
    inputs, output, operands = parse(args)
    common = np.result_type(*operands) if dtype is None else np.dtype(dtype)
    # Sums of small floats are added up in single precision.
    small = common.name in ("float16", "bfloat16")
    if common.name not in TYPES and not small:
        return None, common, operands
    for a in operands:
        if not np.can_cast(a.dtype, common, casting):  # type: ignore[arg-type]
            raise TypeError(f"einsum: {a.dtype} is not cast to {common} by the rule '{casting}'")
    plan = Plan(inputs, output, operands, np.dtype(np.float32) if small else common.newbyteorder("="),
                _path(optimize, len(operands)))
    if key is not None:
        if len(_PLANS) >= _MOST:
            _PLANS.clear()
        _PLANS[key] = plan, common
    return plan, common, operands


def _is_path(optimize: Any) -> bool:
    return isinstance(optimize, (list, tuple)) and bool(optimize) and all(isinstance(p, tuple) for p in optimize)


def _path(optimize: Any, n: int) -> list[tuple[int, int]] | None:
    """A path as `numpy.einsum_path` gives it, if all its steps are pairs."""
    if not isinstance(optimize, (list, tuple)):
        return None
    steps = [tuple(p) for p in optimize if isinstance(p, (list, tuple))]
    if len(steps) != n - 1 or any(len(p) != 2 for p in steps):
        return None
    return [(p[0], p[1]) for p in steps]


def einsum_path(*args: Any) -> list[tuple[int, int]]:
    """The order in which :func:`einsum` contracts: pairs of positions, as ``numpy.einsum_path`` writes them."""
    inputs, output, operands = parse(args)
    sizes = sizes_of(inputs, operands)
    return pairs_of([frozenset(x) for x in inputs], frozenset(output), sizes)
