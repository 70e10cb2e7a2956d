"""Decorated functions of Python as sources: their syntax tree is written in the language of ``.lathe`` files.

What a function may say is what a kernel may say. Its names are the kernel's; names from around it stand for numbers,
element types and mathematical functions. Nothing of the function is ever run.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import Any, get_args, get_origin

from ._nested import nested
from ._reading import Scope, Source, comment
from ._variables import find_variables
from ._writer import FunWriter, Writer, bracketed
from ._written import Written
from .types import ArrayType, ScalarType

__all__ = ["fun_source_of", "inout", "out", "source_of"]


class _Marked:
    """A parameter that is written."""

    def __init__(self, mode: str, ty: ArrayType) -> None:
        self.mode, self.ty = mode, ty

    def __repr__(self) -> str:
        return f"lathe.{self.mode}({self.ty!r})"


def inout(ty: Any) -> Any:
    """The annotation of a parameter that a decorated kernel reads and changes."""
    return _Marked("inout", ty)


def out(ty: Any) -> Any:
    """The annotation of a parameter that stands for a result: the body writes it, calls return it."""
    return _Marked("out", ty)


def source_of(f: Callable[..., Any]) -> Written:
    """The kernel that a function says, as a source."""
    source = Source(f)
    tree = source.tree
    if not isinstance(tree, ast.FunctionDef):
        raise source.fail(tree, "a kernel is made of a function: @lathe.kernel before `def`")
    scope = Scope(f)
    tree = nested(tree, scope, source.fail)
    arrays: dict[str, ArrayType] = {}
    scalars: set[str] = set()
    inputs: list[str] = []
    outputs: list[str] = []
    writer = Writer(source, scope, arrays, scalars)
    arguments = tree.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        raise source.fail(tree, "the parameters of a kernel are plain names with types")
    parameters = [*arguments.posonlyargs, *arguments.args]
    last_ones = [a.arg for a in parameters[len(parameters) - len(arguments.defaults):]]
    defaults = {name: (value, functools.partial(source.fail, node))
                for name, value, node in zip(last_ones, f.__defaults__ or (), arguments.defaults)}
    for a in parameters:
        given = f.__annotations__.get(a.arg)
        if given is None:
            raise source.fail(a, f"the parameter `{a.arg}` has no type", f"{a.arg}: lathe.f32['N']")
        try:
            ty = scope.annotation(given)
        except Exception as e:
            raise source.fail(a, f"the type of `{a.arg}` is not understood: {e}") from e
        writer.name(a, a.arg)
        mode = ""
        if isinstance(ty, _Marked):
            mode, ty = ty.mode, ty.ty
        if isinstance(ty, ArrayType):
            arrays[a.arg] = ty
        elif isinstance(ty, ScalarType) and not mode:
            scalars.add(a.arg)
            writer.kinds[a.arg] = ty.name
        else:
            raise source.fail(a, f"`{ty!r}` is not a type of a parameter", f"{a.arg}: lathe.f32['N'], or lathe.f32")
        if a.arg in defaults and a.arg not in scalars:
            raise source.fail(a, f"`{a.arg}` is an array, and only numbers have defaults", f"def {f.__name__}(…, scale: lathe.f64 = 2.0)")
        text = writer.mark(a, f"{a.arg}: {'inout ' if mode == 'inout' else ''}{ty}")
        (outputs if mode == "out" else inputs).append(text)
    body = list(tree.body)
    results: list[tuple[str, Any]] = []
    returned = f.__annotations__.get("return")
    if returned is not None:
        ty = scope.annotation(returned)
        if isinstance(ty, dict):
            results = list(ty.items())
        else:
            if get_origin(ty) is tuple:
                ty = tuple(scope.annotation(t) for t in get_args(ty))
            types = list(ty) if isinstance(ty, (tuple, list)) else [ty]
            names = ["result"] if len(types) == 1 else [f"result{i}" for i in range(len(types))]
            results = list(zip(names, types))
        for n, t in results:
            if not isinstance(t, (ArrayType, ScalarType)):
                raise source.fail(tree.returns or tree, f"`{t!r}` is not a type of a result", "lathe.f32['N']")
            if n in arrays or n in scalars:
                raise source.fail(tree, f"`{n}` is a parameter and a result")
    lines: list[str] = []
    last = body[-1] if body else None
    if any(isinstance(t, ScalarType) for _, t in results) or _apart(last, results):
        lines += _results(writer, body, last, results)
        last = ast.Return(None)
        body = [last]
    else:
        find_variables(writer, body)
    match last:
        case ast.Return(value=ast.Lambda(args=args, body=value)) if results:
            indices = [writer.name(a, a.arg) for a in args.args]
            lines += writer.before_last(body)
            values = value.elts if isinstance(value, ast.Tuple) and len(results) > 1 else [value]
            if len(values) != len(results):
                raise source.fail(value, f"{len(results)} results are declared, {len(values)} are returned")
            for (n, t), v in zip(results, values):
                if len(t.extents) != len(indices):
                    raise source.fail(last, f"the result has {len(t.extents)} dimensions, the function {len(indices)} "
                                            "indices")
                writer.bound.update(indices)
                where = ", ".join(f"{i} in 0..{bracketed(e)}" for i, e in zip(indices, t.extents))
                lines.append(writer.mark(last, f"    {n}[{', '.join(indices)}] = {writer.expr(v)} where {where}"))
        case ast.Return(value=None) | ast.Return(value=ast.Constant(value=None)):
            lines += writer.before_last(body)
        case ast.Return() if results:
            raise source.fail(last, "a kernel returns a function of the indices of its result",
                              "return lambda i, j: A[i, j] + 1")
        case ast.Return():
            raise source.fail(last, "a result has a type", f"def {f.__name__}(...) -> lathe.f32['N', 'M']:")
        case _:
            arrays.update(results)
            lines += writer.block(body, "    ")
    outputs += [writer.mark(tree.returns or tree, f"{n}: {t}") for n, t in results]
    head = f"kernel {writer.name(tree, f.__name__)}({', '.join(inputs)})"
    if outputs:
        head += f" -> ({', '.join(outputs)})"
    text = "\n".join([*comment(f), writer.mark(tree, head) + " {", *lines, "}", ""])
    made = source.written(writer.sources.behind(text), writer.nodes)
    made.defaults = defaults
    return made


def _apart(last: ast.stmt | None, results: list[tuple[str, Any]]) -> bool:
    """Whether each result has a function of its own."""
    match last:
        case ast.Return(value=ast.Tuple(elts=parts)):
            return len(results) > 1 and any(isinstance(p, ast.Lambda) for p in parts)
    return False


def _results(writer: Writer, body: list[ast.stmt], last: ast.stmt | None, results: list[tuple[str, Any]]) -> list[str]:
    """The body of a kernel that returns numbers, or a function of the indices for each result."""
    if not isinstance(last, ast.Return) or last.value is None:
        raise writer.fail(last or writer.source.tree, "the results are returned", "return s, or return lambda i: x[i]")
    values = last.value.elts if isinstance(last.value, ast.Tuple) and len(results) > 1 else [last.value]
    if len(results) > 1 and isinstance(last.value, ast.Call) and (f := writer.helper(last.value.func)) is not None:
        whole = writer.written_out(last.value, f)
        values = whole.elts if isinstance(whole, ast.Tuple) else [whole]
    if len(values) != len(results):
        raise writer.fail(last, f"{len(results)} results are declared, {len(values)} are returned")
    find_variables(writer, body)
    lines = writer.before_last(body)
    for (n, t), v in zip(results, values):
        if isinstance(t, ScalarType):
            if isinstance(v, ast.Lambda):
                raise writer.fail(v, f"the result is one number of type {t}", "return sum(x[k] for k in range(len(x)))")
            lines.append(writer.mark(last, f"    {n} = {writer.expr(v)}"))
            continue
        if not isinstance(v, ast.Lambda):
            raise writer.fail(v, "an array is returned as a function of its indices", "lambda i: x[i]")
        indices = [writer.name(a, a.arg) for a in v.args.args]
        if len(t.extents) != len(indices):
            raise writer.fail(v, f"the result has {len(t.extents)} dimensions, the function {len(indices)} indices")
        writer.bound.update(indices)
        where = ", ".join(f"{i} in 0..{bracketed(e)}" for i, e in zip(indices, t.extents))
        lines.append(writer.mark(last, f"    {n}[{', '.join(indices)}] = {writer.expr(v.body)} where {where}"))
        writer.bound.difference_update(indices)
    return lines


def fun_source_of(f: Callable[..., Any]) -> Written:
    """The functional pattern that a function says, as a source."""
    source = Source(f)
    tree = source.tree
    if not isinstance(tree, ast.FunctionDef):
        raise source.fail(tree, "a fun is made of a function: @lathe.fun before `def`")
    scope = Scope(f)
    writer = FunWriter(source, scope, {}, set())
    params = []
    for a in tree.args.args:
        given = f.__annotations__.get(a.arg)
        if given is None:
            raise source.fail(a, f"the parameter `{a.arg}` has no type", f"{a.arg}: lathe.f32['N']")
        params.append(f"{writer.name(a, a.arg)}: {scope.annotation(given)}")
        writer.bound.add(a.arg)
    returned = f.__annotations__.get("return")
    if returned is None:
        raise source.fail(tree, "a fun has a type", f"def {f.__name__}(...) -> lathe.f32['N']:")
    body = [s for s in tree.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    match body:
        case [ast.Return(value=ast.expr() as value)]:
            text = writer.expr(value)
        case _:
            raise source.fail(tree, "the body of a fun is one `return`")
    head = writer.mark(tree, f"fun {f.__name__}({', '.join(params)}) -> {scope.annotation(returned)} =")
    return source.written("\n".join([*comment(f), head, f"    {text}", ""]), writer.nodes)
