"""Homomorphisms: decorated functions and the notation of `.mdh` files give one tree."""

import importlib.util
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import homomorphisms_examples as examples
import lathe
from refusals import refused

ROOT = Path(os.environ.get("LATHE_ROOT", Path(__file__).parents[3])) / "examples" / "mdh"


def contraction(name, folder):
    """A contraction of CCSD(T), from a module that is written for it: functions are read from their source."""
    a, b = name.removeprefix("abcdef_").split("_")
    file = folder / f"{name}.py"
    file.write_text(examples.CONTRACTION.format(name=f"{a}_{b}", a=", ".join(a), b=", ".join(b)))
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def definitions():
    for file in sorted(ROOT.glob("*.mdh")):
        for name in re.findall(r"^(\w+)<", file.read_text(), re.M):
            yield file, name


def tree(kernel):
    # Whatever the source is called, and without its comments.
    return re.sub(r"#.*", "", kernel.emit("tree", strategy="naive"))


@pytest.mark.parametrize("file,name", list(definitions()), ids=lambda v: v if isinstance(v, str) else v.stem)
def test_both_forms_give_one_tree(file, name, tmp_path):
    written = lathe.load(file, name)
    made = contraction(name, tmp_path) if name.startswith("abcdef") else getattr(examples, name)
    assert isinstance(made, lathe.Kernel) and made.name == name
    assert tree(made) == tree(written)
    assert tree(lathe.kernel(made.source(), name)) == tree(written)
    assert tree(pickle.loads(pickle.dumps(made))) == tree(written)


def test_there_are_all_examples():
    assert len(list(definitions())) >= 27


def test_they_compute():
    rng = np.random.default_rng(0)
    a, b, v = rng.random((30, 20), np.float32), rng.random((20, 40), np.float32), rng.random(20, np.float32)
    np.testing.assert_allclose(examples.matvec(a, v), a @ v, rtol=1e-5)
    np.testing.assert_allclose(examples.matmul(a, b), a @ b, rtol=1e-5)
    np.testing.assert_allclose(examples.scan(v), np.cumsum(v), rtol=1e-5)
    assert examples.reduce(v) == v.max()
    np.testing.assert_allclose(examples.mbbs(a), np.cumsum(a.sum(1)), rtol=1e-5)
    image, weights = rng.random((12, 13), np.float32), rng.random((3, 3), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3))
    np.testing.assert_allclose(examples.conv2d(image, weights), np.einsum("pqrs,rs->pq", windows, weights), rtol=1e-5)
    np.testing.assert_array_equal(examples.histogram(np.array([1, 2, 2, 5], np.int32), np.arange(4, dtype=np.int32)), [0, 1, 2, 0])


def test_sources_in_the_notation():
    text = (ROOT / "linear_algebra.mdh").read_text()
    k = lathe.kernel(text, "matvec")
    assert k.file.endswith(".mdh") and k.sizes == ["I", "K"]
    a = np.ones((3, 4), np.float32)
    assert k(a, np.ones(4, np.float32)).tolist() == [4, 4, 4]
    s = lathe.strategy(lambda p: p.split("i", p.pick([2, 4])), for_=k, name="mine")
    assert k(a, np.ones(4, np.float32), strategy=s, params={"p1": 2}).tolist() == [4, 4, 4]
    more = k.with_(s)
    assert more.compile(strategy="mine").strategy == "mine" and "mine" in dict(more.strategies())
    t = more.tune(sizes={"I": 16, "K": 16}, strategy="mine", until="2 evaluations", threads=1, store=False)
    assert t.params["p1"] in (2, 4)
    with refused(lathe.SourceError, "E1221", "md_hom", "1", "2") as e:
        lathe.kernel("f<N in IN> := out_view<f32>( O:(i)->(i) ) o md_hom<N>( id, (++,+) ) o inp_view<f32>( I:(i)->(i) )")
    assert e.value.line == 1


@lathe.mdh(T=lathe.f64)
def shifted(T, N: int):
    """Differences, in double precision."""
    def f(out, inp, i):
        weight = inp["x"][1] - inp["x"][0]
        out["y"] = weight * 2
        out["z"] = weight

    return (
        out_view[T, T](y=[lambda i: (i)], z=[lambda i: (i)]),  # noqa: F821
        md_hom[N](f, (cc)),  # noqa: F821
        inp_view[T](x=[lambda i: (i), lambda i: (i + 1)]),  # noqa: F821
    )


def test_types_indices_and_several_results():
    x = np.arange(5.0) ** 2
    y, z = shifted(x)
    np.testing.assert_array_equal(z, np.diff(x))
    np.testing.assert_array_equal(y, 2 * np.diff(x))
    assert "# Differences, in double precision." in shifted.source()


@lathe.mdh(declare="struct P { v: f32, n: i32 }")
def furthest(I: int, J: int):
    def further(a, b):
        return a if a.v > b.v or (a.v == b.v and a.n <= b.n) else b

    return out_view[P](y=lambda i, j: (i)), md_hom[I, J]("id", (cc, pw(further))), inp_view[P](x=lambda i, j: (i, j))  # noqa: F821


def test_operators_that_are_functions():
    assert "op further(x_: P, y_: P) -> P associative commutative" in furthest.source()
    x = np.zeros((2, 3), furthest.dtype("x"))
    x["v"], x["n"] = [[1, 3, 2], [5, 5, 4]], [[0, 1, 2], [7, 6, 5]]
    y = furthest(x)
    assert y["v"].tolist() == [3, 5] and y["n"].tolist() == [1, 6]


def test_what_is_wrong_is_shown(tmp_path):
    def no_return(T, N: int):
        pass

    def other_shape(T, N: int):
        @mdh(out(y=Buffer[T, [N]]), inp(x=Buffer[T, [N]]))  # noqa: F821
        def inner():
            return out_view[T](y=[lambda i: (i)]), md_hom[N]("id", (cc)), inp_view[T](x=[lambda i: (i + 1)])  # noqa: F821

        return inner

    def no_operator(T, N: int):
        return out_view[T](y=[lambda i: (i)]), md_hom[N]("id", (zip)), inp_view[T](x=[lambda i: (i)])  # noqa: F821

    def no_output(T, N: int):
        def f(out, inp):
            out["z"] = inp["x"]

        return out_view[T](y=[lambda i: (i)]), md_hom[N](f, (cc)), inp_view[T](x=[lambda i: (i)])  # noqa: F821

    def constant(T, N: int):
        return out_view[T](y=[lambda i: (i)]), md_hom[7]("id", (cc)), inp_view[T](x=[lambda i: (i)])  # noqa: F821

    for f, named, blamed in ((no_return, (), "pass"), (other_shape, ("`x`", "[N + 1]"), "inp(x=Buffer[T, [N]])"), (no_operator, (), "(zip)"),
                             (no_output, (), 'out["z"]'), (constant, ("md_hom",), "md_hom[7]")):
        with refused(lathe.SourceError, "E0918", *named) as e:
            lathe.mdh(f)
        assert e.value.file == __file__ and "^" in str(e.value)
        assert blamed in Path(__file__).read_text().splitlines()[e.value.line - 1]
    with refused(lathe.SourceError, "E0918", "`Q`", "`no_operator`"):
        lathe.mdh(Q=lathe.f64)(no_operator)
