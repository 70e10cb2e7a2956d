"""The devices whose memory arrays may be in."""

from __future__ import annotations

from typing import Any

from . import _lathe

__all__ = ["devices"]


def devices(kind: str | None = None) -> list[dict[str, Any]]:
    """The devices of this machine: ``id``, ``kind`` (``cuda``, ``opencl``), ``name``, ``arch``, ``memory_bytes``,
    ``multiprocessors``, ``shared_bytes`` and ``features`` of each.

    A kernel runs where its arrays are: tensors of PyTorch and arrays of CuPy on a CUDA device are neither copied nor waited for.

    >>> import lathe
    >>> all(d["kind"] == "cuda" for d in lathe.devices("cuda"))
    True
    """
    return _lathe.devices(kind)
