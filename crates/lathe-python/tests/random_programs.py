"""Random programs for the tests: a kernel's text, and the same as arithmetic of any array package.

Values are small whole numbers, so that every order of every sum has the same bits in every type."""

import numpy as np

import lathe

DTYPES = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "i16": "int16", "u8": "uint8", "c64": "complex64",
          "c128": "complex128"}


class Program:
    """`kernel`, `reference(xp, *inputs)`, and `inputs(rng)` as arrays of numpy."""

    def __init__(self, rng, kinds):
        self.kind = str(rng.choice(kinds))
        self.dtype = np.dtype(DTYPES[self.kind])
        #: Complex numbers have conjugates, and no order.
        self.complex = self.kind[0] == "c"
        self.rank = int(rng.integers(1, 4))
        names = "ijk"[: self.rank]
        self.sizes = {n: int(rng.choice([0, 1, 2, 3, 5, 8, 17], p=[0.05, 0.1, 0.15, 0.2, 0.2, 0.2, 0.1])) for n in "ijkr"}
        arrays = []
        for n in range(int(rng.integers(1, 4))):
            mine = [d for d in names if rng.random() < 0.8] or [names[0]]
            arrays.append(("xyz"[n], mine))
        # Every index of the result is an index of some array.
        for d in names:
            if all(d not in mine for _, mine in arrays):
                arrays[0][1].append(d)
        self.arrays = [(n, sorted(mine, key=names.index)) for n, mine in arrays]
        self.scalar = bool(rng.random() < 0.5)
        # What is summed, and where it stands among an array's indices.
        self.summed = bool(rng.random() < 0.5)
        if self.summed:
            n, mine = self.arrays[int(rng.integers(len(self.arrays)))]
            mine.insert(int(rng.integers(len(mine) + 1)), "r")
        tree = self._tree(rng, 3)
        self.tree, self.names = tree, names
        parameters = ["a: " + self.kind] if self.scalar else []
        parameters += [f"{n}: {self.kind}[{', '.join(d.upper() for d in mine)}]" for n, mine in self.arrays]
        result = f"{self.kind}[{', '.join(d.upper() for d in names)}]"
        body = self._text(tree)
        body = f"sum[r in 0..R]({body})" if self.summed else body
        self.source = f"kernel program({', '.join(parameters)}) -> (out: {result}) {{ out[{', '.join(names)}] = {body} }}"
        self.kernel = lathe.kernel(self.source)

    def _tree(self, rng, depth):
        if depth == 0 or rng.random() < 0.25:
            choices = [("array", n) for n, _ in self.arrays] + ([("scalar",)] if self.scalar else []) + [("number", int(rng.integers(0, 4)))]
            return choices[int(rng.integers(len(choices)))]
        op = str(rng.choice(["+", "-", "*", "min", "max", "neg", "select"], p=[0.25, 0.15, 0.25, 0.1, 0.1, 0.05, 0.1]))
        if self.complex and op in ("min", "max"):
            op = "conj"
        if op in ("neg", "conj"):
            return (op, self._tree(rng, depth - 1))
        if op == "select":
            return (op, *(self._tree(rng, depth - 1) for _ in range(4)))
        return (op, self._tree(rng, depth - 1), self._tree(rng, depth - 1))

    def _text(self, t):
        match t:
            case ("array", n):
                return f"{n}[{', '.join(dict(self.arrays)[n])}]"
            case ("scalar",):
                return "a"
            case ("number", v):
                return f"{self.kind}({v})"
            case ("neg", x):
                return f"({self.kind}(0) - {self._text(x)})"
            case ("conj", x):
                return f"conj({self._text(x)})"
            case ("select", a, b, x, y):
                return f"select({self._text(a)} {'==' if self.complex else '<'} {self._text(b)}, {self._text(x)}, {self._text(y)})"
            case (("min" | "max") as op, x, y):
                return f"{op}({self._text(x)}, {self._text(y)})"
            case (op, x, y):
                return f"({self._text(x)} {op} {self._text(y)})"

    def inputs(self, rng):
        """Arrays that lie in many ways."""
        def numbers(shape):
            real = rng.integers(0, 3 if self.complex else 4, shape)
            return (real + 1j * rng.integers(-2, 3, shape) if self.complex else np.asarray(real)).astype(self.dtype)

        out = [numbers(())[()]] if self.scalar else []
        for _, mine in self.arrays:
            out.append(laid(rng, numbers([self.sizes[d] for d in mine])))
        return out

    def reference(self, xp, *inputs):
        inputs = list(inputs)
        scalar = inputs.pop(0) if self.scalar else None
        wide = self.names + ("r" if self.summed else "")
        values = {}
        for (n, mine), x in zip(self.arrays, inputs):
            # The summed index stands last, whatever its place.
            order = sorted(range(len(mine)), key=lambda d: wide.index(mine[d]))
            x = xp.permute_dims(x, tuple(order)) if hasattr(xp, "permute_dims") else xp.transpose(x, tuple(order)) if xp is np else x.permute(order)
            values[n] = x[tuple(slice(None) if d in mine else None for d in wide)]
        shape = tuple(self.sizes[d] for d in wide)
        out = xp.broadcast_to(self._value(xp, self.tree, values, scalar, shape), shape)
        return out.sum(-1).astype(self.dtype) if self.summed and xp is np else out.sum(-1) if self.summed else out

    def _value(self, xp, t, values, scalar, shape):
        def v(t):
            return self._value(xp, t, values, scalar, shape)

        def number(x):
            if xp.__name__ == "torch":
                return xp.full(shape, x, dtype=getattr(xp, self.dtype.name)) if not isinstance(x, xp.Tensor) else x
            return xp.full(shape, x, dtype=self.dtype) if np.ndim(x) == 0 else x

        match t:
            case ("array", n):
                return values[n]
            case ("scalar",):
                return number(scalar)
            case ("number", x):
                return number(x)
            case ("neg", x):
                return number(0) - v(x)
            case ("conj", x):
                return v(x).conj()
            case ("select", a, b, x, y):
                return xp.where(v(a) == v(b) if self.complex else v(a) < v(b), v(x), v(y))
            # Of equal operands the first is chosen, and has the derivative.
            case ("min", x, y):
                return xp.where(v(y) < v(x), v(y), v(x))
            case ("max", x, y):
                return xp.where(v(y) > v(x), v(y), v(x))
            case ("+", x, y):
                return v(x) + v(y)
            case ("-", x, y):
                return v(x) - v(y)
            case ("*", x, y):
                return v(x) * v(y)


def laid(rng, a):
    """An array with these elements that lies in some way."""
    for _ in range(int(rng.integers(0, 3))):
        how = int(rng.integers(5))
        if how == 0 and a.ndim:
            a = np.asfortranarray(a)
        elif how == 1:
            big = np.full([2 * n + 1 for n in a.shape], 9, a.dtype)
            view = big[tuple(slice(1, None, 2) for _ in a.shape)]
            view[...] = a
            a = view
        elif how == 2 and a.ndim:
            axis = int(rng.integers(a.ndim))
            a = np.flip(np.flip(a, axis).copy(), axis)
        elif how == 3:
            a = a.copy()
            a.flags.writeable = False
        elif how == 4 and a.ndim > 1:
            a = np.moveaxis(np.moveaxis(a, 0, -1).copy(), -1, 0)
    return a
