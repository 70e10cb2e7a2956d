"""The cache, forks, sub-interpreters, and what is left after many calls."""

import ctypes
import gc
import multiprocessing
import os
import re
import subprocess
import sys

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
    files = sorted(cache.glob("compiled-*/*.bin"))
    assert files
    first = CALL.replace("gemm(a, a.T)", "gemm(a, a.T)").replace("a = np", "print(gemm.compile().from_cache)\na = np")
    assert run(first, LATHE_CACHE=str(cache)).splitlines()[0] == "True"
    assert sorted(cache.glob("compiled-*/*.bin")) == files
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


VERSIONS = """
import numpy as np, lathe
add = lathe.kernel('''
kernel add(A: f32[N]) -> (B: f32[N]) { B[i] = A[i] * 3 + 1 }
strategy fast for add = if N <= 8 then split(i, 4) else if N % 16 == 0 then split(i, 16) ; vectorize(i.i, 16) else split(i, 32)
''')
for n in SIZES:
    a = np.arange(n, dtype=np.float32)
    assert (add(a, strategy="fast") == a * 3 + 1).all()
    assert (add(a[::-1], strategy="fast") == a[::-1] * 3 + 1).all()
"""


def test_versions_are_compiled_when_a_call_takes_them(tmp_path):
    cache = tmp_path / "cache"
    files = []
    for sizes in ([32], [32, 64], [5, 32], [33, 5], [16, 7, 100]):
        run(VERSIONS.replace("SIZES", str(sizes)), LATHE_CACHE=str(cache))
        files.append(len(list(cache.glob("compiled-*/*.bin"))))
    # The plan, then for each version its code for dense arrays and for others.
    assert files == [3, 3, 5, 7, 7]
    whole = VERSIONS.replace("SIZES", "[]") + "add.compile(strategy='fast')\n"
    assert run(whole, LATHE_CACHE=str(tmp_path / "whole")) == ""
    assert len(list((tmp_path / "whole").glob("compiled-*/*.bin"))) == 4


def test_folders_that_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    assert run(CALL, LATHE_CACHE=str(file / "x")) == "False"
    assert run(CALL, LATHE_CACHE="/proc/lathe") == "False"
    assert run(CALL, LATHE_CACHE="") == "False"
    assert run(CALL, LATHE_CACHE=str(tmp_path / "small"), LATHE_CACHE_BYTES="10") == "False"
    assert run(CALL, LATHE_CACHE="", LATHE_STORE=str(file)) == "False"


def test_a_folder_that_others_can_write_is_not_used(tmp_path):
    cache = tmp_path / "cache"
    env = {**os.environ, "LATHE_CACHE": str(cache)}
    run(CALL, LATHE_CACHE=str(cache))
    (room,) = cache.glob("compiled-*")
    room.chmod(0o777)
    done = subprocess.run([sys.executable, "-c", CALL], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False", done.stderr
    assert "UserWarning" in done.stderr and f"`{room}`" in done.stderr, done.stderr
    room.chmod(0o700)
    assert run(CALL, LATHE_CACHE=str(cache)) == "True"


def test_nothing_but_the_c_library_is_loaded():
    """Neither LLVM nor anything else that a machine may not have."""
    text = CALL + """
import re
mapped = {m for line in open("/proc/self/maps") for m in re.findall(r"(/\\S+\\.so\\S*)", line)}
print(*sorted(m for m in mapped if "/site-packages/" not in m and "/lib-dynload/" not in m))
"""
    loaded = run(text).splitlines()[-1].split()
    known = r"/(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libz|libffi|libcrypto|libexpat|libbz2|liblzma|libpython3|ld-linux-x86-64)[.\-]"
    assert loaded and all(re.search(known, m) for m in loaded), loaded


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


FORKS = f"""
import multiprocessing, threading
import numpy as np, lathe
from test_processes import SOURCE, check

def child(queue, gemm, n):
    queue.put(check(gemm, n))

gemm = lathe.kernel(SOURCE)
assert check(gemm, 70)
context = multiprocessing.get_context("fork")
stop = threading.Event()
rounds = []

def busy():
    # Compiling and calling while others fork.
    while not stop.is_set():
        rounds.append(check(lathe.kernel(SOURCE.replace("i: 32", f"i: {{16 + 16 * (len(rounds) % 8)}}")), 40))

t = threading.Thread(target=busy)
t.start()
try:
    for n in range(10):
        queue = context.SimpleQueue()
        fresh = lathe.kernel(SOURCE.replace("j: 32", f"j: {{16 + 16 * n}}"))
        p = context.Process(target=child, args=(queue, gemm if n % 2 else fresh, 33 + n))
        p.start()
        p.join(60)
        assert p.exitcode == 0 and queue.get() is True
        assert check(gemm, 33)
finally:
    stop.set()
    t.join()
assert all(rounds)
print("done", len(rounds) > 0)
"""


def test_forked_processes():
    # In a process of its own: others that the tests load do not like to be forked.
    assert run(FORKS, PYTHONPATH=os.path.dirname(__file__), PYTHONWARNINGS="ignore") == "done True"


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


class Allocated(ctypes.Structure):
    _fields_ = [(n, ctypes.c_size_t) for n in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


def in_use():
    """Bytes that the C library has given out, and the memory that the process has."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Allocated
    with open("/proc/self/statm") as f:
        return libc.mallinfo2().uordblks, int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(calls, warm, n):
    """How much more is in use after so many calls."""
    calls(warm)
    gc.collect()
    given, resident = in_use()
    calls(n)
    gc.collect()
    after = in_use()
    return after[0] - given, after[1] - resident


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

    calls(300)
    counts = sys.getrefcount(a)
    given, resident = growth(calls, 300, 10_000 // 3)
    assert sys.getrefcount(a) == counts
    # Less than ten bytes for each call.
    assert given < 100_000 and resident < 4 << 20, (given, resident)


def test_nothing_is_lost_by_einsum():
    a, b, c = np.ones((8, 9)), np.ones((9, 10)), np.ones((4, 4), np.complex64)
    out = np.empty((8, 10))

    def calls(n):
        for _ in range(n):
            lathe.einsum("ij,jk", a, b, out=out)
            lathe.einsum("ij,jk->ki", a, b)
            lathe.einsum("ij,jk,kl->il", c, c, c)
            lathe.einsum("ii->i", c)

    given, resident = growth(calls, 300, 2500)
    assert given < 100_000 and resident < 4 << 20, (given, resident)


def test_compiled_code_is_given_back():
    a = np.ones((8, 8), np.float32)

    def calls(n):
        for _ in range(n):
            k = lathe.kernel(SOURCE)
            k(a, a)

    calls(20)
    given, _ = growth(calls, 20, 60)
    assert given < 60 * 20_000, given


def test_kernels_are_given_back():
    import weakref

    k = lathe.kernel(SOURCE)
    k(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
    r = weakref.ref(k)
    del k
    gc.collect()
    assert r() is None
