"""Wrong calls: each raises one exception of the right class, which is a LatheError, says what is wrong and what was given, and
leads to the user's own line."""

import copy
import linecache
import pickle
import sys
import textwrap
import traceback
import warnings

import numpy as np
import pytest

import lathe

gemm = lathe.kernel("""
kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }
strategy tiled(ti = 64 in 16..=256 step 16) for gemm = tile(i: ti, j: 64)
""")
scale = lathe.kernel("kernel scale(a: f32, x: f32[N]) -> (y: f32[N]) { y[i] = a * x[i] }")
add = lathe.kernel("kernel add(n: i8, x: i8[N]) -> (y: i8[N]) { y[i] = n + x[i] }")
flip = lathe.kernel("kernel flip(b: bool, x: bool[N]) -> (y: bool[N]) { y[i] = b and x[i] }")
grow = lathe.kernel("kernel grow(x: inout f32[N], y: f32[N]) { x[i] += y[i] }")
two = lathe.kernel("kernel two(x: f32[N]) -> (d: f32[N], s: f32[N]) { d[i] = 2 * x[i]\n s[i] = x[i] * x[i] }")
blur = lathe.kernel("kernel blur(x: f32[N]) -> (y: f32[N - 2]) { y[i] = x[i] + x[i + 2] where i in 0..N-2 }")
long = lathe.kernel("kernel long(n: u64, m: i64, x: f64[N]) -> (y: f64[N]) { y[i] = x[i] + f64(n) + f64(m) }")
divide = lathe.kernel("kernel divide(x: i32[N], y: i32[N]) -> (q: i32[N]) { q[i] = x[i] // y[i] }")
point = lathe.kernel("struct P { v: f32, i: i32 }\nkernel point(x: P[N]) -> (y: f32[N]) { y[i] = x[i].v }")

A, B = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
x, i8, d = np.ones(6, np.float32), np.ones(6, np.int8), np.ones(6)
frozen = np.ones(6, np.float32)
frozen.flags.writeable = False
odd = np.zeros(25, np.uint8)[1:].view(np.float32)
swapped = x.astype(">f4")


class Series:
    """What has numbers and a type, as pandas has it."""

    def __init__(self, values, dtype):
        self.values = np.asarray(values, dtype)
        self.dtype = self.values.dtype

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype)

    def __len__(self):
        return len(self.values)


class Raises:
    @property
    def __array_interface__(self):
        raise RuntimeError("no")


D, S, L, O, R, P, V = (lathe.DtypeError, lathe.ShapeError, lathe.LayoutError, lathe.OverlapError, lathe.ReadOnlyError,
                       lathe.OptionError, lathe.StrategyError)
