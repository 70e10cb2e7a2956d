"""Wrong calls: each raises one exception of the right class, which is a LatheError, has the right code, names what is wrong and
what was given, and leads to the user's own line."""

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
from refusals import refused

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


D, S, L, O, R, G = (lathe.DtypeError, lathe.ShapeError, lathe.LayoutError, lathe.OverlapError, lathe.ReadOnlyError, lathe.ArgumentError)
P, V, T, Q, F = lathe.OptionError, lathe.StrategyError, lathe.TuneError, lathe.SourceError, lathe.FileError
#: Calls, the class of their exception, its code, and the names and numbers that it quotes.
CALLS = [
    # Types.
    ("gemm(A.astype(np.float64), B)", D, "E0809", "float64"), ("gemm(A, B.astype(np.int32))", D, "E0809", "int32"),
    ("gemm(A.astype(np.float16), B)", D, "E0809", "float16"), ("gemm(A.astype(complex), B)", D, "E0809", "complex128"),
    ("gemm(A.astype(bool), B)", D, "E0809", "bool"), ("gemm(A.astype(object), B)", D, "E0809", "object"),
    ("gemm(A.astype(str), B)", D, "E0809", "<U32"), ("gemm(A.astype('S3'), B)", D, "E0809", "S3"),
    ("gemm(A.astype('datetime64[s]'), B)", D, "E0809", "datetime64[s]"), ("gemm(A.astype(np.longdouble), B)", D, "E0809", "`A`"),
    ("gemm(np.ones((3, 4), [('a', 'f4')]), B)", D, "E0809", "'a'"), ("gemm(A.tolist(), B)", D, "E0809", "`list`"),
    ("gemm(None, B)", D, "E0809", "`NoneType`"), ("gemm('A', B)", D, "E0809", "`str`"), ("gemm(3, B)", D, "E0809", "`int`"),
    ("gemm(3.5, B)", D, "E0809", "`float`"), ("gemm({}, B)", D, "E0809", "`dict`"), ("gemm(b'abc', B)", D, "E0809", "`bytes`"),
    ("gemm(print, B)", D, "E0809", "`builtin_function_or_method`"), ("gemm(np.float32, B)", D, "E0809", "`type`"),
    ("gemm(np.matrix(A).tolist(), B)", D, "E0809", "`list`"), ("gemm(np.ma.masked_array(A), B)", D, "E0809", "`MaskedArray`"),
    ("gemm(iter([1]), B)", D, "E0809", "`list_iterator`"), ("gemm(range(4), B)", D, "E0809", "`range`"),
    ("gemm(memoryview(A), B)", D, "E0809", "`memoryview`"), ("scale(2, x.view(np.int32))", D, "E0809", "int32"),
    ("scale(2, x.view(np.uint32))", D, "E0809", "uint32"), ("scale(2, d)", D, "E0809", "float64"),
    ("scale(2, Series([1], 'f8'))", D, "E0809", "`Series`"), ("add(1, i8.view(np.uint8))", D, "E0809", "uint8"),
    ("flip(True, i8)", D, "E0809", "int8"), ("point(x)", D, "E0809", "float32"),
    ("point(np.zeros(3, [('v', 'f4'), ('j', 'i4')]))", D, "E0809", "'j'"), ("grow(x.tolist(), x)", D, "E0809", "`list`"),
    ("scale(2, x.astype('m8[s]'))", D, "E0809", "timedelta64[s]"), ("scale(2, gemm)", D, "E0809", "`Kernel`"),
    ("scale(2, [x])", D, "E0809", "`list`"), ("two(set())", D, "E0809", "`set`"), ("scale(2, ...)", D, "E0809", "`ellipsis`"),
    ("scale(2, Exception())", D, "E0809", "`Exception`"),
    # Numbers.
    ("scale('2', x)", D, "E0809", "`a` f32 str"), ("scale(None, x)", D, "E0809", "NoneType"), ("scale([2], x)", D, "E0809", "list"),
    ("scale(x, x)", D, "E0809", "ndarray"), ("scale(1j, x)", D, "E0809", "complex"), ("scale(1e300, x)", D, "E0809", "`a` f32"),
    ("scale(-1e39, x)", D, "E0809", "`a` f32"), ("scale(10**400, x)", D, "E0809", "int"), ("add(1.5, i8)", D, "E0809", "float"),
    ("add(2.0, i8)", D, "E0809", "float"), ("add(128, i8)", D, "E0809", "`n` i8"), ("add(-129, i8)", D, "E0809", "`n` i8"),
    ("add(2**70, i8)", D, "E0809", "`n` i8"), ("add('1', i8)", D, "E0809", "str"), ("add(np.float32(1), i8)", D, "E0809", "float32"),
    ("add(np.array([1]), i8)", D, "E0809", "ndarray"), ("add(i8, i8)", D, "E0809", "ndarray"), ("flip(1, x > 0)", D, "E0809", "int"),
    ("flip('', x > 0)", D, "E0809", "str"), ("flip(None, x > 0)", D, "E0809", "NoneType"), ("flip(x > 0, x > 0)", D, "E0809", "ndarray"),
    ("long(-1, 0, d)", D, "E0809", "`n` u64"), ("long(2**64, 0, d)", D, "E0809", "`n` u64"), ("long(0, 2**63, d)", D, "E0809", "`m` i64"),
    ("long(0, 1.0, d)", D, "E0809", "float"), ("long(0, -(2**63) - 1, d)", D, "E0809", "`m` i64"),
    ("scale(np.datetime64('now'), x)", D, "E0809", "datetime64"), ("scale(object(), x)", D, "E0809", "object"),
    # Shapes.
    ("gemm(A, A)", S, "E0811", "`B` 4 3"), ("gemm(A, B.T)", S, "E0811", "`B` 4 5"), ("gemm(A[0], B)", S, "E0810", "`A` 2 1"),
    ("gemm(A, B[0])", S, "E0810", "`B` 2 1"), ("gemm(A[None], B)", S, "E0810", "`A` 2 3"), ("gemm(A, np.float32(1))", S, "E0810", "`B` 2 0"),
    ("gemm(A, np.array(1, np.float32))", S, "E0810", "`B` 2 0"), ("gemm(A[:, :0], B)", S, "E0811", "`B` 0 4"),
    ("gemm(A, B[:3])", S, "E0811", "`B` 4 3"), ("grow(x, x[:3].copy())", S, "E0811", "`y` 6 3"), ("blur(x[:1])", S, "E0811", "`y` -1"),
    ("blur(x[:0])", S, "E0811", "`y` -2"), ("scale(2, A)", S, "E0810", "`x` 1 2"),
    ("gemm(A, B, out=np.zeros((3, 4), np.float32))", S, "E0811", "`C` 5 4"), ("gemm(A, B, out=np.zeros(15, np.float32))", S, "E0810", "`C` 2 1"),
    ("gemm(A, B, out=np.zeros((5, 3), np.float32))", S, "E0811", "`C` 3 5"), ("two(A)", S, "E0810", "`x` 1 2"),
    ("add(1, i8[None])", S, "E0810", "`x` 1 2"), ("divide(np.ones(3, 'i4'), np.ones(4, 'i4'))", S, "E0811", "`y` 3 4"),
    ("scale(2, x, out=x[:5].copy())", S, "E0811", "`y` 6 5"), ("point(np.zeros((1, 1), point.dtype('x')))", S, "E0810", "`x` 1 2"),
    # How many, and by which name.
    ("gemm()", D, "E0808", "`gemm` 2 0"), ("gemm(A)", D, "E0808", "`gemm` 2 1"), ("gemm(A, B, A)", D, "E0808", "`gemm` 2 3"),
    ("gemm(A, A=B)", D, "E0808", "`gemm` `A`"), ("gemm(A, B, B=B)", D, "E0808", "`gemm` 2 3"), ("gemm(B=B)", D, "E0808", "`gemm` 2 1"),
    ("gemm(A, a=B)", P, "E0917", "`gemm` `a`"), ("gemm(A, B, alpha=2)", P, "E0917", "`alpha`"), ("gemm(A, C=B)", P, "E0917", "`C`"),
    ("gemm(A, B, C=A)", P, "E0917", "`C`"), ("gemm(A, B, thread=2)", P, "E0917", "`thread` `threads`"),
    ("gemm(A, B, stratgy='x')", P, "E0917", "`stratgy` `strategy`"), ("gemm(A, B, ouput=A)", P, "E0917", "`ouput`"),
    ("gemm(A, B, param={})", P, "E0917", "`param` `params`"), ("gemm(A, B, **{'': 1})", P, "E0917", "``"), ("two(x, x)", D, "E0808", "`two` 1 2"),
    ("grow(x)", D, "E0808", "`grow` 2 1"),
    # Options.
    ("gemm(A, B, threads=0)", P, "E0917", "`threads` 0"), ("gemm(A, B, threads=-1)", P, "E0917", "`threads` -1"),
    ("gemm(A, B, threads=1.5)", P, "E0917", "`threads` 1.5"), ("gemm(A, B, threads='2')", P, "E0917", "`threads` '2'"),
    ("gemm(A, B, threads=True)", P, "E0917", "`threads` True"), ("gemm(A, B, threads=[2])", P, "E0917", "`threads` [2]"),
    ("gemm(A, B, threads=10**30)", P, "E0917", "`threads` 1000000000000000000000000000000"),
    ("gemm(A, B, threads=10**9)", lathe.MachineError, "E0818", "1000000000"), ("gemm(A, B, copy='yes')", P, "E0917", "`copy` 'yes'"),
    ("gemm(A, B, copy=1)", P, "E0917", "`copy` 1"), ("gemm(A, B, strategy=3)", P, "E0917", "3"), ("gemm(A, B, strategy=gemm)", P, "E0917", ""),
    ("gemm(A, B, strategy='tield')", V, "E0903", "`tield`"), ("gemm(A, B, strategy='')", V, "E0903", "`gemm`"),
    ("gemm(A, B, params=dict(ti=32))", P, "E0917", "`params`"), ("gemm(A, B, strategy='tiled', params=3)", P, "E0917", "`params` 3"),
    ("gemm(A, B, strategy='tiled', params=[('ti', 3)])", P, "E0917", "`params` 'ti'"),
    ("gemm(A, B, strategy='tiled', params={3: 3})", P, "E0917", "`params` 3"),
    ("gemm(A, B, strategy='tiled', params=dict(tk=16))", V, "E0601", "`tiled` `tk`"),
    ("gemm(A, B, strategy='tiled', params=dict(ti=17))", V, "E0602", "`ti` 17"),
    ("gemm(A, B, strategy='tiled', params=dict(ti='many'))", V, "E0601", "`ti` `many`"),
    ("gemm(A, B, strategy='tiled', params=dict(ti=None))", V, "E0601", "`ti` `None`"), ("gemm(A, B, specialize=3)", P, "E0917", "`specialize` 3"),
    ("gemm(A, B, specialize=dict(K='x'))", P, "E0917", "`specialize` 'x'"), ("gemm(A, B, specialize=dict(Z=3))", G, "E0904", "`Z`"),
    ("gemm(A, B, specialize=dict(K=9))", S, "E0811", "`A` 9 4"), ("gemm(A, B, specialize=dict(K=-1))", G, "E0904", "K -1"),
    ("gemm(A, B, out=3)", D, "E0809", "`int`"), ("gemm(A, B, out='x')", D, "E0809", "`str`"), ("gemm(A, B, out=[1])", D, "E0809", "`list`"),
    ("gemm(A, B, out=())", G, "E0907", "`gemm` 1 0"), ("gemm(A, B, out=(A, B))", G, "E0907", "`gemm` 1 2"),
    ("two(x, out=x.copy())", G, "E0907", "`two` 2 1"), ("gemm(A, B, out=np.zeros((3, 5)))", D, "E0809", "float64"),
    ("gemm(A, B, out=A.tolist())", D, "E0809", "`list`"), ("two(x, out=(x.copy(), None, None))", G, "E0907", "`two` 2 3"),
    ("grow(x, x.copy(), out=x.copy())", G, "E0907", "`grow` 0 1"),
    # Memory.
    ("scale(2, x, out=x)", O, "E0812", "`x` `y`"), ("scale(2, x, out=x[::-1])", O, "E0812", "`x` `y`"), ("grow(x, x)", O, "E0812", "`x` `y`"),
    ("two(x, out=(d.view('f4')[:6], d.view('f4')[3:9]))", O, "E0812", "`d` `s`"),
    ("scale(2, x, out=np.broadcast_to(np.float32(0), 6))", R, "E0822", "`y`"), ("scale(2, x, out=frozen)", R, "E0822", "`y`"),
    ("grow(frozen, x)", R, "E0822", "`x`"), ("scale(2, odd)", L, "E0813", "`x` copy=True"),
    ("scale(2, x, out=odd[:6])", L, "E0813", "`y` numpy.empty"), ("scale(2, swapped)", D, "E0809", "`x` copy=True"),
    ("scale(2, x, out=swapped)", D, "E0809", "`y` numpy.empty"), ("grow(swapped, x)", D, "E0809", "`x` numpy.empty"),
    ("scale(2, np.zeros(3, 'u1,f4')['f1'])", L, "E0813", "`x` copy=True"), ("grow(odd[:6], x)", L, "E0813", "`x` numpy.empty"),
    # Conversions that would need other values.
    ("add(1, [300, 1.7], copy=True)", D, "E0809", "float64"), ("add(1, [1.0, 2.0], copy=True)", D, "E0809", "float64"),
    ("add(1, [300], copy=True)", D, "E0809", "int64"), ("add(1, ['1', '2'], copy=True)", D, "E0809", "<U1"),
    ("add(1, [True], copy=True)", D, "E0809", "bool"), ("scale(2, [1e300], copy=True)", D, "E0809", "float64"),
    ("scale(2, ['1'], copy=True)", D, "E0809", "<U1"), ("scale(2, [1j], copy=True)", D, "E0809", "complex128"),
    ("scale(2, [None], copy=True)", D, "E0809", "object"), ("scale(2, [[1], [2, 3]], copy=True)", D, "E0809", "`x`"),
    ("scale(2, Series([1.5], 'f8'), copy=True)", D, "E0809", "float64"), ("scale(2, Series([1], 'i4'), copy=True)", D, "E0809", "int32"),
    ("scale(2, d, copy=True)", D, "E0809", "float64"), ("scale(2, d.astype('>f8'), copy=True)", D, "E0809", ">f8"),
    ("flip(True, [0, 1], copy=True)", D, "E0809", "int64"), ("flip(True, ['a'], copy=True)", D, "E0809", "<U1"),
    ("scale(2, 'abc', copy=True)", D, "E0809", "<U3"), ("scale(2, [True], copy=True)", D, "E0809", "bool"),
    ("add(1, [2**70], copy=True)", D, "E0809", "object"), ("grow([1.0], x[:1], copy=True)", D, "E0809", "`list`"),
    ("scale(2, Raises(), copy=True)", D, "E0809", "`Raises`"), ("long(0, 0, x, copy=True)", D, "E0809", "float32"),
    ("gemm(np.ma.masked_array(A), B, copy=True)", D, "E0809", "`MaskedArray`"),
    # While it runs.
    ("divide(np.ones(3, 'i4'), np.zeros(3, 'i4'))", lathe.DivisionError, "E0815", "`divide`"),
    ("gemm(np.broadcast_to(A[:1, :1], (2**40, 4)), np.broadcast_to(B[:, :1], (4, 2**40)))", lathe.OutOfMemoryError, "E0802", ""),
    ("scale(2, np.broadcast_to(x[:1], 2**50))", lathe.OutOfMemoryError, "E0802", ""),
    # Looks at kernels.
    ("gemm.emit('pdf')", P, "E0917", "`pdf`"), ("gemm.emit('object', '/nowhere/x.o')", F, "E0919", "`/nowhere/x.o`"),
    ("gemm.explain(strategy='none')", V, "E0903", "`none`"), ("gemm.explain(params=dict(a=1))", P, "E0917", "`params`"),
    ("gemm.compile(strategy=3)", P, "E0917", "3"), ("gemm.compile(A)", D, "E0808", "`gemm` 2 1"), ("gemm.dtype('Z')", P, "E0917", "`Z`"),
    ("gemm.tune(A)", D, "E0808", "`gemm` 2 1"), ("gemm.tune(A, B, budget='soon')", T, None, "`soon`"),
    ("gemm.tune(A, B, strategy='no', store=False)", V, "E0903", "`no`"), ("gemm.with_('strategy broken for')", Q, "E0105", ""),
    ("gemm.with_(3)", P, "E0917", "int"), ("gemm.tune(A, B, technique='magic', strategy='tiled', store=False, budget='1s')", T, "E1041", "`magic`"),
    ("gemm.emit('asm', cpu='8086')", lathe.CompileError, "E0703", "`8086`"),
    # Making them.
    ("lathe.kernel(3)", P, "E0917", "int"), ("lathe.kernel(None)", P, "E0917", "NoneType"), ("lathe.kernel('')", Q, "E0902", ""),
    ("lathe.kernel('kernel')", Q, "E0105", ""), ("lathe.kernel(gemm.source(), 'gem')", Q, "E0902", "`gem`"),
    ("lathe.kernel(gemm.source(), 3)", P, "E0917", "int"), ("lathe.kernel(b'kernel')", P, "E0917", "bytes"),
    ("lathe.kernel(len)", P, "E0917", "builtin_function_or_method"), ("lathe.fun(3)", P, "E0917", "int"),
    ("lathe.load('/nowhere/file.lathe')", F, "E0901", "`/nowhere/file.lathe`"), ("lathe.load('/')", F, "E0901", "`/`"),
    ("lathe.load(3)", P, "E0917", "int"), ("lathe.load(linecache.__file__)", Q, "E0103", ""), ("lathe.mdh(3)", P, None, "int"),
    ("lathe.set_threads(-1)", P, "E0917", "-1"), ("lathe.set_threads('2')", P, "E0917", "'2'"), ("lathe.strategy(3)", V, None, "`int`"),
    ("lathe.strategy(lambda p: 3)", V, None, "`int`"), ("lathe.pick([])", V, None, ""), ("lathe.pick(3)", V, None, "pick"),
    ("lathe.errors.explain('E9999')", P, "E0917", "`E9999`"), ("lathe.tune(3, {'a': [1]})", T, None, "int"),
    ("lathe.tune(lambda a: a, {})", T, None, ""), ("lathe.tune(lambda a: a, {'a': 3})", T, None, "`a` `int`"),
    ("lathe.tune(lambda a: a, {'a': []})", T, None, "`a`"), ("lathe.tune(lambda a: 'x', {'a': [1]})", T, "E1086", "TypeError"),
    ("lathe.count({'a': lathe.param([1], lambda b: True)})", T, None, "`b`"), ("lathe.f32[1.5]", P, None, "1.5"),
    ("lathe.kernel(lambda x: x)", Q, "E0918", ""),
    # einsum.
    ("lathe.einsum('ij,jk', A)", P, None, "2 1"), ("lathe.einsum('ij,jk->ik', A, A)", P, None, "`j` 3 4"), ("lathe.einsum('i1', A)", P, None, "`1`"),
    ("lathe.einsum('ij->ijk', A)", P, None, "`k`"), ("lathe.einsum(A)", P, None, ""), ("lathe.einsum()", P, None, ""),
    ("lathe.einsum('ij', A, out=3)", P, None, "`out` int"), ("lathe.einsum('ij,jk', A, B, optimize='best')", P, None, "'best'"),
    ("lathe.einsum('ij,jk', A, B, out=np.zeros((2, 2)))", P, None, "`out`"), ("lathe.einsum('ij', A, order='X')", P, None, "'X'"),
    ("lathe.einsum_path('ij,jk', A)", P, None, "2 1"), ("lathe.einsum('ij,jk', A, B, threads=0)", P, None, "`threads` 0"),
    ("lathe.einsum(3, A)", P, None, ""),
]


