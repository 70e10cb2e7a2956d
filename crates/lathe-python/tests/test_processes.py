"""The cache, forks, sub-interpreters, and what is left after many calls."""

import gc
import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import lathe

SOURCE = """
kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }
strategy fast for gemm = tile(i: 32, j: 32) ; vectorize(j.i, 16) ; parallel(i.o)
"""
CALL = f"""
import numpy as np, lathe
gemm = lathe.kernel('''{SOURCE}''')
a = np.arange(12, dtype=np.float32).reshape(3, 4)
assert (gemm(a, a.T) == a @ a.T).all()
assert (gemm(a.T[::-1], a) == a.T[::-1] @ a).all()
print(gemm.compile().from_cache)
"""


def run(text, **env):
    done = subprocess.run([sys.executable, "-c", text], env={**os.environ, **env}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_compiled_code_is_kept(tmp_path):
    cache = tmp_path / "cache"
    assert run(CALL, LATHE_CACHE=str(cache)) == "True"  # the second of its own two
    files = sorted(cache.iterdir())
    assert files and all(f.suffix == ".bin" for f in files)
    first = CALL.replace("gemm(a, a.T)", "gemm(a, a.T)").replace("a = np", "print(gemm.compile().from_cache)\na = np")
    assert run(first, LATHE_CACHE=str(cache)).splitlines()[0] == "True"
    assert sorted(cache.iterdir()) == files
    # Something else is not taken for it.
    other = first.replace("i: 32", "i: 16")
    assert run(other, LATHE_CACHE=str(cache)).splitlines()[0] == "False"
    # Damaged entries are made again.
    for f in files:
        f.write_bytes(f.read_bytes()[:-3] + b"bad")
    assert run(first, LATHE_CACHE=str(cache)).splitlines()[0] == "False"
    assert run(first, LATHE_CACHE=str(cache)).splitlines()[0] == "True"
    for f in files:
        f.write_bytes(b"")
    assert run(first, LATHE_CACHE=str(cache)).splitlines()[0] == "False"


def test_folders_that_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    assert run(CALL, LATHE_CACHE=str(file / "x")) == "False"
    assert run(CALL, LATHE_CACHE="") == "False"
    assert run(CALL, LATHE_CACHE=str(tmp_path / "small"), LATHE_CACHE_BYTES="10") == "False"
    assert run(CALL, LATHE_CACHE="", LATHE_STORE=str(file)) == "False"


def test_processes_share_a_cache(tmp_path):
    env = {**os.environ, "LATHE_CACHE": str(tmp_path / "c")}
    all_ = [subprocess.Popen([sys.executable, "-c", CALL], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(4)]
    for p in all_:
        _, err = p.communicate(timeout=120)
        assert p.returncode == 0, err


def check(gemm, n):
    a = np.arange(n * n, dtype=np.float32).reshape(n, n) % 7
    return bool((gemm(a, a, threads=2) == a @ a).all() and (gemm(a, a.T) == a @ a.T).all())


def child(queue, gemm, n):
    queue.put(check(gemm, n))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_processes():
    gemm = lathe.kernel(SOURCE)
    assert check(gemm, 70)
    context = multiprocessing.get_context("fork")
    stop = threading.Event()

    def busy():
        i = 0
        while not stop.is_set():
            # Compiling and calling while others fork.
            i += 1
            k = lathe.kernel(SOURCE.replace("i: 32", f"i: {16 + 16 * (i % 8)}"))
            check(k, 40)

    t = threading.Thread(target=busy)
    t.start()
    try:
        for n in range(10):
            queue = context.SimpleQueue()
            fresh = lathe.kernel(SOURCE.replace("j: 32", f"j: {16 + 16 * n}"))
            p = context.Process(target=child, args=(queue, gemm if n % 2 else fresh, 33 + n))
            p.start()
            p.join(60)
            assert p.exitcode == 0 and queue.get() is True
            assert check(gemm, 33)
    finally:
        stop.set()
        t.join()


def test_spawned_processes_get_kernels():
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        assert pool.starmap(check, [(lathe.kernel(SOURCE), 20)] * 4) == [True] * 4


def test_sub_interpreters_are_refused():
    text = """
try:
    import _interpreters as i
except ImportError:
    import _xxsubinterpreters as i
import lathe
x = i.create()
code = '''
try:
    import lathe
except ImportError as e:
    import os
    os.write(1, ("refused: " + str(e)).encode())
'''
try:
    i.run_string(x, code)
except AttributeError:
    i.exec(x, code)
"""
    out = run(text)
    assert "refused" in out and ("interpreter" in out), out


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_nothing_is_lost_over_many_calls():
    gemm = lathe.kernel(SOURCE)
    a = np.ones((64, 64), np.float32)
    out = np.empty((64, 64), np.float32)
    wrong = np.ones((3, 3))

    def calls(n):
        for _ in range(n):
            gemm(a, a)
            gemm(a, a[::-1].T, out=out)
            try:
                gemm(a, wrong)
            except lathe.DtypeError:
                pass

    calls(500)
    gc.collect()
    before, counts = resident(), sys.getrefcount(a)
    calls(10_000 // 3)
    gc.collect()
    assert sys.getrefcount(a) == counts
    assert resident() - before < 4 << 20


def test_kernels_are_given_back():
    import weakref

    k = lathe.kernel(SOURCE)
    k(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
    r = weakref.ref(k)
    del k
    gc.collect()
    assert r() is None
