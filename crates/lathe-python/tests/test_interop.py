"""Arrays of other packages that speak DLPack or the array API; JAX and PyTorch have files of their own."""

import numpy as np
import pytest

import lathe

scale = lathe.kernel("kernel scale(a: f32, x: f32[N]) -> (y: f32[N]) { y[i] = a * x[i] }")


class Holder:
    """What speaks DLPack and nothing else."""

    def __init__(self, a):
        self.a = a

    def __dlpack__(self, **options):
        return self.a.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.a.__dlpack_device__()


def test_dlpack():
    x = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(scale(2, Holder(x)), 2 * x)
    np.testing.assert_array_equal(scale(2, Holder(x[::-2])), 2 * x[::-2])
    with pytest.raises(lathe.DtypeError):
        scale(2, Holder(x.astype(np.float64)))
    np.testing.assert_array_equal(scale(2, memmap(x)), 2 * x)


def test_the_array_api():
    """Arrays of the standard, and nothing of numpy: results are of the same kind."""
    xp = pytest.importorskip("array_api_strict")
    x = xp.arange(6, dtype=xp.float32)
    y = scale(2, x)
    assert y.__array_namespace__() is xp and y.dtype == xp.float32
    assert xp.all(y == 2 * x)
    assert xp.all(scale(2, x[::-2]) == 2 * x[::-2])
    np.testing.assert_array_equal(scale(2, np.asarray(x)), np.asarray(y))
    with pytest.raises(lathe.DtypeError):
        scale(2, xp.arange(6))
    with pytest.raises(lathe.ShapeError):
        scale(2, xp.zeros((2, 3), dtype=xp.float32))


def memmap(x):
    import tempfile

    with tempfile.TemporaryFile() as f:
        x.tofile(f)
        return np.memmap(f, dtype=np.float32, mode="r", shape=x.shape)
