"""Element types, as annotations of decorated kernels: ``lathe.f32["M", "N"]``."""

from __future__ import annotations

from typing import Any

from .errors import OptionError

__all__ = ["ArrayType", "ScalarType", "bf16", "bool_", "c64", "c128", "f16", "f32", "f64", "i8", "i16", "i32", "i64", "index", "u8", "u16",
           "u32", "u64"]


class ScalarType:
    """An element type; with extents in brackets the type of an array of it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, extents: Any) -> ArrayType:
        if not isinstance(extents, tuple):
            extents = (extents,)
        return ArrayType(self, tuple(_extent(e) for e in extents))

    def __repr__(self) -> str:
        return f"lathe.{'bool_' if self.name == 'bool' else self.name}"

    def __str__(self) -> str:
        return self.name


class ArrayType:
    """The type of an array: its elements and its extents, which are formulas of sizes."""

    __slots__ = ("element", "extents")

    def __init__(self, element: ScalarType, extents: tuple[str, ...]) -> None:
        self.element = element
        self.extents = extents

    def __repr__(self) -> str:
        return f"{self.element!r}[{', '.join(repr(e) for e in self.extents)}]"

    def __str__(self) -> str:
        return f"{self.element}[{', '.join(self.extents)}]"


def _extent(e: Any) -> str:
    if isinstance(e, bool) or not isinstance(e, (int, str)):
        raise OptionError(f"an extent is a text such as 'N' or 'N - 2', or a number, not {e!r}")
    return str(e)


f16 = ScalarType("f16")
bf16 = ScalarType("bf16")
f32 = ScalarType("f32")
f64 = ScalarType("f64")
c64 = ScalarType("c64")
c128 = ScalarType("c128")
i8 = ScalarType("i8")
i16 = ScalarType("i16")
i32 = ScalarType("i32")
i64 = ScalarType("i64")
u8 = ScalarType("u8")
u16 = ScalarType("u16")
u32 = ScalarType("u32")
u64 = ScalarType("u64")
index = ScalarType("index")
bool_ = ScalarType("bool")

BY_NAME: dict[str, ScalarType] = {t.name: t for t in (f16, bf16, f32, f64, c64, c128, i8, i16, i32, i64, u8, u16, u32, u64, index,
                                                      bool_)}
