"""Sources that were written from functions of Python, and where each part of them came from: what is wrong with such a
source is shown where the user wrote it."""

from __future__ import annotations

import ast
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Place", "Written", "begin", "end", "known", "name_for", "place_in", "place_of", "report", "written"]

#: Before and after what stands for a node of the syntax tree, while a source is written; no text of a kernel has them.
_OPEN, _SHUT, _END = "\ue000", "\ue001", "\ue002"


def begin(number: int) -> str:
    return f"{_OPEN}{number}{_SHUT}"


def end() -> str:
    return _END


class Place:
    """A place in a file of Python: lines and columns count from 1."""

    __slots__ = ("column", "end", "file", "line", "shown")

    def __init__(self, file: str, line: int, column: int, end: int, shown: str) -> None:
        self.file, self.line, self.column, self.end, self.shown = file, line, column, end, shown

    def snippet(self, label: str = "") -> str:
        """The line that a message is about."""
        pad = " " * len(str(self.line))
        under = " " * (self.column - 1) + "^" * max(self.end - self.column, 1)
        return (f" {pad}--> {self.file}:{self.line}:{self.column}\n {self.line} | {self.shown}\n"
                f" {pad} | {under} {label}".rstrip())


def report(message: str, snippets: list[str], notes: list[str], help: str | None) -> str:
    """A message with the lines that it is about."""
    return "\n".join([message, *snippets, *(f"  note: {n}" for n in notes), *([f"  help: {help}"] if help else [])])


class Written:
    """A source, and for its parts the places that they are from: from and to which byte, innermost last."""

    def __init__(self, name: str, text: str, spans: list[tuple[int, int, Place]]) -> None:
        self.name, self.text, self.spans = name, text, spans
        #: Numbers for parameters that calls may leave out, and for each the exception for one that does not fit.
        self.defaults: Mapping[str, tuple[Any, Callable[[str], Exception]]] = {}

    def place(self, start: int, stop: int) -> Place | None:
        """The smallest part that holds these bytes."""
        found = [s for s in self.spans if s[0] <= start and stop <= s[1]]
        return min(found, key=lambda s: s[1] - s[0])[2] if found else None


def written(name: str, marked: str, places: list[Place]) -> Written:
    """A source without the marks that it was written with."""
    parts: list[str] = []
    spans: list[tuple[int, int, Place]] = []
    open_: list[tuple[int, int]] = []
    at, i = 0, 0
    while i < len(marked):
        c = marked[i]
        if c == _OPEN:
            stop = marked.index(_SHUT, i)
            open_.append((at, int(marked[i + 1:stop])))
            i = stop + 1
            continue
        if c == _END:
            start, number = open_.pop()
            spans.append((start, at, places[number]))
        else:
            parts.append(c)
            at += len(c.encode())
        i += 1
    return Written(name, "".join(parts), spans)


#: Sources by the names that the compiler knows them by; the last so many.
_KNOWN: OrderedDict[str, Written] = OrderedDict()
_MOST = 4096


def known(w: Written) -> str:
    """Keeps a source for messages about it, under the name that it is returned."""
    _KNOWN[w.name] = w
    _KNOWN.move_to_end(w.name)
    if len(_KNOWN) > _MOST:
        _KNOWN.popitem(last=False)
    return w.name


def place_of(file: str, start: int, stop: int) -> Place | None:
    """The place in a file of Python that a part of a source is from."""
    w = _KNOWN.get(file)
    return None if w is None else w.place(start, stop)


def place_in(file: str, lines: list[str], first: int, indent: int, node: ast.AST) -> Place:
    """The place of a node; `lines` are those of the function, from line `first` on, less their indent."""
    line = getattr(node, "lineno", 1)
    shown = lines[line - 1] if line <= len(lines) else ""
    # Columns of the syntax tree count bytes.
    start = len(shown.encode()[:getattr(node, "col_offset", 0)].decode(errors="replace"))
    stop = start + 1
    if getattr(node, "end_lineno", line) == line:
        stop = len(shown.encode()[:getattr(node, "end_col_offset", start + 1)].decode(errors="replace"))
    elif shown:
        stop = len(shown)
    return Place(file, first + line - 1, start + indent + 1, stop + indent + 1, " " * indent + shown)


def name_for(file: str, function: Any) -> str:
    """What a source is called in tables and lists."""
    return f"<{function.__qualname__} in {os.path.basename(file)}:{function.__code__.co_firstlineno}>"