#: Calls, the class of their exception, and a part of what it says.
CALLS = [
    # Types.
    ("gemm(A.astype(np.float64), B)", D, "float64"), ("gemm(A, B.astype(np.int32))", D, "int32"), ("gemm(A.astype(np.float16), B)", D, "float16"),
    ("gemm(A.astype(complex), B)", D, "complex128"), ("gemm(A.astype(bool), B)", D, "bool"), ("gemm(A.astype(object), B)", D, "object"),
    ("gemm(A.astype(str), B)", D, "<U"), ("gemm(A.astype('S3'), B)", D, "S3"), ("gemm(A.astype('datetime64[s]'), B)", D, "datetime64"),
    ("gemm(A.astype(np.longdouble), B)", D, "longdouble|float128"), ("gemm(np.ones((3, 4), [('a', 'f4')]), B)", D, "a"),
    ("gemm(A.tolist(), B)", D, "`list`"), ("gemm(None, B)", D, "NoneType"), ("gemm('A', B)", D, "`str`"), ("gemm(3, B)", D, "`int`"),
    ("gemm(3.5, B)", D, "`float`"), ("gemm({}, B)", D, "`dict`"), ("gemm(b'abc', B)", D, "`bytes`"), ("gemm(print, B)", D, "builtin"),
    ("gemm(np.float32, B)", D, "`type`"), ("gemm(np.matrix(A).tolist(), B)", D, "`list`"), ("gemm(np.ma.masked_array(A), B)", D, "MaskedArray"),
    ("gemm(iter([1]), B)", D, "list_iterator"), ("gemm(range(4), B)", D, "`range`"), ("gemm(memoryview(A), B)", D, "memoryview"),
    ("scale(2, x.view(np.int32))", D, "int32"), ("scale(2, x.view(np.uint32))", D, "uint32"), ("scale(2, d)", D, "float64"),
    ("scale(2, Series([1], 'f8'))", D, "Series"), ("add(1, i8.view(np.uint8))", D, "uint8"), ("flip(True, i8)", D, "int8"),
    ("point(x)", D, "float32"), ("point(np.zeros(3, [('v', 'f4'), ('j', 'i4')]))", D, "j"), ("grow(x.tolist(), x)", D, "`list`"),
    ("scale(2, x.astype('m8[s]'))", D, "timedelta"), ("scale(2, gemm)", D, "Kernel"), ("scale(2, [x])", D, "`list`"),
    ("two(set())", D, "`set`"), ("scale(2, ...)", D, "ellipsis"), ("scale(2, Exception())", D, "Exception"),
    # Numbers.
    ("scale('2', x)", D, "`a` is a number of type f32, but the argument is str"), ("scale(None, x)", D, "NoneType"), ("scale([2], x)", D, "list"),
    ("scale(x, x)", D, "ndarray"), ("scale(1j, x)", D, "complex"), ("scale(1e300, x)", D, "does not fit"), ("scale(-1e39, x)", D, "does not fit"),
    ("scale(10**400, x)", D, "int"), ("add(1.5, i8)", D, "float"), ("add(2.0, i8)", D, "float"), ("add(128, i8)", D, "does not fit"),
    ("add(-129, i8)", D, "does not fit"), ("add(2**70, i8)", D, "does not fit"), ("add('1', i8)", D, "str"), ("add(np.float32(1), i8)", D, "float32"),
    ("add(np.array([1]), i8)", D, "ndarray"), ("add(i8, i8)", D, "ndarray"), ("flip(1, x > 0)", D, "int"), ("flip('', x > 0)", D, "str"),
    ("flip(None, x > 0)", D, "NoneType"), ("flip(x > 0, x > 0)", D, "ndarray"), ("long(-1, 0, d)", D, "does not fit"),
    ("long(2**64, 0, d)", D, "does not fit"), ("long(0, 2**63, d)", D, "does not fit"), ("long(0, 1.0, d)", D, "float"),
    ("long(0, -(2**63) - 1, d)", D, "does not fit"), ("scale(np.datetime64('now'), x)", D, "datetime64"), ("scale(object(), x)", D, "object"),
    # Shapes.
    ("gemm(A, A)", S, "`B` must have extent 4, but the argument has 3"), ("gemm(A, B.T)", S, "extent 4"), ("gemm(A[0], B)", S, "2 dimensions"),
    ("gemm(A, B[0])", S, "2 dimensions"), ("gemm(A[None], B)", S, "has 3"), ("gemm(A, np.float32(1))", S, "has 0"),
    ("gemm(A, np.array(1, np.float32))", S, "has 0"), ("gemm(A[:, :0], B)", S, "extent 0"), ("gemm(A, B[:3])", S, "has 3"),
    ("grow(x, x[:3].copy())", S, "extent 6"), ("blur(x[:1])", S, "would have -1"), ("blur(x[:0])", S, "would have -2"), ("scale(2, A)", S, "1 dimensions"),
    ("gemm(A, B, out=np.zeros((3, 4), np.float32))", S, "`C` must have extent 5"), ("gemm(A, B, out=np.zeros(15, np.float32))", S, "2 dimensions"),
    ("gemm(A, B, out=np.zeros((5, 3), np.float32))", S, "extent 3"), ("two(A)", S, "1 dimensions"), ("add(1, i8[None])", S, "1 dimensions"),
    ("divide(np.ones(3, 'i4'), np.ones(4, 'i4'))", S, "extent 3"), ("scale(2, x, out=x[:5].copy())", S, "extent 6"), ("point(np.zeros((1, 1), point.dtype('x')))", S, "1 dimensions"),
    # How many, and by which name.
    ("gemm()", D, "takes 2 arguments, 0 were given"), ("gemm(A)", D, "1 were given"), ("gemm(A, B, A)", D, "3 were given"), ("gemm(A, A=B)", D, "given twice"),
    ("gemm(A, B, B=B)", D, "takes 2"), ("gemm(B=B)", D, "1 were given"), ("gemm(A, a=B)", P, "no argument `a`"), ("gemm(A, B, alpha=2)", P, "alpha"),
    ("gemm(A, C=B)", P, "`C`"), ("gemm(A, B, C=A)", P, "result"), ("gemm(A, B, thread=2)", P, "perhaps `threads`"), ("gemm(A, B, stratgy='x')", P, "perhaps `strategy`"),
    ("gemm(A, B, ouput=A)", P, "no argument `ouput`"), ("gemm(A, B, param={})", P, "perhaps `params`"), ("gemm(A, B, **{'': 1})", P, "no argument"),
    ("two(x, x)", D, "2 were given"), ("grow(x)", D, "1 were given"),
    # Options.
    ("gemm(A, B, threads=0)", P, "threads"), ("gemm(A, B, threads=-1)", P, "threads"), ("gemm(A, B, threads=1.5)", P, "threads"),
    ("gemm(A, B, threads='2')", P, "threads"), ("gemm(A, B, threads=True)", P, "threads"), ("gemm(A, B, threads=[2])", P, "threads"),
    ("gemm(A, B, threads=10**30)", P, "threads"), ("gemm(A, B, threads=10**9)", lathe.MachineError, "cannot be started"),
    ("gemm(A, B, copy='yes')", P, "copy"), ("gemm(A, B, copy=1)", P, "copy"), ("gemm(A, B, strategy=3)", P, "strategy"), ("gemm(A, B, strategy=gemm)", (P, V), ""),
    ("gemm(A, B, strategy='tield')", V, "no strategy `tield`"), ("gemm(A, B, strategy='')", V, ""), ("gemm(A, B, params=dict(ti=32))", P, "belong to a strategy"),
    ("gemm(A, B, strategy='tiled', params=3)", P, "params"), ("gemm(A, B, strategy='tiled', params=[('ti', 3)])", P, "params"),
    ("gemm(A, B, strategy='tiled', params={3: 3})", P, "params"), ("gemm(A, B, strategy='tiled', params=dict(tk=16))", V, "tk"),
    ("gemm(A, B, strategy='tiled', params=dict(ti=17))", V, "17"), ("gemm(A, B, strategy='tiled', params=dict(ti='many'))", V, ""),
    ("gemm(A, B, strategy='tiled', params=dict(ti=None))", V, ""), ("gemm(A, B, specialize=3)", P, "specialize"), ("gemm(A, B, specialize=dict(K='x'))", P, "specialize"),
    ("gemm(A, B, specialize=dict(Z=3))", lathe.LatheError, "Z"), ("gemm(A, B, specialize=dict(K=9))", S, ""), ("gemm(A, B, specialize=dict(K=-1))", lathe.LatheError, ""),
    ("gemm(A, B, out=3)", D, "`int`"), ("gemm(A, B, out='x')", D, "`str`"), ("gemm(A, B, out=[1])", D, "`list`"), ("gemm(A, B, out=())", lathe.ArgumentError, "holds 0"),
    ("gemm(A, B, out=(A, B))", lathe.ArgumentError, "holds 2"), ("two(x, out=x.copy())", lathe.ArgumentError, "2 results"), ("gemm(A, B, out=np.zeros((3, 5)))", D, "float64"),
    ("gemm(A, B, out=A.tolist())", D, "`list`"), ("two(x, out=(x.copy(), None, None))", lathe.ArgumentError, "holds 3"), ("grow(x, x.copy(), out=x.copy())", lathe.ArgumentError, "0 results"),
    # Memory.
    ("scale(2, x, out=x)", O, "share memory"), ("scale(2, x, out=x[::-1])", O, "share memory"), ("grow(x, x)", O, "share memory"), ("two(x, out=(d.view('f4')[:6], d.view('f4')[3:9]))", O, "share"),
    ("scale(2, x, out=np.broadcast_to(np.float32(0), 6))", (O, R), ""), ("scale(2, x, out=frozen)", R, "read-only"), ("grow(frozen, x)", R, "read-only"),
    ("scale(2, odd)", L, "multiples"), ("scale(2, x, out=odd[:6])", L, "numpy.empty"), ("scale(2, swapped)", D, "byte order"), ("scale(2, x, out=swapped)", D, "numpy.empty"),
    ("grow(swapped, x)", D, "byte order"), ("scale(2, np.zeros(3, 'u1,f4')['f1'])", L, "multiples"), ("grow(odd[:6], x)", L, "numpy.empty"),
    # Conversions that would need other values.
    ("add(1, [300, 1.7], copy=True)", D, "float64"), ("add(1, [1.0, 2.0], copy=True)", D, "float64"), ("add(1, [300], copy=True)", D, "int64"),
    ("add(1, ['1', '2'], copy=True)", D, "<U1"), ("add(1, [True], copy=True)", D, "bool"), ("scale(2, [1e300], copy=True)", D, "float64"), ("scale(2, ['1'], copy=True)", D, "<U1"),
    ("scale(2, [1j], copy=True)", D, "complex128"), ("scale(2, [None], copy=True)", D, "object"), ("scale(2, [[1], [2, 3]], copy=True)", D, "x"), ("scale(2, Series([1.5], 'f8'), copy=True)", D, "float64"),
    ("scale(2, Series([1], 'i4'), copy=True)", D, "int32"), ("scale(2, d, copy=True)", D, "float64"), ("scale(2, d.astype('>f8'), copy=True)", D, ">f8|float64"), ("flip(True, [0, 1], copy=True)", D, "int64"),
    ("flip(True, ['a'], copy=True)", D, "<U1"), ("scale(2, 'abc', copy=True)", D, "U3"), ("scale(2, [True], copy=True)", D, "bool"), ("add(1, [2**70], copy=True)", D, "object"), ("grow([1.0], x[:1], copy=True)", D, "`list`"),
    ("scale(2, Raises(), copy=True)", lathe.LatheError, ""), ("long(0, 0, x, copy=True)", D, "float32"), ("gemm(np.ma.masked_array(A), B, copy=True)", D, "MaskedArray"),
    # While it runs.
    ("divide(np.ones(3, 'i4'), np.zeros(3, 'i4'))", lathe.DivisionError, "zero"), ("gemm(np.broadcast_to(A[:1, :1], (2**40, 4)), np.broadcast_to(B[:, :1], (4, 2**40)))", lathe.OutOfMemoryError, "memory"),
    ("scale(2, np.broadcast_to(x[:1], 2**50))", lathe.OutOfMemoryError, "memory"),
    # Looks at kernels.
    ("gemm.emit('pdf')", P, "pdf"), ("gemm.emit('object', '/nowhere/x.o')", lathe.FileError, "nowhere"), ("gemm.explain(strategy='none')", V, "none"), ("gemm.explain(params=dict(a=1))", P, "strategy"),
    ("gemm.compile(strategy=3)", P, "strategy"), ("gemm.compile(A)", D, "1 were given"), ("gemm.dtype('Z')", P, "Z"), ("gemm.tune(A)", D, "1 were given"),
    ("gemm.tune(A, B, budget='soon')", lathe.TuneError, "soon"), ("gemm.tune(A, B, strategy='no', store=False)", V, "no"), ("gemm.with_('strategy broken for')", lathe.SourceError, ""), ("gemm.with_(3)", P, "int"),
    ("gemm.tune(A, B, technique='magic', strategy='tiled', store=False, budget='1s')", lathe.LatheError, "magic"), ("gemm.emit('asm', cpu='8086')", lathe.LatheError, ""),
    # Making them.
    ("lathe.kernel(3)", P, "int"), ("lathe.kernel(None)", P, "NoneType"), ("lathe.kernel('')", lathe.SourceError, ""), ("lathe.kernel('kernel')", lathe.SourceError, ""), ("lathe.kernel(gemm.source(), 'gem')", lathe.SourceError, "gem"),
    ("lathe.kernel(gemm.source(), 3)", P, "int"), ("lathe.kernel(b'kernel')", P, "bytes"), ("lathe.kernel(len)", P, "builtin"), ("lathe.fun(3)", P, "int"), ("lathe.load('/nowhere/file.lathe')", lathe.FileError, "nowhere"),
    ("lathe.load('/')", lathe.FileError, ""), ("lathe.load(3)", P, "int"), ("lathe.load(linecache.__file__)", lathe.SourceError, ""), ("lathe.mdh(3)", lathe.LatheError, ""), ("lathe.set_threads(-1)", P, "threads"),
    ("lathe.set_threads('2')", P, "threads"), ("lathe.strategy(3)", V, "int"), ("lathe.strategy(lambda p: 3)", V, "int"), ("lathe.pick([])", V, "nothing"), ("lathe.pick(3)", V, "pick"), ("lathe.errors.explain('E9999')", P, "E9999"),
    ("lathe.tune(3, {'a': [1]})", lathe.LatheError, "int"), ("lathe.tune(lambda a: a, {})", lathe.TuneError, "no parameters"), ("lathe.tune(lambda a: a, {'a': 3})", lathe.TuneError, "int"), ("lathe.tune(lambda a: a, {'a': []})", lathe.TuneError, "no values"),
    ("lathe.tune(lambda a: 'x', {'a': [1]})", lathe.TuneError, ""), ("lathe.count({'a': lathe.param([1], lambda b: True)})", lathe.TuneError, "b"),
    ("lathe.f32[1.5]", P, "1.5"), ("lathe.kernel(lambda x: x)", lathe.SourceError, ""),
    # einsum.
    ("lathe.einsum('ij,jk', A)", P, ""), ("lathe.einsum('ij,jk->ik', A, A)", P, ""), ("lathe.einsum('i1', A)", P, ""), ("lathe.einsum('ij->ijk', A)", P, ""), ("lathe.einsum(A)", P, ""), ("lathe.einsum()", P, ""),
    ("lathe.einsum('ij', A, out=3)", P, "int"), ("lathe.einsum('ij,jk', A, B, optimize='best')", P, "best"), ("lathe.einsum('ij,jk', A, B, out=np.zeros((2, 2)))", P, "shape"), ("lathe.einsum('ij', A, order='X')", P, "order"),
    ("lathe.einsum_path('ij,jk', A)", P, ""), ("lathe.einsum('ij,jk', A, B, threads=0)", P, "threads"), ("lathe.einsum(3, A)", P, ""),
]


