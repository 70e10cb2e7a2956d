"""Kernels as operators of PyTorch: registered custom operators with a function for shapes, so that ``torch.compile`` and
``torch.export`` understand them.

``op = lathe.torch.op(kernel)``; ``op(a, b)`` then works on tensors of the CPU. With ``vjp`` it is differentiable.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .kernels import Kernel

__all__ = ["op"]

_NUMBERS = itertools.count()


def _scalar(kind: str) -> str:
    if kind == "bool":
        return "bool"
    return "float" if kind in ("f16", "bf16", "f32", "f64") else "int"


def _dtype(dtype: Any) -> torch.dtype:
    return getattr(torch, "bool" if dtype.name == "bool" else dtype.name)


def op(kernel: Kernel, name: str | None = None, *, strategy: Any = None, params: Mapping[str, Any] | None = None,
       threads: int | None = None, vjp: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The kernel as a custom operator ``lathe::name``; without a name it gets one of its own.

    Parameters that the kernel changes are declared as mutated. ``vjp`` is a function of the inputs, then the cotangents of
    the results, that returns the cotangents of the inputs.
    """
    name = name or f"{kernel.name}_{next(_NUMBERS)}"
    inputs = [p for p in kernel.parameters if p[1] != "out"]
    outputs = [p for p in kernel.parameters if p[1] == "out"]
    options: dict[str, Any] = {"strategy": strategy, "params": None if params is None else dict(params), "threads": threads}
    changed = [p[0] for p in inputs if p[1] == "inout"]
    arguments = []
    for i, (param, mode, kind) in enumerate(inputs):
        ty = "Tensor" if "[" in kind else _scalar(kind)
        arguments.append(f"Tensor(a{i}!) {param}" if mode == "inout" else f"{ty} {param}")
    returned = {0: "()", 1: "Tensor"}.get(len(outputs), f"({', '.join(['Tensor'] * len(outputs))})")
    schema = f"({', '.join(arguments)}) -> {returned}"

    def run(*args: Any) -> Any:
        return kernel(*args, **{k: v for k, v in options.items() if v is not None})

    def shapes(*args: Any) -> Any:
        given = [list(a.shape) if isinstance(a, torch.Tensor) else [] for a in args]
        made = [torch.empty(shape, dtype=_dtype(dtype)) for shape, dtype in kernel.results(given)]
        return None if not made else made[0] if len(made) == 1 else tuple(made)

    custom = torch.library.custom_op(f"lathe::{name}", run, mutates_args=changed, schema=schema)
    custom.register_fake(shapes)
    if vjp is not None:
        def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.inputs = inputs

        def back(ctx: Any, *g: Any) -> Any:
            return vjp(*ctx.inputs, *g)

        custom.register_autograd(back, setup_context=keep)
    return custom
