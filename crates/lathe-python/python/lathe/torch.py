"""Kernels as operators of PyTorch: registered custom operators with a function for shapes, so that ``torch.compile`` and
``torch.export`` understand them.

``op = lathe.torch.op(kernel)``; ``op(a, b)`` then works on tensors of the CPU. It is differentiable, as often as one likes: its
rule is the kernel's derivative, unless ``vjp`` gives another one.
"""

from __future__ import annotations

import hashlib
import threading

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.autograd import forward_ad

from . import _lathe
from ._kept import Kept, meaning
from ._shapes import Shapes, bound
from .derivatives import differentiable
from .derivatives import vjp as derived
from .kernels import Kernel

__all__ = ["Operator", "Ruled", "op"]

_operators = Kept(256)
_lock = threading.RLock()


def _scalar(kind: str) -> str:
    if kind == "bool":
        return "bool"
    if kind in ("c64", "c128"):
        return "complex"
    return "float" if kind in ("f16", "bf16", "f32", "f64") else "int"


_DTYPES = {
    "bool": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "index": torch.int64,
    "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64, "f16": torch.float16,
    "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "c64": torch.complex64, "c128": torch.complex128,
}


def op(kernel: Kernel, name: str | None = None, *, strategy: Any = None, params: Mapping[str, Any] | None = None,
       threads: int | None = None, vjp: Callable[..., Any] | None = None) -> Operator | Ruled:
    """The kernel as a custom operator ``lathe::name``; without a name it gets one by its content.

    Parameters that the kernel changes are declared as mutated. ``vjp`` is a function of the inputs, then the cotangents of
    the results, that returns the cotangents of the inputs; without it, the kernel is differentiated when a gradient is first
    asked for (by tensors, not by numbers of Python). The same kernel with the same options is the same operator, so
    one may be made wherever it is used.
    """
    if not isinstance(kernel, Kernel):
        raise _lathe.fail("E0917", f"an operator is made of a kernel, not of {type(kernel).__name__}", [], "lathe.kernel(…)")
    if vjp is not None and not callable(vjp):
        raise _lathe.fail("E0917", f"vjp is a function, not {type(vjp).__name__}", [], None)
    if vjp is not None and any(p[1] == "inout" for p in kernel.parameters):
        raise _lathe.fail("E0915", f"`{kernel.name}` changes its inputs, and such an operator has no gradient in PyTorch", [],
                          "a kernel that returns what is new instead")
    for param, _, kind in kernel.parameters:
        if kind.split("[")[0] not in _DTYPES:
            raise _lathe.fail("E0809", f"`{param}` has elements that PyTorch does not have: {kind}", [], None)
    options: dict[str, Any] = {n: v for n, v in (("strategy", strategy), ("params", None if params is None else dict(params)),
                                                 ("threads", threads)) if v is not None}
    # What is asked for must be there.
    if options:
        kernel.compile(strategy=strategy, params=params)
    texts = (kernel.source(), kernel.name, strategy if strategy is None or isinstance(strategy, str) else strategy.source(),
             sorted((n, str(v)) for n, v in (params or {}).items()), threads, sorted(kernel.defaults.items()))
    content = hashlib.sha256(repr(texts).encode()).hexdigest()[:16]
    rule = meaning(vjp)

    def made(vjp: Callable[..., Any] | None) -> Operator:
        own = name
        if own is None:
            own = f"{kernel.name}_{content}" + ("" if vjp is None else f"_{next(_numbers)}")
        return Operator(own, kernel, options, vjp)

    if rule is None and name is None and vjp is not None:
        return Ruled(_operators.get((content, None, ()), lambda: made(None)), vjp)
    return _operators.get(None if rule is None else (content, name, rule), lambda: made(vjp))


def _counted() -> Any:
    n = 0
    while True:
        yield n
        n += 1


_numbers = _counted()