def test_there_are_enough():
    assert len(CALLS) >= 200 and len({c for c, _, _ in CALLS}) == len(CALLS)


@pytest.mark.parametrize("call,kind,said", CALLS, ids=[c for c, _, _ in CALLS])
def test_a_wrong_call(call, kind, said, tmp_path):
    import re

    # The user's own file, with a line that is to blame.
    file = tmp_path / "user.py"
    file.write_text(f"def call():\n    before = 1\n    return {call}\n")
    scope = dict(globals())
    exec(compile(file.read_text(), str(file), "exec"), scope)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lathe.CopyWarning)
        with pytest.raises(lathe.LatheError) as e:
            scope["call"]()
    error = e.value
    assert isinstance(error, kind), (type(error), str(error))
    assert re.search(said, str(error)), str(error)
    assert error.__cause__ is None or not isinstance(error.__cause__, lathe.LatheError)
    frames = traceback.extract_tb(error.__traceback__)
    assert any(f.filename == str(file) and f.lineno == 3 for f in frames)
    assert error.message and isinstance(pickle.loads(pickle.dumps(copy.copy(error))), type(error))


#: Bodies of decorated functions, which of their lines is to blame, and a part of what is said.
FUNCTIONS = [
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i: x[i] + nowhere(x[i])", 2, "nowhere"),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    y = x[0]\n    return lambda i: x[i] + z", 3, "z"),
    ("def f(x: lathe.i32['N']) -> lathe.i32['N']:\n    return lambda i: x[i] / 2", 2, "integers"),
    ("def f(x: lathe.f32['N'], t: lathe.out(lathe.f32['N'])):\n    for i in range(3):\n        with open('x'):\n            t[i] = x[i]", 3, "no meaning"),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    return x", 2, "function of the indices"),
    ("def f(x) -> lathe.f32['N']:\n    return lambda i: x[i]", 1, "no type"),
    ("def f(x: 3) -> lathe.f32['N']:\n    return lambda i: x[i]", 1, "no type"),
    ("def f(x: lathe.f32['N']) -> 3:\n    return lambda i: x[i]", 1, "no type"),
    ("def f(*x: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i: x[i]", 1, "parameters"),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i, j: x[i]", 2, "dimensions"),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i: x[1:2]", 2, "slices"),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i: x.shape[3] * x[i]", 2, "dimensions"),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i: x[i] if x[i] is None else 1", 2, "comparison"),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i: sum(x[k] for k in x)", 2, "range"),
    ("def f(x: lathe.f32['N'], y: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i: (\n        x[i]\n        + y[i, 0])", 4, "dimension"),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    while True:\n        import os\n    return lambda i: x[i]", 3, "no meaning"),
]


