"""Functions of Python that a kernel calls: their bodies take the place of the calls."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Any

from ._reading import Scope, Source

__all__ = ["inlined"]


class _Replaced(ast.NodeTransformer):
    def __init__(self, values: dict[str, ast.expr], scope: Scope, mine: dict[str, Any], tag: str) -> None:
        self.values, self.scope, self.mine, self.tag = values, scope, mine, tag

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.values:
            return copy.deepcopy(self.values[node.id])
        if node.id in self.mine:
            # Names of the function mean what they mean there.
            name = f"{node.id}@{self.tag}"
            self.scope.all[name] = self.mine[node.id]
            return ast.Name(name, node.ctx)
        return node


def inlined(f: Callable[..., Any], call: ast.Call, scope: Scope, fail: Callable[..., Exception]) -> ast.expr:
    """What a call of a function comes to: an expression, or a tuple of them. The function is assignments and a `return`."""
    source = Source(f)
    tree = source.tree
    if not isinstance(tree, ast.FunctionDef):
        raise fail(call, f"`{f.__name__}` is not a function that a kernel can call", "def f(x): return ...")
    a = tree.args
    if a.vararg or a.kwarg or a.kwonlyargs:
        raise fail(call, f"`{f.__name__}` has parameters that a kernel does not know", "plain names")
    names = [p.arg for p in [*a.posonlyargs, *a.args]]
    values: dict[str, ast.expr] = dict(zip(names, call.args))
    if len(call.args) > len(names):
        raise fail(call, f"`{f.__name__}` takes {len(names)} arguments, {len(call.args)} are given")
    for k in call.keywords:
        if k.arg not in names or k.arg in values:
            raise fail(call, f"`{f.__name__}` has no argument `{k.arg}` here")
        values[k.arg] = k.value
    for n, d in zip(names[len(names) - len(a.defaults):], a.defaults):
        values.setdefault(n, d)
    missing = [n for n in names if n not in values]
    if missing:
        raise fail(call, f"the argument `{missing[0]}` of `{f.__name__}` is missing")
    mine = Scope(f).all
    replaced = _Replaced(values, scope, mine, f"{f.__name__}{f.__code__.co_firstlineno}")
    for s in tree.body:
        match s:
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.Assign(targets=[ast.Name(id=n)], value=v):
                values[n] = replaced.visit(copy.deepcopy(v))
            case ast.AugAssign(target=ast.Name(id=n), op=op, value=v):
                values[n] = ast.BinOp(replaced.visit(ast.Name(n, ast.Load())), op, replaced.visit(copy.deepcopy(v)))
            case ast.Return(value=ast.expr() as v):
                made = replaced.visit(copy.deepcopy(v))
                # Messages are about the call.
                for node in ast.walk(made):
                    ast.copy_location(node, call)
                return ast.fix_missing_locations(made)
            case _:
                raise fail(call, f"`{f.__name__}` has a statement that is neither an assignment nor a `return`: line "
                                 f"{source.first + s.lineno - 1} of {source.file}", "a kernel takes functions that are formulas")
    raise fail(call, f"`{f.__name__}` returns nothing")
