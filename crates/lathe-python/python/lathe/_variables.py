"""Local numbers of decorated functions that are assigned more than once: where each is declared, and its type."""

from __future__ import annotations

import ast
from typing import Any

from ._called import kernel_of, results_of
from .types import ScalarType

__all__ = ["find_variables", "mentions"]


def mentions(s: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(s))


def find_variables(writer: Any, body: list[ast.stmt]) -> None:
    """Local numbers that are assigned more than once: where each is declared, and its type."""
    assigned: dict[str, list[ast.expr]] = {}
    places: dict[str, list[list[list[ast.stmt]]]] = {}
    changed: set[str] = set()

    def note(name: str, value: ast.expr, path: list[list[ast.stmt]], again: bool) -> None:
        if name in writer.arrays or name in writer.scalars:
            return
        # One that is set again, or set inside of what may not run or run often and used outside.
        if again or name in assigned:
            changed.add(name)
        assigned.setdefault(name, []).append(value)

    def walk(block: list[ast.stmt], path: list[list[ast.stmt]]) -> None:
        path = [*path, block]
        for s in block:
            match s:
                case ast.Assign(targets=[target], value=ast.Call() as v) if (kernel := kernel_of(writer, v)) is not None:
                    targets = target.elts if isinstance(target, ast.Tuple) else [target]
                    for t, (_, kind, array) in zip(targets, results_of(kernel)):
                        if isinstance(t, ast.Name) and not array:
                            writer.kinds.setdefault(t.id, kind)
                            note(t.id, v, path, True)
                case ast.Assign(targets=[ast.Name(id=n)], value=v) | ast.AnnAssign(target=ast.Name(id=n), value=ast.expr() as v):
                    if isinstance(s, ast.AnnAssign):
                        ty = writer.evaluated(s.annotation)
                        if isinstance(ty, ScalarType):
                            writer.kinds[n] = ty.name
                    note(n, v, path, False)
                case ast.AugAssign(target=ast.Name(id=n), value=v):
                    note(n, v, path, True)
                case ast.Assign(targets=[ast.Tuple(elts=ts)], value=v):
                    v = writer.whole(v)
                    parts = v.elts if isinstance(v, ast.Tuple) else [v] * len(ts)
                    for t, part in zip(ts, parts):
                        if isinstance(t, ast.Name):
                            note(t.id, part, path, False)
            inner = [b for b in (getattr(s, "body", None), getattr(s, "orelse", None)) if isinstance(b, list) and b]
            outside: ast.AST = s
            if inner:
                # Only what stands in the statement itself: its condition, its range.
                outside = ast.Module([ast.Expr(x) for x in (getattr(s, "test", None), getattr(s, "iter", None)) if x is not None], [])
            for node in ast.walk(outside):
                if isinstance(node, ast.Name):
                    places.setdefault(node.id, []).append(path)
            for b in inner:
                walk(b, path)

    walk(body, [])
    for name, values in assigned.items():
        paths = places.get(name, [])
        depth = min((len(p) for p in paths), default=1)
        common = depth
        while common > 1 and any(p[common - 1] is not paths[0][common - 1] for p in paths):
            common -= 1
        # Set in an inner block only, and seen outside of it.
        first = next((p for p in paths), [body])
        if name not in changed and len(first) <= common:
            continue
        writer.variables.add(name)
        writer.bound.add(name)
        writer.declare.setdefault(id(paths[0][common - 1]), []).append(name)
    # Types follow from what is assigned, and that from the types of other names.
    for _ in range(len(assigned) + 1):
        for name, values in assigned.items():
            if name not in writer.kinds and (kind := next((k for v in values if (k := writer.kind(v))), None)):
                writer.kinds[name] = kind
    for name in writer.variables:
        if name not in writer.kinds:
            constants = [n.value for v in assigned[name] for n in ast.walk(v) if isinstance(n, ast.Constant)]
            kinds = (("c128", complex), ("f64", float))
            writer.kinds[name] = next((k for k, of in kinds if any(isinstance(c, of) for c in constants)), "i64")