class Operator(torch.library.CustomOpDef):  # type: ignore[misc]
    """A kernel as a custom operator; made by :func:`op`.

    A call with tensors that are nothing but memory goes to the kernel at once. One that PyTorch takes part in (a gradient is
    wanted, a function is traced or transformed, tensors are fake) goes through PyTorch's dispatcher.
    """

    _of_lathe = True

    def __init__(self, name: str, kernel: Kernel, options: dict[str, Any], vjp: Callable[..., Any] | None) -> None:
        #: The kernel that it calls.
        self.kernel = kernel
        self._options = options
        self._rule: Callable[..., Any] | None = None
        self._shapes = Shapes(kernel)
        self._inputs = [(p[0], p[1], p[2].split("[")[0], "[" not in p[2]) for p in kernel.parameters if p[1] != "out"]
        self._results = [_DTYPES[p[2].split("[")[0]] for p in kernel.parameters if p[1] == "out"]
        arguments = []
        for i, (param, mode, kind, scalar) in enumerate(self._inputs):
            ty = _scalar(kind) if scalar else "Tensor"
            arguments.append(f"Tensor(a{i}!) {param}" if mode == "inout" else f"{ty} {param}")
        returned = {0: "()", 1: "Tensor"}.get(len(self._results), f"({', '.join(['Tensor'] * len(self._results))})")
        super().__init__("lathe", name, f"({', '.join(arguments)}) -> {returned}", self._run)
        self.register_kernel(None)(self._run)
        self.register_fake(self._fake)
        if not any(p[1] == "inout" for p in self._inputs):
            self.register_vmap(self._batched)
        if vjp is None and not any(p[1] == "inout" for p in self._inputs):
            vjp = _Derivative(self)
        if vjp is not None:
            self._rule = _rule(vjp, kernel.name, len(self._inputs))
            self.register_autograd(self._rule, setup_context=_keep)

    def __repr__(self) -> str:
        return f"<lathe operator {self._qualname} of PyTorch>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling():
            self._numbers(args, named)
            if len(args) + len(named) < len(self._inputs):
                args, named = bound(self.kernel, args, named), {}
            return self._opoverload(*args, **named)
        done = self.kernel.call_plain(*args, **named, **self._options) if self._plain(args, named) else NotImplemented
        return self._watched(args, named) if done is NotImplemented else done

    def _forward(self, args: tuple[Any, ...]) -> Any:
        return self(*args)

    def _plain(self, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Whether no gradient is wanted."""
        for a in (*args, *named.values()) if named else args:
            if isinstance(a, torch.Tensor) and a.requires_grad:
                return not torch.is_grad_enabled()
        return True

    def _watched(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if named or len(args) != len(self._inputs):
            args = bound(self.kernel, args, named)
        self._numbers(args, {})
        mutated = any(mode == "inout" for _, mode, _, _ in self._inputs)
        for a, (name, _, _, _) in zip(args, self._inputs):
            if not isinstance(a, torch.Tensor):
                continue
            if mutated and a.requires_grad and torch.is_grad_enabled():
                raise _lathe.fail("E0915", f"`{name}` requires a gradient, and `{self.kernel.name}` changes its inputs, which "
                                  "has none", [], "call it under torch.no_grad(), or with tensor.detach()")
            if _has_tangent(a):
                raise _lathe.fail("E0915", f"`{name}` has a tangent, and `{self.kernel.name}` has no rule for forward-mode "
                                  "differentiation", [], "differentiate in reverse mode: torch.func.vjp, backward()")
        if not mutated and torch._C._functorch.maybe_current_level() is not None:
            return _Transformed.apply(self, *args)
        if self._rule is not None and torch.is_grad_enabled() and _unwatched(args):
            # The same rule without the way through the dispatcher, which costs several times the call.
            return _Recorded.apply(self, *args)
        return self._opoverload(*args)

    def _numbers(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Refuses tensors for numbers where their gradient would be lost: PyTorch's operators take numbers of Python."""
        if not torch.is_grad_enabled():
            return
        for n, (name, _, _, scalar) in enumerate(self._inputs):
            a = args[n] if n < len(args) else named.get(name)
            if scalar and isinstance(a, torch.Tensor) and a.requires_grad:
                raise _lathe.fail("E0915", f"`{name}` requires a gradient, and is a number for `{self.kernel.name}`, which has "
                                  "none", [], f"an array of one element, `{name}: …[1]`, has one; else tensor.detach()")

    def _checked(self, args: tuple[Any, ...]) -> None:
        for a, (name, _, kind, scalar) in zip(args, self._inputs):
            if scalar or not isinstance(a, torch.Tensor):
                continue
            if a.dtype != _DTYPES[kind]:
                raise _lathe.fail("E0809", f"`{name}` is {kind}, but the argument holds {a.dtype}", [],
                                  f"convert it before: tensor.to({_DTYPES[kind]})")
            if a.layout != torch.strided:
                raise _lathe.fail("E0813", f"`{name}` is {a.layout}, which a kernel does not read", [], "tensor.to_dense()")

    def _run(self, *args: Any) -> Any:
        if any(isinstance(a, torch.Tensor) and a.device.type == "meta" for a in args):
            return self._fake(*args)
        for a, (name, _, _, _) in zip(args, self._inputs):
            if isinstance(a, torch.Tensor) and a.device.type not in _PLACES:
                raise _elsewhere(name, a)
        self._checked(args)
        with torch.no_grad(), torch._C._DisableTorchDispatch():
            done = self.kernel.call_plain(*args, **self._options)
        if done is NotImplemented:
            kinds = ", ".join(type(a).__name__ for a in args)
            raise _lathe.fail("E0916", f"`{self.kernel.name}` cannot read these arguments: {kinds}", [], None)
        return done

    def _fake(self, *args: Any) -> Any:
        self._checked(args)
        given = [tuple(a.shape) if isinstance(a, torch.Tensor) else () for a in args]
        known = {at: a for at, a in zip(self._shapes.inputs, args)
                 if not isinstance(a, (torch.Tensor, float, complex, bool))}
        shapes = self._shapes.results(given, known, torch.sym_min, torch.sym_max)
        device = next((a.device for a in args if isinstance(a, torch.Tensor)), torch.device("cpu"))
        made = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in zip(shapes, self._results)]
        return None if not made else made[0] if len(made) == 1 else tuple(made)

    def _batched(self, info: Any, dims: tuple[Any, ...], *args: Any) -> Any:
        """One call for each element of the batch, into results that are made once."""
        parts = [a if d is None else a.movedim(d, 0) for a, d in zip(args, dims)]
        calls = [self(*(p if d is None else _dense(p[n]) for p, d in zip(parts, dims))) for n in range(info.batch_size)]
        if not calls:
            # Of no element nothing is computed, but its shape is.
            one = self._fake(*(torch.empty(p.shape[1:], dtype=p.dtype, device="meta") if d is not None else p
                               for p, d in zip(parts, dims)))
            each = one if isinstance(one, tuple) else (one,)
            place = next(p.device for p, d in zip(parts, dims) if d is not None)
            empty = tuple(torch.empty((0, *r.shape), dtype=r.dtype, device=place) for r in each)
            return (empty, (0,) * len(empty)) if isinstance(one, tuple) else (empty[0], 0)
        if isinstance(calls[0], tuple):
            return tuple(map(torch.stack, zip(*calls))), (0,) * len(calls[0])
        return torch.stack(calls), 0


