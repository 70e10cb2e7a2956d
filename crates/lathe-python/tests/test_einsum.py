"""lathe.einsum beside numpy's own, on the whole notation."""

import os
import random
import warnings

import numpy as np
import pytest

import lathe
from lathe import _order, _plan, contraction

CASES = int(os.environ.get("LATHE_CASES", "60"))
LETTERS = "abcdeXYZ"
DTYPES = [np.float32, np.float32, np.float64, np.float64, np.complex64, np.complex128, np.int32, np.int64, np.int8, np.uint16,
          np.bool_, np.float16]


def close(got, want, text=""):
    """The same shape, type and values; floats as far as their type is exact."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype, (text, got.shape, want.shape, got.dtype, want.dtype)
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want, err_msg=text)
        return
    tol = {"float16": 2e-2, "float32": 1e-4, "complex64": 1e-4}.get(want.dtype.name, 1e-10)
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    scale = max(1.0, float(np.max(np.abs(want.astype(wide)), initial=0)))
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=tol, atol=tol * scale, err_msg=text)


def same(args, **kw):
    close(lathe.einsum(*args, **kw), np.einsum(*args, **kw), str(args[0]))


def data(r, shape, dtype):
    rng = np.random.default_rng(r.randrange(2**32))
    kind = np.dtype(dtype).kind
    if kind in "iub":
        a = np.asarray(rng.integers(-3 if kind == "i" else 0, 4, shape)).astype(dtype)
    else:
        a = np.asarray(rng.random(shape) - 0.25).astype(dtype)
        if kind == "c":
            a = a + np.asarray(1j * rng.random(shape)).astype(dtype)
    a, how = np.asarray(a), r.randrange(8)
    if how == 0 and a.ndim:
        a = np.asfortranarray(a)
    elif how == 1 and a.ndim:
        a = np.flip(a, r.randrange(a.ndim))
    elif how == 2 and a.ndim:
        d = r.randrange(a.ndim)
        a = np.repeat(a, 2, axis=d)[tuple(slice(None, None, 2 if i == d else None) for i in range(a.ndim))]
    elif how == 3:
        a.flags.writeable = False
    elif how == 4 and r.random() < 0.3:
        a = a.astype(a.dtype.newbyteorder(">"))
    elif how == 5 and r.random() < 0.3:
        raw = np.zeros(a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(a.shape)
        raw[...] = a
        a = raw
    return a


def expression(r):
    """A random expression with its operands."""
    some = [1, 2, 3, 4, 5, 7] if r.random() < 0.8 else [1, 3, 17, 24, 33]
    sizes = {c: 0 if r.random() < 0.02 else r.choice(some) for c in LETTERS}
    spread = [r.choice([1, 2, 3]) for _ in range(2)]
    dtype = r.choice(DTYPES)
    terms, operands = [], []
    dots = r.random() < 0.3
    letters = LETTERS if max(some) < 10 else LETTERS[:4]
    for _ in range(r.choice([1, 2, 2, 2, 3, 3, 4])):
        labels = [r.choice(letters) for _ in range(r.choice([0, 1, 2, 2, 3, 4 if max(some) < 10 else 3]))]
        shape = [sizes[c] if labels.count(c) > 1 or r.random() < 0.95 else 1 for c in labels]
        if dots and r.random() < 0.7:
            at = r.randrange(len(labels) + 1)
            extra = [n if r.random() < 0.8 else 1 for n in spread[r.randrange(3):]]
            terms.append("".join(labels[:at]) + "..." + "".join(labels[at:]))
            shape[at:at] = extra
        else:
            terms.append("".join(labels))
        # An array without dimensions was not a full member of the common type before numpy 2.
        other = r.random() < 0.1 and (shape or np.__version__[0] != "1")
        operands.append(data(r, shape, np.float64 if other else dtype))
    text = ",".join(terms)
    if r.random() < 0.75:
        used = sorted({c for t in terms for c in t if c != "."})
        r.shuffle(used)
        out = used[: r.randrange(len(used) + 1)]
        if any("..." in t for t in terms):
            out.insert(r.randrange(len(out) + 1), "...")
        text += "->" + "".join(out)
    return text, operands


def sublists(text, operands):
    """The same expression with lists of labels."""
    def numbers(term):
        parts = term.split("...")
        one = [["ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".index(c) for c in p] for p in parts]
        return one[0] if len(one) == 1 else [*one[0], ..., *one[1]]

    left, arrow, right = text.partition("->")
    out = [x for t, a in zip(left.split(","), operands) for x in (a, numbers(t))]
    return [*out, numbers(right)] if arrow else out


def options(r, text, operands, want):
    """Options of numpy that leave the values what they are, and the array for the result, if there is one."""
    kw, out = {}, None
    n = len(operands)
    how = r.randrange(8)
    if how < 4:
        kw["optimize"] = [False, "greedy", "optimal", ("greedy", r.choice([1, 50, 10**6]))][how]
    elif how == 4 and want.dtype != object:
        kw["optimize"] = np.einsum_path(text, *operands, optimize=r.choice(["greedy", "optimal"]))[0]
    if r.random() < 0.2:
        wider = {"f": np.float64, "c": np.complex128, "i": np.int64, "u": np.uint64}.get(want.dtype.kind)
        shape = want.shape
        out = np.empty(shape, want.dtype if wider is None or r.random() < 0.5 else wider)
        if r.random() < 0.3 and out.ndim:
            out = np.asfortranarray(out)
        if r.random() < 0.3 and out.ndim:
            out = np.flip(np.repeat(out, 2, axis=0)[::2], -1)
        # What is written may be what is read.
        if r.random() < 0.2 and n and operands[0].shape == shape and operands[0].dtype == out.dtype \
                and operands[0].flags.writeable:
            out = operands[0]
        kw["out"] = out
    elif r.random() < 0.2:
        kw["order"] = r.choice("CFAKcf")
    return kw, out


@pytest.mark.parametrize("seed,worth", [(7, None), (8, 1)])
def test_random_expressions(seed, worth, monkeypatch):
    # Small products have one thread, unless they are told to have more.
    for name in ("_PRODUCT", "_VECTORS", "_OTHERS") if worth else ():
        monkeypatch.setattr(_plan, name, worth)
    monkeypatch.setattr(contraction, "_PLANS", {})
    r = random.Random(seed)
    done = 0
    while done < (CASES + 1) // 2:
        text, operands = expression(r)
        try:
            want = np.asarray(np.einsum(text, *operands))
        except ValueError:
            with pytest.raises((ValueError, TypeError)):
                lathe.einsum(text, *operands)
            continue
        kw, out = options(r, text, operands, want)
        if out is not None:
            common = np.result_type(*(a.dtype for a in operands), out.dtype)
            want = np.asarray(np.einsum(text, *operands, dtype=common)).astype(out.dtype)
        args = sublists(text, operands) if r.random() < 0.2 else (text, *operands)
        got = lathe.einsum(*args, **kw)
        assert out is None or got is out
        close(got, want, f"{text} {[a.shape for a in operands]} {kw.keys()}")
        if kw.get("order", "K").upper() != "K":
            letter = kw["order"].upper()
            if letter == "A":
                letter = "F" if all(a.flags.f_contiguous for a in operands) else "C"
            assert np.asarray(got).flags["C_CONTIGUOUS" if letter == "C" else "F_CONTIGUOUS"], text
        done += 1


@pytest.mark.parametrize("text,shapes", [
    ("ij,jk", [(40, 30), (30, 50)]), ("ij,jk->ki", [(40, 30), (30, 50)]), ("ji,jk->ik", [(30, 40), (30, 50)]),
    ("ij,kj->ik", [(40, 30), (50, 30)]), ("ji,kj->ik", [(30, 40), (50, 30)]), ("bij,bjk->bik", [(3, 20, 30), (3, 30, 17)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 20, 16), (2, 3, 24, 16)]), ("abcd,dcef->abef", [(5, 6, 7, 8), (8, 7, 9, 4)]),
    ("ijk,jl,kl->il", [(10, 11, 12), (11, 7), (12, 7)]), ("ij,jk,kl,lm->im", [(9, 8), (8, 17), (17, 5), (5, 6)]),
    ("ii", [(6, 6)]), ("ii->i", [(6, 6)]), ("i,i", [(9,), (9,)]), ("i,j", [(5,), (6,)]), ("ij->", [(7, 8)]),
    ("ij,j->i", [(300, 200), (200,)]), ("ij,i->j", [(300, 200), (300,)]), ("i,i->", [(9000,), (9000,)]),
    ("...ij,...jk", [(4, 1, 5, 6), (3, 6, 7)]), (",ij", [(), (3, 4)]), ("abc->cba", [(2, 3, 4)]),
    ("abcdefg,gh->abcdefh", [(2, 2, 2, 2, 2, 2, 3), (3, 4)]), ("bi,bj,ijk->bk", [(20, 16), (20, 17), (16, 17, 18)]),
])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.complex64, np.complex128])
def test_standard_forms(text, shapes, dtype):
    r = random.Random(1)
    same((text, *[data(r, s, dtype) for s in shapes]))


def test_complex_numbers_are_not_numpys(monkeypatch):
    def never(*args, **kw):
        raise AssertionError("computed by numpy")

    r = random.Random(3)
    for dtype, other in ((np.complex64, np.complex64), (np.complex128, np.float64), (np.complex64, np.int64), (np.float32, np.complex64)):
        for text, shapes in (("ij,jk->ik", [(40, 30), (30, 50)]), ("ij,ij->ij", [(4, 5)] * 2), ("ii->i", [(4, 4)]), ("i,i", [(4,)] * 2),
                             ("ij,j->i", [(300, 200), (200,)]), ("ij,i->j", [(200, 300), (200,)]), ("ij->j", [(5, 4)])):
            operands = [data(r, s, t) for s, t in zip(shapes, (dtype, other))]
            want = np.einsum(text, *operands)
            with monkeypatch.context() as m:
                m.setattr(np, "einsum", never)
                close(lathe.einsum(text, *operands), want, text)
    a = data(r, (4, 4), np.complex128).copy()
    d = lathe.einsum("ii->i", a)
    assert d.base is not None and np.shares_memory(d, a)
    d[:] = 1j
    assert (np.diag(a) == 1j).all()
    three = [data(r, (5, 5), np.complex128) for _ in range(3)]
    same(("ij,jk,kl->il", *three), optimize=False)
    same(("ij,jk,kl->il", *three), dtype=np.complex128)
    same(("ij,jk->ik", *(x.real for x in three[:2])), dtype=np.complex64, casting="same_kind")


def test_special_values():
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e308])
    for a, b in ((x, x[::-1]), (x + 1j, x[::-1] - 2j)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for text in ("i,i->i", "i,j->ij", "i,i->"):
                want, got = np.einsum(text, a, b), lathe.einsum(text, a, b)
                np.testing.assert_array_equal(np.asarray(got), np.asarray(want), err_msg=text)


@pytest.mark.parametrize("text, shapes", [
    ("ij,jk->ik", [(3, 4), (4, 2)]), ("i,i->", [(5,), (5,)]), ("ii->", [(4, 4)]), ("i,j->ij", [(3,), (2,)]), ("ij->j", [(3, 4)]),
    ("ij,ij->i", [(3, 4), (3, 4)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 2)]), ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
    ("i,i->", [(0,), (0,)]), ("ij,jk->ik", [(0, 3), (3, 2)]), ("ij->ji", [(2, 3)]),
])
@pytest.mark.parametrize("dtype", ["float64", "int32", "complex128", "float16"])
def test_calls_that_are_repeated(text, shapes, dtype):
    """What is kept of a call serves other arrays that lie alike, and no others."""
    rng = np.random.default_rng(0)

    def arrays(order="C"):
        return [np.asarray(rng.integers(0, 5, s), dtype, order=order) for s in shapes]

    for order in "CCFCFF":
        given = arrays(order)
        want = np.einsum(text, *given)
        got = lathe.einsum(text, *given)
        assert type(got) is type(want) and got.dtype == want.dtype and got.shape == want.shape
        assert (got == want).all()
        out = np.empty_like(want)
        assert lathe.einsum(text, *given, out=out) is out and (out == want).all()
        assert (lathe.einsum(text, *given, order="F", dtype=dtype, threads=1) == want).all()
    with pytest.raises(ValueError):
        lathe.einsum(text + "z", *given)


def test_options():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    same((a, [0, 1], b, [1, 2]))
    same((a, [0, 1], b, [1, 2], [2, 0]))
    same((a, [..., 1], b, [1, 2], [..., 2]))
    same((a, np.array([26, 0])))
    same((b"ij,jk", a, b))
    same((" i j , j k -> k i ", a, b), optimize=True)
    same(("ij,j", a.tolist(), [1, 2, 3]))
    same((",", 2, 3.5))
    out = np.empty((2, 4))
    assert lathe.einsum("ij,jk", a, b, out=out) is out
    np.testing.assert_allclose(out, a @ b)
    square = np.arange(9.0).reshape(3, 3)
    want = square @ square
    assert lathe.einsum("ij,jk", square, square, out=square) is square
    np.testing.assert_allclose(square, want)
    assert lathe.einsum("ij,jk", a, b, order="F").flags.f_contiguous
    assert lathe.einsum("ij,jk", a.astype("f4"), b.astype("f4"), dtype=np.float64).dtype == np.float64
    same(("ij,jk", a, b), dtype=np.float32, casting="same_kind")
    # The type of `out` takes part in the computation.
    small = np.full((2, 2), 100, np.int8)
    assert lathe.einsum("ij,jk", small, small, out=np.zeros((2, 2))).tolist() == [[20000, 20000]] * 2
    for kw, kind in ((dict(dtype=np.int32), TypeError), (dict(out=np.zeros((2, 4), np.float32)), TypeError),
                     (dict(out=np.zeros((2, 3))), ValueError), (dict(out=[0]), TypeError), (dict(order="x"), ValueError),
                     (dict(casting="x"), ValueError), (dict(optimize="fast"), ValueError), (dict(optimize=3), ValueError)):
        with pytest.raises(kind):
            lathe.einsum("ij,jk", a, b, **kw)
    fixed = np.zeros((2, 4))
    fixed.flags.writeable = False
    with pytest.raises(ValueError):
        lathe.einsum("ij,jk", a, b, out=fixed)
    assert (fixed == 0).all()
    # Objects and the widest floats are numpy's.
    same(("ij,jk", a.astype(object), b.astype(object)))
    assert lathe.einsum("ij,jk", a.astype(np.longdouble), b).dtype == np.longdouble
    for wrong in (a.astype(str), np.zeros((2, 3), "m8[s]")):
        with pytest.raises(TypeError):
            lathe.einsum("ij->", wrong)


def test_paths_are_followed():
    r = random.Random(5)
    terms = [data(r, s, np.float64) for s in ((4, 5), (5, 6), (6, 7), (7, 3))]
    text = "ij,jk,kl,lm->im"
    for how in (True, False, "auto", "greedy", "optimal", ("greedy", 20), ("optimal", 10**9), ("optimal", 1),
                ["einsum_path", (0, 1, 2, 3)], ["einsum_path", (1, 2), (0, 1, 2)], [(0, 1), (0, 2), (0, 1)],
                ["einsum_path", (0,), (0, 1, 2, 3)]):
        path, report = lathe.einsum_path(text, *terms, optimize=how)
        assert path[0] == "einsum_path" and "multiplications" in report
        close(lathe.einsum(text, *terms, optimize=how), np.einsum(text, *terms), str(how))
        close(lathe.einsum(text, *terms, optimize=path), np.einsum(text, *terms), str(how))
    assert lathe.einsum_path(text, *terms, optimize=False)[0] == ["einsum_path", (0, 1, 2, 3)]
    for wrong in (["einsum_path", (0, 5), (0, 1), (0, 1)], [(0, 1)], [(0, 0), (0, 1), (0, 1)], [()], ["einsum_path", 1]):
        with pytest.raises(ValueError):
            lathe.einsum(text, *terms, optimize=wrong)
    many = [data(r, (2, 2), np.float64) for _ in range(40)]
    text = ",".join(f"{chr(65 + i)}{chr(66 + i)}" if i < 25 else f"{chr(97 + i - 25)}{chr(98 + i - 25)}" for i in range(40))
    close(lathe.einsum(text + "->A", *many), np.einsum(text + "->A", *many, optimize="greedy"))


def test_orders_are_as_good_as_numpys():
    r = random.Random(11)
    for _ in range(40):
        n = r.randrange(3, 7)
        labels = "abcdefghij"[: n + 2]
        sizes = {ord(c): r.choice([2, 3, 5, 8, 20]) for c in labels}
        texts = ["".join(r.sample(labels, r.randrange(1, 4))) for _ in range(n)]
        out = "".join(c for c in labels if c in "".join(texts) and r.random() < 0.3)
        terms = [frozenset(map(ord, t)) for t in texts]
        arrays = [np.empty([sizes[ord(c)] for c in t]) for t in texts]
        text = f"{','.join(texts)}->{out}"
        cost = lambda path: _order.flops(terms, frozenset(map(ord, out)), sizes, path)  # noqa: E731
        mine = cost(lathe.einsum_path(text, *arrays)[0][1:])
        for how in ("greedy", "optimal"):
            assert mine <= 1.001 * cost(np.einsum_path(text, *arrays, optimize=(how, 10**12))[0][1:]), text
        # The best next pair need not be best in the end.
        greedy = cost(lathe.einsum_path(text, *arrays, optimize="greedy")[0][1:])
        assert mine <= greedy <= cost([tuple(range(n))]) * 1.001 + sum(a.size for a in arrays) * n, text


def test_views_stay_views():
    a = np.arange(9.0).reshape(3, 3)
    d = lathe.einsum("ii->i", a)
    d[:] = 0
    assert np.trace(a) == 0
    assert np.shares_memory(lathe.einsum("ij->ji", a), a)
    # Elementwise results lie as their operands do.
    f = np.asfortranarray(np.ones((3, 4)))
    assert lathe.einsum("ij,ij->ij", f, f).flags.f_contiguous


@pytest.mark.parametrize("text,shapes", [
    ("ij,jk", [(2, 3), (4, 5)]), ("ij", [(2,)]), ("i->ij", [(2,)]), ("i->ii", [(2,)]), ("i->j->k", [(2,)]), ("i?", [(2, 2)]),
    ("i....j", [(2, 2)]), ("ij,jk", [(2, 3)]), ("...->", [(2,)]), ("ii", [(2, 3)]), ("ii", [(1, 3)]), ("éj", [(2, 2)]),
    ("ij", []), ("", []), ("......", [(2,)]), ("i..j", [(2, 2)]),
])
def test_wrong_notation(text, shapes):
    with pytest.raises(ValueError):
        lathe.einsum(text, *[np.ones(s) for s in shapes])


@pytest.mark.parametrize("labels", [[0, -1], [0, 52], ["a", "b"], [0.5, 1], [0, 1, 2], [..., ...]])
def test_wrong_lists_of_labels(labels):
    with pytest.raises((ValueError, TypeError)):
        lathe.einsum(np.ones((2, 2)), labels)
