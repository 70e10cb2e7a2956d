"""What a decorated function is read from: its text, its syntax tree, and what names around it stand for."""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
import tokenize
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from ._written import Place, Written, name_for, place_in, report, written
from .errors import OptionError, SourceError


class Source:
    """A function's text, for messages that point into it."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        if not isinstance(f, FunctionType):
            raise OptionError(f"a Python function is needed, not {type(f).__name__}")
        try:
            lines, self.first = inspect.getsourcelines(f)
        except (OSError, TypeError, SyntaxError, tokenize.TokenError) as e:
            raise SourceError(f"the source of `{f.__name__}` is not to be found: {e}") from e
        self.file = inspect.getsourcefile(f) or "<python>"
        changed = f"the source of `{f.__name__}` was changed after the function had been made: {self.file}"
        if _edited(f, inspect.findsource(f)[0]):
            raise SourceError(changed)
        self.text = textwrap.dedent("".join(lines))
        self.lines = self.text.splitlines()
        self.indent = len(lines[0]) - len(lines[0].lstrip())
        try:
            self.tree = ast.parse(self.text).body[0]
        except (SyntaxError, IndexError) as e:
            raise SourceError(f"the source of `{f.__name__}` is not a function: {e}") from e
        if isinstance(self.tree, ast.FunctionDef) and self.tree.name != f.__code__.co_name:
            raise SourceError(changed)

    def place(self, node: ast.AST) -> Place:
        return place_in(self.file, self.lines, self.first, self.indent, node)

    def fail(self, node: ast.AST, message: str, help: str | None = None) -> SourceError:
        place = self.place(node)
        error = SourceError(report(message, [place.snippet()], [], help))
        error.code, error.message, error.help = "E0918", message, help
        error.file, error.line, error.column = place.file, place.line, place.column
        return error

    def written(self, marked: str, nodes: list[ast.AST]) -> Written:
        """A source that was written from the function, with marks of these nodes."""
        return written(name_for(self.file, self.f), marked, [self.place(n) for n in nodes])


class Scope:
    """What names from around the function stand for."""

    def __init__(self, f: Callable[..., Any]) -> None:
        closure = inspect.getclosurevars(f)
        self.all: dict[str, Any] = {**f.__globals__, **closure.nonlocals}

    def annotation(self, a: Any) -> Any:
        found = eval(a, self.all) if isinstance(a, str) else a  # noqa: S307
        # Annotated[Any, lathe.f32["N"]] is how type checkers are told less.
        for part in getattr(found, "__metadata__", ()):
            if type(part).__module__.startswith("lathe.") or isinstance(part, (dict, tuple)):
                return part
        return found


def _edited(f: Callable[..., Any], lines: list[str]) -> bool:
    """Whether the file has another function where this one came from: it was changed after it had been loaded."""
    code = f.__code__
    # What a notebook or a console keeps may be text that only they understand; a file was once understood as it was.
    file = code.co_filename.endswith(".py") and os.path.exists(code.co_filename)
    try:
        whole = compile("".join(lines), code.co_filename, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError):
        return file
    found = [c for c in _inside(whole) if (c.co_name, c.co_firstlineno) == (code.co_name, code.co_firstlineno)]
    return (file or bool(found)) and not any(_same(c, code) for c in found)


def _inside(code: CodeType) -> Iterator[CodeType]:
    for c in code.co_consts:
        if isinstance(c, CodeType):
            yield c
            yield from _inside(c)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        # pytest compiles other code for `assert`; what the function takes stays as it is.
        if any(n.startswith("@py") for n in (*b.co_names, *b.co_varnames)):
            count = a.co_argcount
            return count == b.co_argcount and a.co_varnames[:count] == b.co_varnames[:count]
        return ((a.co_code, a.co_names, a.co_varnames) == (b.co_code, b.co_names, b.co_varnames)
                and len(a.co_consts) == len(b.co_consts) and all(map(_same, a.co_consts, b.co_consts)))
    return type(a) is type(b) and (a == b or a != a)


def comment(f: Callable[..., Any]) -> list[str]:
    text = inspect.getdoc(f)
    return [f"# {line}".rstrip() for line in text.splitlines()] if text else []