class _Derivative:
    """The rule of an operator that has none of its user: the derivative of its kernel, made when it is first asked for."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._made: Operator | Ruled | None = None

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        operator = self._operator
        kernel, count = operator.kernel, len(operator._inputs)
        inputs, given = args[:count], args[count:]
        # Numbers of Python have no gradient.
        wrt = [n for n, _, kind, scalar in operator._inputs if not scalar and _scalar(kind) in ("float", "complex")]
        of = differentiable(kernel, "out")
        if not wrt or not of:
            return (None,) * count
        if self._made is None:
            threads = {n: v for n, v in operator._options.items() if n == "threads"}
            self._made = op(derived(kernel, wrt, of), **threads)
        results = [p[0] for p in kernel.parameters if p[1] == "out"]
        if any(g is None for g in given):
            empty = operator._fake(*inputs)
            made = empty if isinstance(empty, tuple) else (empty,)
            given = tuple(torch.zeros_like(e) if g is None else g for g, e in zip(given, made))
        # Autograd passes what is expanded, transposed or part of something else.
        seeds = [_dense(g) for g, n in zip(given, results) if n in of]
        back = self._made(*inputs, *seeds)
        found = dict(zip(wrt, back if isinstance(back, tuple) else (back,)))
        return tuple(found.get(n) for n, _, _, _ in operator._inputs)


class Ruled:
    """An operator with a rule that holds more than kernels and numbers: nothing of it is registered, so that it lives no
    longer than its user wants."""

    def __init__(self, operator: Operator, vjp: Callable[..., Any]) -> None:
        self.kernel = operator.kernel
        self._operator = operator
        self._rule = _rule(vjp, operator.kernel.name, len(operator._inputs))

    def __repr__(self) -> str:
        return f"<{self._operator!r} with a rule>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        transformed = torch._C._functorch.maybe_current_level() is not None
        if not transformed and self._operator._plain(args, named):
            return self._operator(*args, **named)
        if named or len(args) != len(self._operator._inputs):
            args = bound(self.kernel, args, named)
        if not transformed and not torch.compiler.is_compiling() and _unwatched(args):
            return _Recorded.apply(self, *args)
        return _Transformed.apply(self, *args)

    def _forward(self, args: tuple[Any, ...]) -> Any:
        return self._operator(*args)

    def _batched(self, info: Any, dims: tuple[Any, ...], *args: Any) -> Any:
        return self._operator._batched(info, dims, *args)


class _Transformed(torch.autograd.Function):
    """An operator with a rule inside of a transform of ``torch.func``, which does not look into registered rules."""

    @staticmethod
    def forward(operator: Operator | Ruled, *args: Any) -> Any:
        return operator._forward(args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.operator = inputs[0]
        _keep(ctx, inputs[1:], output)

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:
        rule = ctx.operator._rule
        if rule is None:
            raise _lathe.fail("E0915", f"`{ctx.operator.kernel.name}` has no rule by which a gradient comes back", [],
                              "lathe.torch.op(kernel, vjp=…)")
        return (None, *rule(ctx, *g))

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], operator: Operator | Ruled, *args: Any) -> Any:
        return operator._batched(info, dims[1:], *args)


class _Recorded(torch.autograd.Function):
    """An operator with a rule where nothing but PyTorch's record of gradients looks on: the form without a separate
    context, since PyTorch takes the signature of the other one apart at each call."""

    @staticmethod
    def forward(ctx: Any, operator: Operator | Ruled, *args: Any) -> Any:
        done = operator._forward(args)
        ctx.operator = operator
        _keep(ctx, args, done)
        return done

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:
        return (None, *ctx.operator._rule(ctx, *g))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Tensors are saved as PyTorch's own operators save them: one that is changed afterwards is found out."""
    tensors = [a for a in inputs if isinstance(a, torch.Tensor)]
    ctx.save_for_backward(*tensors)
    ctx.others = [None if isinstance(a, torch.Tensor) else (a,) for a in inputs]


