"""Contractions of tensors of PyTorch and arrays of JAX and CuPy: of their package, with gradients, and traced by their compilers.

The package's own types decide the common type of the operands. The gradient of an operand is a contraction of the others with
that of the result, so it has gradients, too.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _lathe
from ._notation import parse
from .errors import OptionError

__all__ = ["of_package"]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def of_package(args: tuple[Any, ...]) -> Callable[..., Any] | None:
    """The function for operands of another package, if one of them is."""
    torch, jax, cupy = sys.modules.get("torch"), sys.modules.get("jax"), sys.modules.get("cupy")
    for a in args:
        if isinstance(a, (np.ndarray, str, list, tuple)):
            continue
        if torch is not None and isinstance(a, torch.Tensor):
            return _of_torch
        if jax is not None and isinstance(a, jax.Array):
            return _of_jax
        if cupy is not None and isinstance(a, cupy.ndarray):
            return _of_cupy
    return None


def _mixed(n: int, where: Any, other: Any, help_: str) -> Exception:
    return _lathe.fail("E0916", f"einsum: operand {n} is in the memory of {where}, and one before it in that of {other}", [], help_)


def _text(args: Sequence[Any]) -> tuple[str, list[Any]]:
    """The contraction with explicit labels, one letter each, and its operands."""
    given = list(args)
    at = range(1, len(given)) if isinstance(given[0], (str, bytes)) else range(0, len(given) - len(given) % 2, 2)
    operands = [given[i] for i in at]
    for i in at:
        # Only shapes matter here.
        given[i] = np.broadcast_to(np.zeros((), bool), tuple(np.shape(given[i])))
    inputs, output, _ = parse(given)
    known = {x: n for n, x in enumerate(dict.fromkeys([x for labels in inputs for x in labels]))}
    if len(known) > len(_LETTERS):
        raise OptionError(f"einsum: {len(known)} labels are more than {len(_LETTERS)}")
    names = ["".join(_LETTERS[known[x]] for x in labels) for labels in (*inputs, output)]
    return f"{','.join(names[:-1])}->{names[-1]}", operands


def _shape(text: str, shapes: Sequence[Sequence[Any]]) -> list[Any]:
    left, output = text.split("->")
    sizes: dict[str, Any] = {}
    for labels, shape in zip(left.split(","), shapes):
        for label, n in zip(labels, shape):
            # An extent of 1 is any.
            if label not in sizes or isinstance(sizes[label], int) and sizes[label] == 1:
                sizes[label] = n
    return [sizes[x] for x in output]


def _gradient(text: str, n: int, contract: Callable[..., Any], g: Any, operands: Sequence[Any], ones: Callable[..., Any]) -> Any:
    """Of operand n: the others and that of the result, contracted to its labels. `ones` makes what has a label of its own."""
    left, output = text.split("->")
    terms = left.split(",")
    if len(set(terms[n])) < len(terms[n]):
        raise _lathe.fail("E0915", f"einsum: operand {n} has a label twice, and no gradient goes back to a diagonal", [],
                          "take the diagonal before")
    others = [(t, a) for i, (t, a) in enumerate(zip(terms, operands)) if i != n] + [(output, g)]
    have = set("".join(t for t, _ in others))
    # Where an operand was stretched from 1, its gradient is summed.
    mine = operands[n].shape
    whole = _shape(text.split("->")[0] + "->" + terms[n], [a.shape for a in operands])
    missing = "".join(x for x in terms[n] if x not in have)
    if missing:
        others.append((missing, ones(tuple(mine[terms[n].index(x)] for x in missing))))
    made = contract(f"{','.join(t for t, _ in others)}->{terms[n]}", *(a for _, a in others))
    for d, (have_, full) in enumerate(zip(mine, whole)):
        if have_ == 1 and full != 1:
            made = made.sum(d, keepdims=True)
    return made


def _refused(out: Any, dtype: Any, order: Any, casting: Any) -> None:
    if out is not None or dtype is not None or order not in ("K", None) or casting != "safe":
        raise OptionError("einsum: out, dtype, order and casting are for arrays of numpy; convert operands or result")


# PyTorch.


def _of_torch(args: tuple[Any, ...], out: Any, dtype: Any, order: Any, casting: Any, optimize: Any, threads: int | None) -> Any:
    import torch

    _refused(out, dtype, order, casting)
    text, operands = _text(args)
    tensors = [a if isinstance(a, torch.Tensor) else torch.as_tensor(a) for a in operands]
    common = functools.reduce(torch.promote_types, [a.dtype for a in tensors])
    tensors = [a.to(common) for a in tensors]
    for n, a in enumerate(tensors):
        if a.device != tensors[0].device:
            raise _mixed(n, a.device, tensors[0].device, "tensor.to(device)")
    plain = (not torch.compiler.is_compiling() and all(type(a) in (torch.Tensor, torch.nn.Parameter) and (a.is_cpu or a.is_cuda) for a in tensors)
             and not (torch.is_grad_enabled() and any(a.requires_grad for a in tensors))
             and torch._C._functorch.maybe_current_level() is None and not torch._C._len_torch_dispatch_stack())
    if plain:
        return _torch_run(text, tensors, optimize, threads)
    _torch_registered()
    return torch.ops.lathe.einsum(text, tensors)


def _torch_registered() -> bool:
    """Once this has been called, there is an operator ``lathe::einsum``."""
    return _torch_op() is not None


# What torch._dynamo.assume_constant_result does, without importing PyTorch: the compiler calls it instead of tracing it.
setattr(_torch_registered, "_dynamo_marked_constant", True)


def _torch_run(text: str, tensors: Sequence[Any], optimize: Any = True, threads: int | None = None) -> Any:
    import torch

    from .contraction import einsum

    if all(a.is_cuda for a in tensors):
        from ._placed import Torch, contract

        with torch.cuda.device(tensors[0].device):
            made = contract(text, tensors, optimize, Torch())
            return made.clone() if any(made.data_ptr() == a.data_ptr() for a in tensors) else made
    for a in tensors:
        if a.device.type != "cpu":
            raise _lathe.fail("E0916", f"an operand is a tensor on {a.device}; kernels run on the CPU and on CUDA devices", [], "tensor.cpu()")
        if a.dtype == torch.bfloat16 or a.layout != torch.strided:
            raise _lathe.fail("E0809", f"einsum: tensors of {a.dtype} and {a.layout} have no form in numpy", [], "convert them before")
    arrays = [a.detach().resolve_conj().resolve_neg().numpy() for a in tensors]
    made = np.asarray(einsum(text, *arrays, optimize=optimize, threads=threads))
    if any(np.may_share_memory(made, a) for a in arrays) or any(s < 0 for s in made.strides) or not made.flags.writeable:
        made = made.copy()
    return torch.from_numpy(made)


@functools.lru_cache(maxsize=None)
def _torch_op() -> Any:
    """The custom operator ``lathe::einsum``."""
    import torch

    def run(text: str, operands: list[torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            made: torch.Tensor = _torch_run(text, operands)
        return made

    def fake(text: str, operands: list[torch.Tensor]) -> torch.Tensor:
        return operands[0].new_empty(_shape(text, [a.shape for a in operands]))

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.text = inputs[0]
        ctx.save_for_backward(*inputs[1])

    def back(ctx: Any, g: Any) -> Any:
        saved = ctx.saved_tensors
        others = [a.conj().resolve_conj() if a.is_complex() else a for a in saved]
        return None, [_gradient(ctx.text, n, lambda t, *all_: op(t, list(all_)), g, others, lambda s: g.new_ones(s))
                      for n in range(len(saved))]

    op = torch.library.custom_op("lathe::einsum", run, mutates_args=(), schema="(str text, Tensor[] operands) -> Tensor")
    op.register_fake(fake)
    op.register_autograd(back, setup_context=keep)
    return op


# JAX.


def _of_jax(args: tuple[Any, ...], out: Any, dtype: Any, order: Any, casting: Any, optimize: Any, threads: int | None) -> Any:
    import jax
    import jax.numpy as jnp

    _refused(out, dtype, order, casting)
    text, operands = _text(args)
    common = jnp.result_type(*operands)
    arrays = [jnp.asarray(a, common) for a in operands]
    if any(isinstance(a, jax.core.Tracer) for a in arrays):
        return _jax_op()(text, *arrays)
    places = [a.devices() for a in arrays]
    for n, where in enumerate(places):
        if where != places[0]:
            raise _mixed(n, next(iter(where)), next(iter(places[0])), "jax.device_put(array, device)")
    if any(d.platform != "cpu" for d in places[0]):
        from ._placed import Jax, contract

        return contract(text, arrays, optimize, Jax())
    from .contraction import einsum

    return jnp.asarray(einsum(text, *map(np.asarray, arrays), optimize=optimize, threads=threads), common)


@functools.lru_cache(maxsize=None)
def _jax_op() -> Any:
    import jax
    import jax.numpy as jnp

    from .contraction import einsum

    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def contract(text: str, *arrays: Any) -> Any:
        if jax.default_backend() != "cpu":
            # Programs of devices: each step is a call of a kernel there.
            from ._placed import Jax, contract as placed

            return placed(text, arrays, True, Jax())
        shape = jax.ShapeDtypeStruct(tuple(_shape(text, [a.shape for a in arrays])), arrays[0].dtype)
        return jax.pure_callback(lambda *all_: np.asarray(einsum(text, *map(np.asarray, all_)), shape.dtype), shape, *arrays,
                                 vmap_method="sequential")

    def forward(text: str, *arrays: Any) -> Any:
        return contract(text, *arrays), arrays

    def back(text: str, arrays: Any, g: Any) -> Any:
        # JAX's cotangents of complex numbers are not conjugated.
        return tuple(_gradient(text, n, contract, g, arrays, lambda s: jnp.ones(s, g.dtype)) for n in range(len(arrays)))

    contract.defvjp(forward, back)
    return contract


# CuPy.


def _of_cupy(args: tuple[Any, ...], out: Any, dtype: Any, order: Any, casting: Any, optimize: Any, threads: int | None) -> Any:
    import cupy

    from ._placed import Cupy, contract

    _refused(out, dtype, order, casting)
    text, operands = _text(args)
    for n, a in enumerate(operands):
        if not isinstance(a, cupy.ndarray):
            raise _mixed(n, "the host", operands[0].device if isinstance(operands[0], cupy.ndarray) else "a device", "cupy.asarray(array)")
        if a.device != operands[0].device:
            raise _mixed(n, a.device, operands[0].device, "cupy.asarray(array)")
    common = np.result_type(*(a.dtype for a in operands))
    with operands[0].device:
        return contract(text, [a.astype(common, copy=False) for a in operands], optimize, Cupy())
