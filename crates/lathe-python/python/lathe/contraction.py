"""numpy.einsum's notation, computed by kernels.

The operands are contracted in pairs, in an order that is searched for. Each pair becomes a product of matrices where it
is one (dimensions that lie behind each other in memory are one dimension), else a kernel of its own. Kernels are made
once for each form of contraction, not for its sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._lathe import lying, strided
from ._notation import parse
from ._order import flops, path_of
from ._packages import of_package
from ._plan import TYPES, WORK, AtOnce, Plan, View
from ._terms import sizes_of
from .errors import OptionError

__all__ = ["einsum", "einsum_path"]

#: Plans by notation, options, and how the operands lie.
_PLANS: dict[Any, Plan | View] = {}
#: Plans that are one call of a kernel, by notation and how the operands lie: for calls without options.
_AT_ONCE: dict[Any, AtOnce] = {}
#: More than so many are not kept.
_MOST = 4096


def einsum(*args: Any, out: np.ndarray | None = None, dtype: Any = None, order: Any = "K", casting: Any = "safe",
           optimize: Any = True, threads: int | None = None) -> Any:
    """Sums of products by labels, in all forms that ``numpy.einsum`` reads.

    >>> import lathe, numpy as np
    >>> a, b = np.ones((2, 3, 4), np.float32), np.ones((2, 4, 5), np.float32)
    >>> lathe.einsum("bij,bjk->bik", a, b).shape
    (2, 3, 5)

    Of tensors of PyTorch and arrays of JAX the result is one of theirs, has gradients, and may be traced by their compilers.

    Operands of several types are converted to their common type, as numpy does. Objects and ``longdouble`` are computed by
    numpy itself. A result that is only another view of the operand is a view here, too.

    ``optimize`` says in which order the operands are contracted. ``True`` (or ``"auto"``) searches pairs: all orders up to
    eight operands, beyond that always the best next one. ``"greedy"`` and ``"optimal"`` are as in numpy, also with a limit
    for the elements of intermediates, ``("optimal", 10**6)``; ``False`` contracts all operands at once; a path of
    :func:`einsum_path`, numpy or opt_einsum is followed.
    """
    if (out is None and threads is None and dtype is None and optimize is True and casting == "safe" and order == "K"
            and len(args) > 1 and type(args[0]) is str and type(args[1]) is np.ndarray and (lies := lying(args)) is not None
            and (found := _AT_ONCE.get((args[0], lies))) is not None):
        # Small contractions are mostly what comes before them.
        kernel, how, views, scalar = found
        if views is None:
            made = kernel(*args[1:], **how)
        else:
            made = kernel(*(args[r + 1] if s is None else strided(args[r + 1], s, d) for r, s, d in views), **how)
        return made[()] if scalar else made
    if (other := of_package(args)) is not None:
        return other(args, out, dtype, order, casting, optimize, threads)
    if out is not None and not isinstance(out, np.ndarray):
        raise OptionError(f"einsum: `out` is an array of numpy, not {type(out).__name__}")
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise OptionError(f"einsum: `threads` is a whole number, at least 1, not {threads!r}")
    plan, operands = _planned(args, out, dtype, casting, optimize)
    if plan is None:
        known = optimize in (True, False, "greedy", "optimal") if isinstance(optimize, (bool, str)) else True
        return np.einsum(*args, out=out, dtype=dtype, order=order, casting=casting, optimize=optimize if known else True)
    options = {} if threads is None else {"threads": threads}
    if out is not None:
        return _into(plan, operands, out, casting, options)
    array = plan.run(operands, None, options)
    if array.dtype != plan.common:
        array = array.astype(plan.common)
    if order != "K":
        array = _laid(array, order, operands)
    return array if array.ndim else array[()]


def _into(plan: Plan | View, operands: Sequence[np.ndarray], out: Any, casting: Any, options: dict[str, Any]) -> np.ndarray:
    """Writes the result to an array of the caller, which may be one of the operands."""
    if plan.result.shape != out.shape:
        raise OptionError(f"einsum: `out` has the shape {out.shape}, the result {plan.result.shape}")
    if not np.can_cast(plan.common, out.dtype, casting):
        raise OptionError(f"einsum: {plan.common} is not cast to {out.dtype}, the type of `out`, by the rule '{casting}'")
    if plan.direct is not None and type(out) is np.ndarray and out.dtype == plan.work and out.dtype.isnative:
        whole = out.transpose(plan.direct)
        flags = whole.flags
        if flags.c_contiguous and flags.writeable and flags.aligned and not any(np.may_share_memory(out, a) for a in operands):
            plan.run(operands, whole, options)
            return out
    np.copyto(out, plan.run(operands, None, options), casting=casting if plan.work == plan.common else "unsafe")
    return out


def _laid(array: np.ndarray, order: Any, operands: Sequence[np.ndarray]) -> np.ndarray:
    """The array in the memory order that numpy's letter asks for."""
    letter = order.upper() if isinstance(order, str) else "K" if order is None else ""
    if letter not in ("C", "F", "A", "K") or not letter:
        raise OptionError(f"einsum: order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    if letter == "A":
        letter = "F" if all(a.flags.f_contiguous for a in operands) else "C"
    return array if letter == "K" else np.asarray(array, order=letter)  # type: ignore[call-overload]


def _planned(args: tuple[Any, ...], out: Any, dtype: Any, casting: Any, optimize: Any) -> tuple[Plan | View | None, Sequence[np.ndarray]]:
    """The plan for a call and its operands; no plan for what numpy computes."""
    key: Any = None
    if args and type(args[0]) is str and (lies := lying(args)) is not None:
        key = args[0], lies
        if out is not None or dtype is not None or casting != "safe" or optimize is not True:
            key = *key, None if out is None else out.dtype, dtype if dtype is None else np.dtype(dtype), casting, _hashable(optimize)
        if (found := _PLANS.get(key)) is not None:
            return found, args[1:]
    inputs, output, operands = parse(args)
    # As in numpy, an array for the result takes part in the common type.
    common = np.result_type(*(a.dtype for a in operands), *([] if out is None else [out.dtype])) if dtype is None else np.dtype(dtype)
    plan: Plan | View
    if len(operands) == 1 and len(output) == len({*inputs[0]}):
        kept = operands[0].dtype if dtype is None or out is not None else common
        plan = View(inputs[0], output, operands[0], kept)
    elif common.name not in TYPES and common.name not in WORK:
        return None, operands
    else:
        plan = Plan(inputs, output, operands, common, optimize)
    for a in operands:
        if not np.can_cast(a.dtype, common, casting):
            raise OptionError(f"einsum: {a.dtype} is not cast to {common} by the rule '{casting}'")
    if key is not None:
        if len(_PLANS) >= _MOST:
            _PLANS.clear()
            _AT_ONCE.clear()
        _PLANS[key] = plan
        if len(key) == 2 and (at_once := plan.at_once()) is not None:
            _AT_ONCE[key] = at_once
    return plan, operands


def _hashable(optimize: Any) -> Any:
    if isinstance(optimize, (list, tuple)):
        return tuple(_hashable(x) for x in optimize)
    # True is 1 and a key is found by equality.
    return optimize, type(optimize)


def einsum_path(*args: Any, optimize: Any = True) -> tuple[list[Any], str]:
    """The order in which :func:`einsum` contracts, as ``numpy.einsum_path`` gives it: a path for ``optimize=``, and a text
    about what it costs.

    >>> import lathe, numpy as np
    >>> a = np.ones((10, 1000)), np.ones((1000, 10)), np.ones((10, 1000))
    >>> path, text = lathe.einsum_path("ij,jk,kl->il", *a)
    >>> path
    ['einsum_path', (0, 1), (0, 1)]
    """
    inputs, output, operands = parse(args)
    sizes = sizes_of(inputs, operands)
    terms, wanted = [frozenset(x) for x in inputs], frozenset(output)
    path = path_of(terms, wanted, sizes, optimize)
    return ["einsum_path", *path], _report(terms, wanted, sizes, path)


def _report(terms: list[frozenset[int]], output: frozenset[int], sizes: dict[int, int], path: list[Any]) -> str:
    def name(labels: frozenset[int]) -> str:
        return "".join("." if x < 0 else chr(x) for x in sorted(labels))

    at_once = math.prod(float(sizes[x]) for x in frozenset().union(*terms))
    lines = [f"multiplications, all at once:  {at_once:.3e}",
             f"multiplications, by this path: {flops(terms, output, sizes, path):.3e}"]
    alive = list(terms)
    for step in path:
        taken = [alive[i] for i in step]
        alive = [t for i, t in enumerate(alive) if i not in step]
        alive.append(frozenset().union(*taken) & output.union(*alive))
        lines.append(f"  {','.join(map(name, taken))} -> {name(alive[-1])}")
    return "\n".join(lines)
