"""Kernels compiled by Lathe. Each function takes the kernel's inputs in order or by name, as arrays of numpy, and ``out=``."""

import ctypes as _c
import os as _os

import numpy as _np


class _Array(_c.Structure):
    _fields_ = [("data", _c.c_void_p), ("shape", _c.POINTER(_c.c_int64)), ("strides", _c.POINTER(_c.c_int64)),
                ("dtype", _c.c_uint32), ("rank", _c.c_uint32), ("elem_bytes", _c.c_uint64)]


_LIBRARY = _c.CDLL(_os.path.join(_os.path.dirname(__file__), "kernels.so"))
_CODES = {"bool": 0, "i8": 1, "i16": 2, "i32": 3, "i64": 4, "u8": 5, "u16": 6, "u32": 7, "u64": 8, "index": 9, "f16": 10, "f32": 12,
          "f64": 13, "c64": 14, "c128": 15}
_NAMES = {"bool": "bool", "index": "int64", "f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128",
          **{f"{k}{b}": f"{'u' * (k == 'u')}int{b}" for k in "iu" for b in (8, 16, 32, 64)}}
_TYPES = {k: _np.dtype(v) for k, v in _NAMES.items()}
_SAID = {-1: (MemoryError, "found no memory for a local array"), -2: (ZeroDivisionError, "divided an integer by zero"),
         -3: (OverflowError, "needs a local array whose size does not fit 64 bits")}


class _Function:
    """A kernel."""

    def __init__(self, number, name, doc, params, rules, formulas, fixed):
        self.__name__ = self.__qualname__ = name
        self.__doc__ = doc
        self._params, self._rules, self._fixed = params, rules, fixed
        self._inputs = [i for i, p in enumerate(params) if p[1] != "out"]
        self._outputs = [i for i, p in enumerate(params) if p[1] == "out"]
        # Numbers, s[…], v[…], arithmetic, min and max.
        self._formulas = [[None if f is None else eval("lambda s, v: " + f, {"min": min, "max": max}) for f in fs] for fs in formulas]
        self._call = getattr(_LIBRARY, f"lathe_call_{number}")
        self._call.restype, self._call.argtypes = _c.c_int32, [_c.POINTER(_Array)]

    def __repr__(self):
        return f"<compiled kernel {self.__doc__}>"

    def __call__(self, *args, out=None, **named):
        name, params = self.__name__, self._params
        names = [params[i][0] for i in self._inputs]
        given = dict(zip(names, args))
        for key, value in named.items():
            if key not in names or key in given:
                raise TypeError(f"{name}: there is no further argument `{key}`")
            given[key] = value
        if len(args) > len(names) or len(given) != len(names):
            raise TypeError(f"{name} takes {len(names)} arguments: {', '.join(names)}")
        arrays = {i: self._input(i, given[params[i][0]]) for i in self._inputs}
        sizes = []
        for _, param, dim, times, plus, others in self._rules:
            value = arrays[param].shape[dim] - plus - sum(n * sizes[other] for other, n in others)
            sizes.append(value // times)
        for (size, *_), value in zip(self._rules, sizes):
            if self._fixed.get(size, value) != value:
                raise ValueError(f"{name}: compiled for {size} = {self._fixed[size]}, not {value}")
        values = {i: int(arrays[i]) for i in self._inputs if params[i][3] is None and arrays[i].dtype.kind in "iub"}
        for i in self._inputs:
            for dim, f in enumerate(self._formulas[i]):
                want = self._extent(f, sizes, values)
                if want is not None and want != arrays[i].shape[dim]:
                    raise ValueError(f"{name}: dimension {dim} of `{params[i][0]}` must have extent {want}, but has {arrays[i].shape[dim]}")
        written = (out,) if out is not None and not isinstance(out, tuple) else out or (None,) * len(self._outputs)
        if len(written) != len(self._outputs):
            raise ValueError(f"{name} has {len(self._outputs)} results, but `out` holds {len(written)}")
        for i, o in zip(self._outputs, written):
            shape = [self._extent(f, sizes, values) for f in self._formulas[i]]
            if o is not None:
                arrays[i] = self._input(i, o)
            elif None in shape or any(e < 0 for e in shape):
                raise ValueError(f"{name}: the extents of `{params[i][0]}` do not follow from the arguments: give out=")
            else:
                arrays[i] = _np.empty(shape, _TYPES[params[i][2]])
        self._run([arrays[i] for i in range(len(params))])
        results = tuple(arrays[i] if o is None else o for i, o in zip(self._outputs, written))
        return None if not results else results[0] if len(results) == 1 else results

    def _extent(self, f, sizes, values):
        try:
            return None if f is None else f(sizes, values)
        except KeyError:
            return None

    def _input(self, i, a):
        param, mode, kind, dims = self._params[i]
        dtype = _TYPES[kind]
        if dims is None:
            b = _np.asarray(a)
            if b.ndim or dtype.kind in "iu" and b.dtype.kind not in "iu" or dtype.kind == "b" and b.dtype.kind != "b" or b.dtype.kind not in "iufb" + "c" * (dtype.kind == "c"):
                raise TypeError(f"{self.__name__}: `{param}` is a number of type {kind}, not {a!r}")
            if dtype.kind in "iu" and not _np.iinfo(dtype).min <= int(b) <= _np.iinfo(dtype).max:
                raise ValueError(f"{self.__name__}: `{param}` is {kind}, which {a!r} does not fit")
            return b.astype(dtype)
        if not isinstance(a, _np.ndarray) or a.dtype != dtype or not a.dtype.isnative:
            found = a.dtype if isinstance(a, _np.ndarray) else type(a).__name__
            raise TypeError(f"{self.__name__}: `{param}` is an array of {dtype}, not of {found}")
        if a.ndim != len(self._formulas[i]):
            raise ValueError(f"{self.__name__}: `{param}` has {len(self._formulas[i])} dimensions, the argument {a.ndim}")
        if not a.flags.aligned or any(s % dtype.itemsize for s, e in zip(a.strides, a.shape) if e > 1):
            raise ValueError(f"{self.__name__}: `{param}` is misaligned")
        if mode != "in" and not a.flags.writeable:
            raise ValueError(f"{self.__name__}: `{param}` is read-only")
        if mode != "in" and any(e > 1 and s == 0 for s, e in zip(a.strides, a.shape)):
            raise ValueError(f"{self.__name__}: elements of `{param}` share memory")
        return a

    def _run(self, arrays):
        all_, keep = (_Array * len(arrays))(), []
        for one, a, (_, _, kind, _) in zip(all_, arrays, self._params):
            shape, strides = (_c.c_int64 * a.ndim)(*a.shape), (_c.c_int64 * a.ndim)(*(s // a.itemsize for s in a.strides))
            keep += [shape, strides, a]
            one.data, one.shape, one.strides = a.ctypes.data, shape, strides
            one.dtype, one.rank, one.elem_bytes = _CODES[kind], a.ndim, a.itemsize
        status = self._call(all_)
        if status:
            kind, text = _SAID.get(status, (ValueError, f"refused its arguments (check {status}): do they share memory, or "
                                                        "does a value lead out of bounds?"))
            raise kind(f"{self.__name__} {text}")


