"""What functions and types of Python, numpy and math are called in the language."""

from __future__ import annotations

import difflib

__all__ = ["CASTS", "FUNCTIONS", "KNOWN", "PARTS", "REAL", "REDUCTIONS", "TRUTH", "hint"]

#: Reductions, by the names that Python users give them.
REDUCTIONS = {"sum": "sum", "prod": "prod", "max": "max", "min": "min", "any": "any", "all": "all", "argmin": "argmin",
              "argmax": "argmax"}

#: Functions by other names.
FUNCTIONS = {
    "maximum": "max", "minimum": "min", "fabs": "abs", "absolute": "abs", "power": "pow", "arctan": "atan", "arctan2": "atan2",
    "arcsin": "asin", "arccos": "acos", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "rint": "round",
    "fix": "trunc", "where": "select", "bitwise_and": "bitand", "bitwise_or": "bitor", "bitwise_xor": "bitxor",
    "left_shift": "shl", "right_shift": "shr", "logical_xor": "xor", "floor_divide": "floordiv", "mod": "floormod",
    "remainder": "floormod", "conjugate": "conj", "angle": "arg", "phase": "arg", "radians": "deg2rad", "degrees": "rad2deg",
}

#: Functions of the language.
KNOWN = frozenset(
    "select min max xor bitand bitor bitxor shl shr tdiv trem abs sqrt fma floor ceil round trunc exp exp2 log log2 sin cos tan "
    "tanh sigmoid erf pow atan atan2 expm1 log1p log10 sinh cosh asin acos asinh acosh atanh hypot square sign isnan isinf "
    "isfinite clip reciprocal rsqrt relu conj arg real imag deg2rad rad2deg floordiv floormod fmod".split()
)

#: What they give, where it is not the type of their arguments.
TRUTH = frozenset({"isnan", "isinf", "isfinite", "xor"})

#: Functions that give a real number of a complex one.
REAL = frozenset({"abs", "absolute", "fabs", "arg", "angle", "phase", "real", "imag"})

#: The types of the parts.
PARTS = {"c64": "f32", "c128": "f64"}

#: Casts, by the names of Python and numpy.
CASTS = {
    "int": "i64", "float": "f64", "float16": "f16", "float32": "f32", "float64": "f64", "double": "f64", "single": "f32",
    "complex": "c128", "complex64": "c64", "complex128": "c128", "csingle": "c64", "cdouble": "c128", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "intp": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64",
}


def hint(name: str) -> str:
    """What may have been meant by a name that is not there."""
    all_names = [*KNOWN, *FUNCTIONS, *REDUCTIONS, *CASTS]
    near = difflib.get_close_matches(name, all_names, 1, 0.6)
    return f"perhaps `{near[0]}`" if near else "docs/language.md lists the functions that there are"
