"""The notation of numpy.einsum: labels of the operands and of the result, from a text or from lists."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from .errors import OptionError

Labels = tuple[int, ...]


def parse(args: Sequence[Any]) -> tuple[list[Labels], Labels, list[np.ndarray]]:
    """Labels of each operand, labels of the result, operands. Dimensions of an ellipsis have negative labels."""
    if len(args) < 2:
        raise OptionError("einsum takes subscripts and operands")
    if isinstance(args[0], bytes):
        return _from_text(args[0].decode("ascii"), [_array(a) for a in args[1:]])
    if isinstance(args[0], str):
        return _from_text(args[0], [_array(a) for a in args[1:]])
    return _from_lists(list(args))


def _array(a: Any) -> np.ndarray:
    if isinstance(a, np.ndarray):
        return a if type(a) is np.ndarray else a.view(np.ndarray)
    from ._interop import view

    out = view(a, False)
    return np.asarray(a) if out is None else out


def _from_text(text: str, operands: list[np.ndarray]) -> tuple[list[Labels], Labels, list[np.ndarray]]:
    left, arrow, right = text.partition("->")
    if arrow and "->" in right:
        raise OptionError("einsum: there are two arrows `->`")
    parts = left.split(",")
    if len(parts) != len(operands):
        raise OptionError(f"einsum: the subscripts are for {len(parts)} operands, but there are {len(operands)}")
    read = [_term(p) for p in parts]
    result = _term(right) if arrow else None
    return _expand(read, result, operands)


def _term(text: str) -> list[int | None]:
    """Labels of one operand; None is the ellipsis."""
    text = "".join(text.split())
    out: list[int | None] = []
    at = 0
    while at < len(text):
        if text.startswith("...", at):
            if None in out:
                raise OptionError("einsum: an operand has one ellipsis at most")
            out.append(None)
            at += 3
        elif text[at].isascii() and text[at].isalpha():
            out.append(ord(text[at]))
            at += 1
        else:
            raise OptionError(f"einsum: `{text[at]}` is not a label of a subscript")
    return out


def _from_lists(args: list[Any]) -> tuple[list[Labels], Labels, list[np.ndarray]]:
    operands, read = [], []
    while len(args) >= 2:
        operands.append(_array(args.pop(0)))
        read.append(_sublist(args.pop(0)))
    result = _sublist(args.pop(0)) if args else None
    return _expand(read, result, operands)


def _sublist(labels: Any) -> list[int | None]:
    out: list[int | None] = []
    for label in labels:
        if label is Ellipsis:
            if None in out:
                raise OptionError("einsum: an operand has one ellipsis at most")
            out.append(None)
        else:
            try:
                n = operator.index(label)
            except TypeError:
                raise OptionError(f"einsum: a subscript is a number or an ellipsis, not {label!r}") from None
            if not 0 <= n < 52:
                raise OptionError(f"einsum: the label {n} is not between 0 and 51")
            # Upper case comes first, as in numpy.
            out.append(ord("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[n]))
    return out


def _expand(read: list[list[int | None]], result: list[int | None] | None,
            operands: list[np.ndarray]) -> tuple[list[Labels], Labels, list[np.ndarray]]:
    """Gives the dimensions of ellipses labels, counted from the right: -1 is the last."""
    most = 0
    inputs: list[Labels] = []
    for labels, a in zip(read, operands):
        named = sum(x is not None for x in labels)
        if None in labels:
            rest = a.ndim - named
            if rest < 0:
                raise OptionError(f"einsum: an operand has {a.ndim} dimensions, its subscripts {named}")
        elif named != a.ndim:
            raise OptionError(f"einsum: an operand has {a.ndim} dimensions, its subscripts {named}")
        else:
            rest = 0
        most = max(most, rest)
        inputs.append(_filled(labels, rest))
    everywhere = {x for labels in inputs for x in labels}
    if result is None:
        once = [x for x in everywhere if x > 0 and sum(labels.count(x) for labels in inputs) == 1]
        output = tuple(range(-most, 0)) + tuple(sorted(once))
    else:
        if None not in result and most:
            raise OptionError("einsum: the ellipsis of the operands is missing from the result")
        output = _filled(result, most)
        if len(set(output)) != len(output):
            raise OptionError("einsum: the result has a label twice")
        for x in output:
            if x not in everywhere and x > 0:
                raise OptionError(f"einsum: the result's label `{chr(x)}` is in no operand")
    return inputs, output, operands


def _filled(labels: list[int | None], rest: int) -> Labels:
    out: list[int] = []
    for x in labels:
        out += range(-rest, 0) if x is None else [x]
    return tuple(out)