def test_there_are_enough():
    assert len(CALLS) >= 200 and len({c for c, *_ in CALLS}) == len(CALLS)


@pytest.mark.parametrize("call,kind,code,named", CALLS, ids=[c for c, *_ in CALLS])
def test_a_wrong_call(call, kind, code, named, tmp_path):
    # The user's own file, with a line that is to blame.
    file = tmp_path / "user.py"
    file.write_text(f"def call():\n    before = 1\n    return {call}\n")
    scope = dict(globals())
    exec(compile(file.read_text(), str(file), "exec"), scope)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lathe.CopyWarning)
        with refused(kind, code, *named.split()) as e:
            scope["call"]()
    error = e.value
    assert isinstance(error, lathe.LatheError)
    assert error.__cause__ is None or not isinstance(error.__cause__, lathe.LatheError)
    frames = traceback.extract_tb(error.__traceback__)
    assert any(f.filename == str(file) and f.lineno == 3 for f in frames)
    assert error.message and isinstance(pickle.loads(pickle.dumps(copy.copy(error))), type(error))


#: Bodies of decorated functions, which of their lines is to blame, the code, and the names and numbers that are quoted.
FUNCTIONS = [
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i: x[i] + nowhere(x[i])", 2, "E0918", "`nowhere`"),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    y = x[0]\n    return lambda i: x[i] + z", 3, "E0201", "`z`"),
    ("def f(x: lathe.i32['N']) -> lathe.i32['N']:\n    return lambda i: x[i] / 2", 2, "E0205", "`/`"),
    ("def f(x: lathe.f32['N'], t: lathe.out(lathe.f32['N'])):\n    for i in range(3):\n        with open('x'):\n            t[i] = x[i]", 3, "E0918", ""),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    return x", 2, "E0918", ""),
    ("def f(x) -> lathe.f32['N']:\n    return lambda i: x[i]", 1, "E0918", "`x`"),
    ("def f(x: 3) -> lathe.f32['N']:\n    return lambda i: x[i]", 1, "E0918", "`3`"),
    ("def f(x: lathe.f32['N']) -> 3:\n    return lambda i: x[i]", 1, "E0918", "`3`"),
    ("def f(a: lathe.f32,\n      x: lathe.f32['N'] = 2.0) -> lathe.f32['N']:\n    return lambda i: a * x[i]", 2, "E0918", "`x`"),
    ("def f(x: lathe.i32['N'],\n      a: lathe.i32 = 2.5) -> lathe.i32['N']:\n    return lambda i: a * x[i]", 2, "E0918", "`a` i32 float"),
    ("def f(*x: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i: x[i]", 1, "E0918", ""),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i, j: x[i]", 2, "E0918", "1 2"),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i: x[1:2]", 2, "E0918", ""),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i: x.shape[3] * x[i]", 2, "E0918", "`x` 1"),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i: x[i] if x[i] is None else 1", 2, "E0918", ""),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i: sum(x[k] for k in x)", 2, "E0918", "`range`"),
    ("def f(x: lathe.f32['N'], y: lathe.f32['N']) -> lathe.f32['N']:\n    return lambda i: (\n        x[i]\n        + y[i, 0])", 4, "E0209", "`y` 1 2"),
    ("def f(x: lathe.f32['N']) -> lathe.f32['N']:\n    while True:\n        import os\n    return lambda i: x[i]", 3, "E0918", ""),
]


@pytest.mark.parametrize("body,line,code,named", FUNCTIONS, ids=[str(n) for n in range(len(FUNCTIONS))])
def test_a_wrong_function(body, line, code, named, tmp_path):
    file = tmp_path / "user.py"
    file.write_text("import lathe\n\n\n@lathe.kernel\n" + body + "\n")
    with refused(lathe.SourceError, code, *named.split()) as e:
        exec(compile(file.read_text(), str(file), "exec"), {"__name__": "user"})
    assert e.value.file == str(file) and e.value.line == 4 + line, str(e.value)
    assert f"{file}:{4 + line}:" in str(e.value), str(e.value)
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
    with refused(lathe.CheckError, "E0814", "`f`", "`x[index(k[i])]`") as e:
        exec(compile(file.read_text(), str(file), "exec"), scope)
        scope["f"](x, np.full(6, 99, np.int32))
    assert f"{file}:5:" in str(e.value) or f"{file}:6:" in str(e.value), str(e.value)


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
    assert done.returncode and "ImportError" in done.stderr and f" {archive}: " in done.stderr, done.stderr
