"""Ctrl-C, other signals and time limits end calls that would take years."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import lathe

#: By ``how``: loops in loops, a loop of unknown length, loops on threads.
SOURCE = """
kernel long(how: i64, n: i64) -> (x: i64[64]) {
    for k in 0..64 { x[k] = 0 }
    if how == 0 { for i in 0..index(n) { for j in 0..index(n) { for k in 0..64 { x[k] = x[k] * 3 + i64(j) } } } }
    if how == 1 { while x[0] < n { x[0] = select(x[0] < 1, 1, x[0]) } }
    for t in 0..64 {
        if how == 2 { for i in 0..index(n) { for j in 0..index(n) { x[t] = x[t] * 5 + i64(j) } } }
    }
}
strategy two for long = open; parallel(t)
"""

YEARS = 2**40
WAYS = [(0, {}), (1, {}), (2, {}), (2, {"strategy": "two", "threads": 2})]

#: A program that a signal arrives in while a kernel runs. What it catches it prints; then the kernel works as before.
PROGRAM = (
    """
import os, signal, sys, threading, time
import numpy as np, lathe
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, if a shell started the tests in the background
long = lathe.kernel(%r)
how, options = eval(sys.argv[1])
expected = long(how, 1, **options)
def begun():
    time.sleep(float(sys.argv[2]))
    os.kill(os.getpid(), getattr(signal, sys.argv[3]))
"""
    % SOURCE
    + """
%s
try:
    # The signal may arrive before the call begins.
    threading.Thread(target=begun, daemon=True).start()
    call()
except BaseException as e:
    print(type(e).__name__, e)
assert (long(how, 1, **options) == expected).all()
"""
)
CALL = f"call = lambda: long(how, {YEARS}, **options)"


def run(body, how, wait, name):
    program = PROGRAM % body
    words = [sys.executable, "-c", program, repr(how), str(wait), name]
    p = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert p.returncode == 0, p.stderr
    return p.stdout


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("wait", [0, 0.3])
def test_ctrl_c_ends_a_call(how, wait):
    assert run(CALL, how, wait, "SIGINT").startswith("KeyboardInterrupt")


def test_what_a_handler_raises_ends_a_call_and_others_do_not():
    body = CALL + """
times = []
def handler(number, frame):
    times.append(number)
    if len(times) == 3:
        # Whatever Python may do: other calls, even such that are ended.
        assert (long(how, 1) == expected).all()
        try:
            long(how, 2**40, timeout=0.01)
        except TimeoutError:
            raise RuntimeError(f"{len(times)} signals") from None
    signal.setitimer(signal.ITIMER_REAL, 0.02)
signal.signal(signal.SIGALRM, handler)
"""
    assert run(body, WAYS[0], 0.1, "SIGALRM") == "RuntimeError 3 signals\n"


def test_ctrl_c_in_einsum():
    body = """
a = np.ones((8000, 8000), np.float32)
call = lambda: [lathe.einsum("ij,jk->ik", a, a) for _ in range(100)]
"""
    assert run(body, WAYS[0], 0.5, "SIGINT").startswith("KeyboardInterrupt")


def test_a_process_that_is_told_to_end_ends():
    words = [sys.executable, "-c", f"import lathe; lathe.kernel({SOURCE!r})(0, {YEARS})"]
    p = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    p.send_signal(signal.SIGTERM)
    assert p.wait(60) == -signal.SIGTERM


@pytest.mark.parametrize("how", WAYS)
def test_calls_have_time_limits(how):
    long = lathe.kernel(SOURCE)
    way, options = how
    expected = long(way, 1, **options)
    for limit in (0.02, 1e-6):
        with pytest.raises(lathe.TimeLimitError, match="E0825") as e:
            long(way, YEARS, timeout=limit, **options)
        assert isinstance(e.value, TimeoutError) and isinstance(e.value, lathe.LatheError)
        assert (long(way, 1, timeout=1000, **options) == expected).all()
        assert (long(way, 1, timeout=None, **options) == expected).all()


def test_time_limits_hold_in_threads_and_after_forks():
    long = lathe.kernel(SOURCE)
    long(0, 1)
    seen = []

    def work(i):
        for _ in range(3):
            with pytest.raises(TimeoutError):
                long(i % 3, YEARS, timeout=0.01 * (i + 1))
            assert (long(0, 1) == np.zeros(64)).all()
        seen.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(seen) == [0, 1, 2, 3]
    child = os.fork()
    if child == 0:
        try:
            work(0)
        finally:
            os._exit(0 if len(seen) == 5 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_time_limit_is_a_time():
    long = lathe.kernel(SOURCE)
    for wrong in (0, -1, float("nan"), "soon", True, float("inf")):
        with pytest.raises(lathe.OptionError, match="timeout"):
            long(0, 1, timeout=wrong)
    named = lathe.kernel("kernel f(timeout: i64) -> (x: i64[1]) { x[i] = timeout }")
    assert named(timeout=3)[0] == 3
