"""What can go wrong, as one hierarchy of exceptions.

Every exception of this package is a :class:`LatheError`; most are also what Python's users expect in their place: a
wrong element type is a ``TypeError``, a wrong shape a ``ValueError``. The text of an exception shows the source with a
caret where a source is to blame; ``code`` names the entry of the index of errors, which :func:`explain` prints.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ArgumentError",
    "AssertError",
    "CheckError",
    "CompileError",
    "CopyWarning",
    "DeviceError",
    "DivisionError",
    "DtypeError",
    "FileError",
    "GradientError",
    "LatheError",
    "LayoutError",
    "MachineError",
    "OptionError",
    "OutOfMemoryError",
    "OverlapError",
    "ReadOnlyError",
    "ShapeError",
    "SourceError",
    "StrategyError",
    "TimeLimitError",
    "TuneError",
    "explain",
]


class LatheError(Exception):
    """The base of all exceptions of Lathe."""

    #: The code in the index of errors, such as ``E0811``.
    code: str | None = None
    #: What is wrong, in one line.
    message: str = ""
    #: Further facts.
    notes: list[str] = []
    #: What can be done about it.
    help: str | None = None
    #: The place in the source, counted from 1, if a source is to blame.
    file: str | None = None
    line: int | None = None
    column: int | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if args:
            self.message = str(args[0]).partition("\n")[0]


class SourceError(LatheError, ValueError):
    """A source that is not understood, or whose accesses are not shown to be within bounds."""


class StrategyError(LatheError, ValueError):
    """A step that is refused, a strategy that does not exist, or parameters that do not fit."""


class CompileError(LatheError, RuntimeError):
    """Something that the code generator does not take."""


class MachineError(LatheError, RuntimeError):
    """Something that this machine or this build lacks."""


class ArgumentError(LatheError, ValueError):
    """An argument that does not fit the kernel."""


class DtypeError(ArgumentError, TypeError):
    """An argument of another element type, or a wrong number of arguments."""


class ShapeError(ArgumentError):
    """An argument of another shape."""


class LayoutError(ArgumentError):
    """An array whose memory a kernel cannot walk through."""


class OverlapError(ArgumentError):
    """Arguments that share memory, one of which is written."""


class ReadOnlyError(ArgumentError):
    """A read-only array for something that the kernel writes."""


class GradientError(ArgumentError):
    """A gradient that was asked for and would be lost."""


class DeviceError(ArgumentError, TypeError):
    """An array that is not where kernels read: in the memory of the host or of a CUDA device, all of a call in one."""


class OptionError(LatheError, TypeError, ValueError):
    """An option that does not exist, or has no such value."""


class FileError(LatheError, OSError):
    """A file that cannot be read or written."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class CheckError(LatheError, ValueError):
    """A check of the kernel that did not hold for these arguments."""


class AssertError(CheckError, AssertionError):
    """An ``assert`` of a kernel that did not hold in a call with ``debug=True``."""


class DivisionError(LatheError, ZeroDivisionError):
    """An integer was divided by zero."""


class OutOfMemoryError(LatheError, MemoryError):
    """Not enough memory."""


class TimeLimitError(LatheError, TimeoutError):
    """A call took longer than its ``timeout``; outputs are partially written."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class TuneError(LatheError, ValueError):
    """A search that cannot begin, or that found nothing valid."""


class CopyWarning(UserWarning):
    """An input was copied, since the call allowed it."""


_EXACT: dict[str, type[LatheError]] = {
    "E0707": LayoutError,
    "E0801": ArgumentError,
    "E0802": OutOfMemoryError,
    "E0808": DtypeError,
    "E0809": DtypeError,
    "E0810": ShapeError,
    "E0811": ShapeError,
    "E0812": OverlapError,
    "E0813": LayoutError,
    "E0814": CheckError,
    "E0815": DivisionError,
    "E0816": OutOfMemoryError,
    "E0817": OutOfMemoryError,
    "E0822": ReadOnlyError,
    "E0825": TimeLimitError,
    "E0826": MachineError,
    "E0827": LatheError,
    "E0848": SourceError,
    "E0849": SourceError,
    "E0850": ArgumentError,
    "E0851": ArgumentError,
    "E0852": ArgumentError,
    "E0853": OutOfMemoryError,
    "E0901": FileError,
    "E0902": SourceError,
    "E0903": StrategyError,
    "E0904": ArgumentError,
    "E0905": StrategyError,
    "E0906": ArgumentError,
    "E0907": ArgumentError,
    "E0910": MachineError,
    "E0915": GradientError,
    "E0916": DeviceError,
    "E0917": OptionError,
    "E0918": SourceError,
    "E0919": FileError,
    "E0921": AssertError,
    # Of homomorphisms these are about the computation, the others about how it is computed.
    **dict.fromkeys(("E1205", "E1206", "E1207", "E1208", "E1209", "E1210", "E1221"), SourceError),
}

_RANGES: dict[str, type[LatheError]] = {
    "E01": SourceError,
    "E02": SourceError,
    "E03": SourceError,
    "E05": SourceError,
    "E06": StrategyError,
    "E07": CompileError,
    "E08": MachineError,
    "E09": MachineError,
    "E10": TuneError,
    "E11": StrategyError,
    "E12": StrategyError,
    "E13": GradientError,
}


def _make(text: str, fields: dict[str, Any]) -> LatheError:
    """The exception for a diagnostic (called by the compiled part). What is said about a source that was written from a
    Python function is shown in that function."""
    from ._written import place_of, report

    parts: list[str] = []
    found = False
    for n, d in enumerate(fields.pop("all")):
        places = [(place_of(file, start, stop), label) for file, start, stop, label in d["marks"]]
        if not any(p for p, _ in places):
            parts.append(d["shown"])
            continue
        found = True
        snippets = [p.snippet(label) for p, label in places if p is not None]
        parts.append(report(f"{d['code']}: {d['message']}", snippets, d["notes"], d["help"]))
        if n == 0 and places[0][0] is not None:
            place = places[0][0]
            fields |= {"file": place.file, "line": place.line, "column": place.column}
    code = fields["code"]
    kind = _EXACT.get(code) or _RANGES.get(code[:3], LatheError)
    error = kind("\n\n".join(parts) if found else text)
    for name, value in fields.items():
        setattr(error, name, value)
    if code == "E0827":
        from ._externals import cause

        error.__cause__ = cause()
    return error


def explain(code: str) -> str:
    """What a code means, with a wrong and a right example."""
    from . import _lathe

    if not isinstance(code, str):
        raise OptionError(f"a code is a text such as E0811, not {type(code).__name__}")
    title, text, wrong, right = _lathe.explain_code(code)
    parts = [f"{code}: {title}", text]
    for name, example in (("Wrong", wrong), ("Right", right)):
        if example:
            lines = "\n".join("    " + line for line in example.splitlines())
            parts.append(f"{name}:\n\n{lines}")
    return "\n\n".join(parts)