@pytest.mark.parametrize("body,line,said", FUNCTIONS, ids=[str(n) for n in range(len(FUNCTIONS))])
def test_a_wrong_function(body, line, said, tmp_path):
    file = tmp_path / "user.py"
    file.write_text("import lathe\n\n\n@lathe.kernel\n" + body + "\n")
    with pytest.raises(lathe.SourceError) as e:
        exec(compile(file.read_text(), str(file), "exec"), {"__name__": "user"})
    assert e.value.file == str(file) and e.value.line == 4 + line, str(e.value)
    assert said in str(e.value) and f"{file}:{4 + line}:" in str(e.value), str(e.value)
    shown = file.read_text().splitlines()[3 + line]
    assert f"| {shown}" in str(e.value) and "^" in str(e.value)


def test_what_is_found_later_leads_there_as_well(tmp_path):
    """Bounds that are not shown are found when the kernel is compiled."""
    file = tmp_path / "user.py"
    file.write_text(textwrap.dedent("""
        import lathe

        @lathe.kernel
        def f(x: lathe.f32["N"], k: lathe.i32["N"]) -> lathe.f32["N"]:
            return lambda i: x[k[i]]
    """))
    scope = {"__name__": "user"}
    with pytest.raises(lathe.LatheError) as e:
        exec(compile(file.read_text(), str(file), "exec"), scope)
        scope["f"](x, np.full(6, 99, np.int32))
    assert (f"{file}:5:" in str(e.value) or f"{file}:6:" in str(e.value)) and "x[index(k[i])]" in str(e.value), str(e.value)


def test_warnings_lead_to_the_callers_line():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        scale(2, swapped, copy=True)
    assert [w.filename for w in said] == [__file__]


def test_imports_from_files_are_named(tmp_path):
    import subprocess
    import zipfile
    from pathlib import Path

    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as z:
        for f in Path(lathe.__file__).parent.glob("*.py"):
            z.write(f, f"lathe/{f.name}")
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(archive)!r}); import lathe"], capture_output=True, text=True)
    assert done.returncode and "cannot be imported from a file" in done.stderr, done.stderr
