"""Kernels that a decorated function calls, derivatives among them: as statements, in the text of the function's kernel."""

from __future__ import annotations

import ast
import itertools
import re
from typing import Any

from . import _lathe

__all__ = ["Sources", "called", "kernel_of", "results_of"]

#: Where an item of a source may begin.
_ITEM = re.compile(r"\n\n(?=(?:kernel|derivative|struct|op|fun|rule|strategy|test|use)\b)")

#: What an item that has a kernel's name is called.
_NAME = re.compile(r"^(?:kernel|fun)\s+(\w+)", re.MULTILINE)


def kernel_of(writer: Any, value: ast.expr | None) -> Any:
    """The kernel that an expression calls, if it does."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id not in writer.bound | set(writer.arrays):
        found = writer.scope.all.get(value.func.id)
        return found if isinstance(found, _lathe.Kernel) else None
    return None


def results_of(kernel: Any) -> list[tuple[str, str, bool]]:
    """Names, element types, and whether it is an array."""
    return [(n, t.partition("[")[0], _is_array(t)) for n, mode, t in kernel.parameters if mode == "out"]


def _is_array(ty: str) -> bool:
    return "[" in ty and not ty.endswith("[]")


def called(writer: Any, s: ast.stmt, targets: list[ast.expr], call: ast.Call) -> str:
    """The statement that calls a kernel and writes its results to arrays and numbers."""
    kernel = kernel_of(writer, call)
    name = kernel.name
    results, inputs = results_of(kernel), [p for p in kernel.parameters if p[1] != "out"]
    if len(targets) != len(results):
        raise writer.fail(s, f"`{name}` gives {len(results)} results, {len(targets)} are assigned")
    texts: list[str] = []
    for target, (n, _, array) in zip(targets, results):
        if not isinstance(target, ast.Name) or (target.id in writer.arrays) != array or not array and target.id not in writer.variables:
            raise writer.fail(target, f"`{n}` of `{name}` is {'an array' if array else 'a number'}, and is assigned to one as a whole",
                              f"declare it: {n}: lathe.f64['N']" if array else None)
        texts.append(target.id)
    if call.keywords or any(isinstance(a, ast.Starred) for a in call.args):
        raise writer.fail(call, "arguments of a kernel that a kernel calls have the order of its parameters")
    missing = [n for n, *_ in inputs[len(call.args):] if n not in kernel.defaults]
    if missing or len(call.args) > len(inputs):
        raise writer.fail(call, f"`{name}` takes {len(inputs)} arguments, {len(call.args)} are given")
    args: list[str] = []
    for a, (n, mode, ty) in zip(call.args, inputs):
        if _is_array(ty) or mode == "inout":
            if not (isinstance(a, ast.Name) and a.id in writer.arrays):
                raise writer.fail(a, f"`{n}` of `{name}` is an array that is passed as a whole", "the name of an array")
            args.append(a.id)
        else:
            args.append(writer.expr(a))
    args += [writer.number(call, kernel.defaults[n])[0] for n, *_ in inputs[len(call.args):]]
    left = f"({', '.join(texts)}) = " if len(texts) > 1 else f"{texts[0]} = " if texts else ""
    return f"{left}{writer.sources.add(kernel)}({', '.join(args)})"


class Sources:
    """The sources of kernels that a kernel calls: what several of them have in common once, and under names of their own."""

    def __init__(self, own: str) -> None:
        self.parts: list[str] = []
        self.taken = {own}
        self.names: list[tuple[Any, str]] = []

    def add(self, kernel: Any) -> str:
        """Adds a kernel with all that it is made of; what it is called."""
        for known, name in self.names:
            if known is kernel:
                return name
        name = str(kernel.name)
        parts = [p for p in map(str.strip, _ITEM.split("\n\n" + kernel.source())) if p]
        defined = [n for p in parts if p not in self.parts for n in _NAME.findall(p)]
        for old in defined:
            if old in self.taken:
                new = next(n for k in itertools.count(2) if (n := f"{old}_{k}") not in self.taken and n not in kernel.source())
                parts = [re.sub(rf"\b{re.escape(old)}\b", new, p) for p in parts]
                name = new if name == old else name
                self.taken.add(new)
            self.taken.add(old)
        self.parts += [p for p in parts if p not in self.parts]
        self.names.append((kernel, name))
        return name

    def behind(self, text: str) -> str:
        """A source with these."""
        return "\n\n".join([text.rstrip(), *self.parts]) + "\n" if self.parts else text