def _rule(vjp: Callable[..., Any], name: str, count: int) -> Callable[..., Any]:
    def back(ctx: Any, *g: Any) -> Any:
        saved = iter(ctx.saved_tensors)
        inputs = [next(saved) if other is None else other[0] for other in ctx.others]
        given = vjp(*inputs, *g)
        given = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        if len(given) != count:
            raise _lathe.fail("E0915", f"the rule of `{name}` gives {len(given)} cotangents for {count} inputs", [],
                              "one for each input, in order; None for one that has none")
        return given

    return back


_MEMORY = (torch.Tensor, torch.nn.Parameter)

#: The kinds of devices whose memory kernels read.
_PLACES = ("cpu", "cuda")


def _unwatched(args: tuple[Any, ...]) -> bool:
    """Whether no mode and no tracer looks at what is done with tensors, all of which are memory that kernels read."""
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack() or torch._C._get_tracing_state() is not None:
        return False
    return all(type(a) in _MEMORY and a.device.type in _PLACES for a in args if isinstance(a, torch.Tensor))


def _has_tangent(a: torch.Tensor) -> bool:
    if forward_ad._current_level < 0:
        return False
    return forward_ad.unpack_dual(a).tangent is not None


def _dense(a: torch.Tensor) -> torch.Tensor:
    """A tensor on a device as kernels there read it: in row-major order without gaps, where memory is aligned."""
    if a.device.type == "cpu" or a.is_meta or isinstance(a, torch._subclasses.FakeTensor):
        return a
    a = a.resolve_conj().resolve_neg().contiguous()
    plain = type(a) in _MEMORY and torch._C._functorch.maybe_current_level() is None
    return a.clone() if plain and a.data_ptr() % 16 else a


def _elsewhere(name: str, a: torch.Tensor) -> Exception:
    return _lathe.fail("E0916", f"`{name}` is a tensor on {a.device}; kernels run on the CPU and on CUDA devices", [],
                       "tensor.cpu()")


def direct(kernel: Kernel, args: tuple[Any, ...], given_: dict[str, Any] | None) -> Any:
    """A call of the kernel itself with tensors that are more than memory."""
    named = dict(given_ or {})
    options = {n: named.pop(n) for n in ("strategy", "params", "threads") if n in named}
    given = {n: named.pop(n) for n in ("out", "specialize", "copy", "timeout") if n in named}
    rest = [n for n, v in given.items() if v is not None and v is not False]
    tensors = [a for a in (*args, *named.values()) if isinstance(a, torch.Tensor)]
    for a in tensors:
        if a.device.type not in (*_PLACES, "meta"):
            raise _elsewhere("an argument", a)
        if a.layout != torch.strided:
            raise _lathe.fail("E0813", f"an argument is {a.layout}, which a kernel does not read", [], "tensor.to_dense()")
    if rest:
        raise _lathe.fail("E0916", f"`{rest[0]}` is for tensors that are memory of this machine; these are traced, fake or "
                          "transformed", [], "give tensors with elements, or leave the option out")
    operator = op(kernel, **options)
    transformed = torch._C._functorch.maybe_current_level() is not None
    if not transformed and torch.is_grad_enabled() and any(a.requires_grad for a in tensors):
        raise _lathe.fail("E0915", f"a direct call of `{kernel.name}` gives no gradient, and one of its arguments requires one",
                          [], "lathe.torch.op(kernel) is differentiable; if no gradient is needed: tensor.detach()")
    return operator(*args, **named)
