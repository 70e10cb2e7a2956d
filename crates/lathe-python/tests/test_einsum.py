"""lathe.einsum beside numpy's own, on the whole notation."""

import os
import random

import numpy as np
import pytest

import lathe

CASES = int(os.environ.get("LATHE_CASES", "200"))
LETTERS = "abcdeXYZ"


def same(args, tol=2e-4, **kw):
    want = np.einsum(*args, **kw)
    got = lathe.einsum(*args, **kw)
    assert np.shape(got) == np.shape(want), (args[0], np.shape(got), np.shape(want))
    assert np.asarray(got).dtype == np.asarray(want).dtype, args[0]
    if np.asarray(want).dtype.kind in "iub":
        np.testing.assert_array_equal(got, want, err_msg=str(args[0]))
    elif np.asarray(want).dtype.kind == "c":
        np.testing.assert_allclose(got, want)
    else:
        scale = max(1.0, float(np.max(np.abs(want.astype(np.float64)), initial=0)))
        np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=tol, atol=tol * scale,
                                   err_msg=str(args[0]))


def data(r, shape, dtype):
    rng = np.random.default_rng(r.randrange(2**32))
    a = rng.integers(-3, 4, shape).astype(dtype) if np.dtype(dtype).kind in "iu" else rng.random(shape).astype(dtype)
    kind = r.randrange(6)
    if kind == 0:
        a = np.asfortranarray(a)
    elif kind == 1 and a.ndim:
        a = np.flip(a, r.randrange(a.ndim))
    elif kind == 2 and a.ndim:
        d = r.randrange(a.ndim)
        a = np.repeat(a, 2, axis=d)[tuple(slice(None, None, 2 if i == d else None) for i in range(a.ndim))]
    elif kind == 3:
        a.flags.writeable = False
    return a


def expression(r):
    """A random expression with its operands."""
    sizes = {c: r.choice([0, 1, 1, 2, 3, 4, 5, 7]) if r.random() < 0.1 else r.choice([1, 2, 3, 4, 5, 7]) for c in LETTERS}
    spread = [r.choice([1, 2, 3]) for _ in range(2)]
    dtype = r.choice([np.float32, np.float32, np.float64, np.int32, np.int64, np.int8, np.uint16])
    terms, operands = [], []
    dots = r.random() < 0.3
    for _ in range(r.choice([1, 2, 2, 2, 3, 3, 4])):
        labels = [r.choice(LETTERS) for _ in range(r.choice([0, 1, 2, 2, 3, 4]))]
        shape = [sizes[c] if labels.count(c) > 1 or r.random() < 0.95 else 1 for c in labels]
        if dots and r.random() < 0.7:
            at = r.randrange(len(labels) + 1)
            extra = spread[: r.choice([0, 1, 2])]
            extra = [n if r.random() < 0.8 else 1 for n in extra]
            terms.append("".join(labels[:at]) + "..." + "".join(labels[at:]))
            shape[at:at] = extra[::-1] if r.random() < 0 else extra[len(extra) - len(extra):]
        else:
            terms.append("".join(labels))
        operands.append(data(r, shape, dtype if r.random() < 0.9 else np.float64))
    text = ",".join(terms)
    if r.random() < 0.75:
        used = sorted({c for t in terms for c in t if c != "."})
        r.shuffle(used)
        out = used[: r.randrange(len(used) + 1)]
        if any("..." in t for t in terms):
            out.insert(r.randrange(len(out) + 1), "...")
        text += "->" + "".join(out)
    if r.random() < 0.1:
        text = text.replace(",", " , ")
    return text, operands


def test_random_expressions():
    r = random.Random(7)
    done = 0
    while done < CASES:
        text, operands = expression(r)
        try:
            np.einsum(text, *operands)
        except ValueError:
            with pytest.raises((ValueError, TypeError)):
                lathe.einsum(text, *operands)
            continue
        same((text, *operands))
        done += 1


@pytest.mark.parametrize("text,shapes", [
    ("ij,jk", [(40, 30), (30, 50)]), ("ij,jk->ki", [(40, 30), (30, 50)]), ("ji,jk->ik", [(30, 40), (30, 50)]),
    ("ij,kj->ik", [(40, 30), (50, 30)]), ("ji,kj->ik", [(30, 40), (50, 30)]), ("bij,bjk->bik", [(3, 20, 30), (3, 30, 17)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 20, 16), (2, 3, 24, 16)]), ("abcd,dcef->abef", [(5, 6, 7, 8), (8, 7, 9, 4)]),
    ("ijk,jl,kl->il", [(10, 11, 12), (11, 7), (12, 7)]), ("ij,jk,kl,lm->im", [(9, 8), (8, 17), (17, 5), (5, 6)]),
    ("ii", [(6, 6)]), ("ii->i", [(6, 6)]), ("i,i", [(9,), (9,)]), ("i,j", [(5,), (6,)]), ("ij->", [(7, 8)]),
    ("...ij,...jk", [(4, 1, 5, 6), (3, 6, 7)]), (",ij", [(), (3, 4)]), ("abc->cba", [(2, 3, 4)]),
    ("abcdefg,gh->abcdefh", [(2, 2, 2, 2, 2, 2, 3), (3, 4)]),
])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_standard_forms(text, shapes, dtype):
    r = random.Random(1)
    same((text, *[data(r, s, dtype) for s in shapes]))


def test_lists_of_labels_and_options():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    same((a, [0, 1], b, [1, 2]))
    same((a, [0, 1], b, [1, 2], [2, 0]))
    same((a, [..., 1], b, [1, 2], [..., 2]))
    same((a, [26, 0]))
    out = np.empty((2, 4))
    assert lathe.einsum("ij,jk", a, b, out=out) is out
    np.testing.assert_allclose(out, a @ b)
    assert lathe.einsum("ij,jk", a, b, order="F").flags.f_contiguous
    assert lathe.einsum("ij,jk", a.astype("f4"), b.astype("f4"), dtype=np.float64).dtype == np.float64
    same(("ij,jk,kl", a, b, np.ones((4, 2))), optimize=True)
    path = np.einsum_path("ij,jk,kl", a, b, np.ones((4, 2)))[0]
    same(("ij,jk,kl", a, b, np.ones((4, 2))), optimize=path)
    assert len(lathe.einsum_path("ij,jk,kl", a, b, np.ones((4, 2)))) == 2
    same(("ij,jk", a.astype(complex), b))
    same(("ij,jk", a.astype(bool), b.astype(bool)))
    same(("ij,jk", a.astype(np.float16), b.astype(np.float16)), tol=1e-2)
    with pytest.raises(TypeError):
        lathe.einsum("ij,jk", a, b, dtype=np.int32)


def test_views_stay_views():
    a = np.arange(9.0).reshape(3, 3)
    d = lathe.einsum("ii->i", a)
    d[:] = 0
    assert np.trace(a) == 0
    assert np.shares_memory(lathe.einsum("ij->ji", a), a)


@pytest.mark.parametrize("text,shapes", [
    ("ij,jk", [(2, 3), (4, 5)]), ("ij", [(2,)]), ("i->ij", [(2,)]), ("i->ii", [(2,)]), ("i->j->k", [(2,)]), ("i?", [(2, 2)]),
    ("i....j", [(2, 2)]), ("ij,jk", [(2, 3)]), ("...->", [(2,)]), ("ii", [(2, 3)]),
])
def test_wrong_notation(text, shapes):
    with pytest.raises(ValueError):
        lathe.einsum(text, *[np.ones(s) for s in shapes])
