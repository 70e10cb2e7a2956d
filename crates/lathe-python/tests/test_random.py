"""Random numbers: the words of the paper's own test vectors and of JAX, and what their distributions are."""

import math

import numpy as np
import pytest

import lathe
import lathe.random as random


def threefry(key, counter):
    """By Python's whole numbers, as the paper's Figure has it."""
    mask = 2**32 - 1
    k = [key & mask, key >> 32, 0]
    k[2] = 0x1BD11BDA ^ k[0] ^ k[1]
    x = [((counter & mask) + k[0]) & mask, ((counter >> 32) + k[1]) & mask]
    for n in range(20):
        r = (13, 15, 26, 6, 17, 29, 16, 24)[n % 8]
        x[0] = (x[0] + x[1]) & mask
        x[1] = ((x[1] << r | x[1] >> (32 - r)) & mask) ^ x[0]
        if n % 4 == 3:
            s = n // 4 + 1
            x = [(x[0] + k[s % 3]) & mask, (x[1] + k[(s + 1) % 3] + s) & mask]
    return x[0] | x[1] << 32


def word(low, high):
    return low | high << 32


@pytest.mark.parametrize("counter, key, want", [
    (word(0, 0), word(0, 0), word(0x6B200159, 0x99BA4EFE)),
    (word(0xFFFFFFFF, 0xFFFFFFFF), word(0xFFFFFFFF, 0xFFFFFFFF), word(0x1CB996FC, 0xBB002BE7)),
    (word(0x243F6A88, 0x85A308D3), word(0x13198A2E, 0x03707344), word(0xC4923A9C, 0x483DF7A0)),
])
def test_known_answers(counter, key, want):
    assert threefry(key, counter) == want
    assert random.bits(key, 1, first=counter)[0] == want


def test_words_of_any_key_and_counter():
    rng = np.random.default_rng(0)
    for key, first in rng.integers(0, 2**64, (20, 2), np.uint64):
        got = random.bits(int(key), 5, first=int(first))
        assert got.dtype == np.uint64 and got.tolist() == [threefry(int(key), (int(first) + i) % 2**64) for i in range(5)]


def test_jax_has_the_same_words():
    jax = pytest.importorskip("jax")
    from jax.extend.random import threefry_2x32

    key, n = 0x123456789ABCDEF0, 1000
    counters = np.arange(n, dtype=np.uint32)
    pair = jax.numpy.asarray(np.array([key & 0xFFFFFFFF, key >> 32], np.uint32))
    both = np.asarray(threefry_2x32(pair, jax.numpy.asarray(np.concatenate([counters, 0 * counters]))))
    want = both[:n].astype(np.uint64) | both[n:].astype(np.uint64) << np.uint64(32)
    assert (random.bits(key, n) == want).all()


def test_numbers_do_not_depend_on_how_they_are_made():
    for make in (random.bits, random.uniform, random.normal):
        whole = make(3, (300, 100))
        assert (whole.reshape(-1)[100:200] == make(3, 100, first=100)).all()
        assert (whole.reshape(-1)[:25_000] == make(3, 25_000)).all()
        lathe.set_threads(3)
        try:
            assert (whole == make(3, (300, 100))).all()
        finally:
            lathe.set_threads(0)
        assert (whole != make(4, (300, 100))).mean() > 0.99
    assert random.uniform(1, 0).shape == (0,) and random.uniform(1, ()).shape == () and random.normal(1, (2, 0, 3)).shape == (2, 0, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distributions(dtype):
    n = 200_000
    u, z = random.uniform(11, n, dtype), random.normal(11, n, dtype)
    assert u.dtype == dtype == z.dtype and u.min() >= 0 and u.max() < 1 and np.isfinite(z).all()
    # Six standard deviations of what each statistic varies by.
    assert abs(u.mean() - 0.5) < 6 / math.sqrt(12 * n) and abs(z.mean()) < 6 / math.sqrt(n) and abs(z.var() - 1) < 6 * math.sqrt(2 / n)
    counts = np.histogram(u, 100, (0, 1))[0]
    assert ((counts - n / 100) ** 2 / (n / 100)).sum() < 99 + 6 * math.sqrt(2 * 99)
    for at in (-2, -1, 0, 1, 2):
        p = 0.5 * (1 + math.erf(at / math.sqrt(2)))
        assert abs((z < at).mean() - p) < 6 * math.sqrt(p * (1 - p) / n)
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 6 / math.sqrt(n) and abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 6 / math.sqrt(n)
    w = random.bits(11, n)
    assert (u == (w >> np.uint64(11)) * 2.0**-53).all() if dtype == np.float64 else (u == ((w >> np.uint64(40)) * 2.0**-24)).all()


def test_the_text_can_be_used():
    k = lathe.kernel(random.source("normal", "float32"))
    out = np.empty(9, np.float32)
    k(5, 2, out)
    assert (out == random.normal(5, 9, np.float32, first=2)).all()


@pytest.mark.parametrize("wrong", [
    lambda: random.bits(-1, 3), lambda: random.bits(1 << 64, 3), lambda: random.bits(1.5, 3), lambda: random.bits(True, 3),
    lambda: random.uniform(1, -3), lambda: random.uniform(1, 2.5), lambda: random.uniform(1, "3"), lambda: random.uniform(1, 3, np.int32),
    lambda: random.normal(1, 3, np.complex64), lambda: random.bits(1, 3, first=-1), lambda: random.source("cauchy"),
])
def test_wrong_calls(wrong):
    with pytest.raises(lathe.OptionError):
        wrong()
