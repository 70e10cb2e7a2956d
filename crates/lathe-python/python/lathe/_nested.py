"""Loops over all indices of an array, `for i, j in np.ndindex(A.shape)`, as the nested loops that they are."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from ._reading import Scope

__all__ = ["nested"]


def nested(tree: ast.FunctionDef, scope: Scope, fail: Callable[..., Exception]) -> ast.FunctionDef:
    """The function with a loop over `range` for each name of a loop over `np.ndindex`."""
    made: ast.FunctionDef = _Nested(scope, fail).visit(tree)
    return made


class _Nested(ast.NodeTransformer):
    def __init__(self, scope: Scope, fail: Callable[..., Exception]) -> None:
        self.scope, self.fail = scope, fail

    def visit_For(self, s: ast.For) -> ast.AST:
        self.generic_visit(s)
        match s:
            case ast.For(target=ast.Tuple(elts=names), iter=ast.Call(func=f, args=args, keywords=[]), orelse=[]) if self.is_ndindex(f):
                pass
            case _:
                return s
        match args:
            case [ast.Starred(value=ast.Attribute(attr="shape") as shape)] | [ast.Attribute(attr="shape") as shape]:
                extents: list[ast.expr] = [ast.Subscript(shape, ast.Constant(n), ast.Load()) for n in range(len(names))]
            case [ast.Tuple(elts=extents)]:
                pass
            case extents:
                pass
        if len(extents) != len(names) or any(isinstance(e, ast.Starred) for e in extents):
            raise self.fail(s.iter, f"{len(names)} names stand for the indices of {len(extents)} dimensions", "np.ndindex(A.shape)")
        if _breaks(s.body):
            raise self.fail(s, "`break` would end a single loop of several", "a loop over `range` for each index")
        loop: list[ast.stmt] = s.body
        for name, extent in reversed(list(zip(names, extents))):
            call = ast.Call(ast.Name("range", ast.Load()), [extent], [])
            loop = [ast.copy_location(ast.For(name, ast.copy_location(call, s.iter), loop, []), s)]
        return ast.fix_missing_locations(loop[0])

    def is_ndindex(self, f: ast.expr) -> bool:
        match f:
            case ast.Attribute(value=ast.Name(id=module), attr=attr):
                return getattr(self.scope.all.get(module), attr, None) is np.ndindex
            case ast.Name(id=name):
                return self.scope.all.get(name) is np.ndindex
        return False


def _breaks(body: list[ast.stmt]) -> bool:
    """Whether a `break` among these statements ends the loop around them."""
    for s in body:
        if isinstance(s, ast.Break):
            return True
        if not isinstance(s, (ast.For, ast.While)) and any(_breaks(b) for b in (getattr(s, "body", []), getattr(s, "orelse", []))):
            return True
    return False
