"""The tuner: any function, any command, and kernels."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import lathe
from refusals import refused

GEMM = """
kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }
strategy tiled(ti = 64 in 16..=64 step 16, tj = 64 in 16..=64 step 16) for gemm = tile(i: ti, j: tj) ; vectorize(j.i, 16)
"""


def test_a_function():
    t = lathe.tune(lambda a, b: (a - 7) ** 2 + (b - 3) ** 2, {"a": range(1, 20), "b": [1, 2, 3, 4]}, until="300 evaluations")
    assert t.params == {"a": 7, "b": 3} and t.cost == 0 and len(t.history) == 76
    assert t.svg.startswith("<svg") and "a" in t._repr_html_()
    for technique in ("random", "annealing", "exhaustive", "bayes", "differential-evolution"):
        t = lathe.tune(lambda x: abs(x - 50), {"x": range(100)}, until="60 evaluations", technique=technique, seed=3)
        again = lathe.tune(lambda x: abs(x - 50), {"x": range(100)}, until="60 evaluations", technique=technique, seed=3)
        assert [e.configuration for e in t.history] == [e.configuration for e in again.history]


def test_constraints_of_both_kinds():
    space = {"WPT": lathe.param(range(1, 65), "divides(N)"), "LS": lathe.param(range(1, 65), lambda LS, WPT, N: N // WPT % LS == 0)}
    plain, valid = lathe.count(space, constants={"N": 64})
    assert plain == 64 * 64 or plain >= valid
    assert valid == sum(1 for w in range(1, 65) for s in range(1, 65) if 64 % w == 0 and 64 // w % s == 0)
    t = lathe.tune(lambda WPT, LS: abs(WPT - 8) + abs(LS - 4), space, constants={"N": 64}, until="200 evaluations")
    assert t.params == {"WPT": 8, "LS": 4}
    t = lathe.tune(lambda a, b: a + b, {"a": range(1, 9), "b": range(1, 9)}, constraints=["a * b >= 16", lambda a, b: a != b],
                   until="100 evaluations")
    assert t.cost == min(a + b for a in range(1, 9) for b in range(1, 9) if a * b >= 16 and a != b)


def test_failures_are_reasons():
    def cost(x):
        if x % 2:
            raise RuntimeError("odd")
        return x

    t = lathe.tune(cost, {"x": range(9, 0, -1)}, until="50 evaluations")
    assert t.params == {"x": 2} and any("odd" in (e.reason or "") for e in t.history)
    with refused(lathe.TuneError, "E1086", "2", "ZeroDivisionError"):
        lathe.tune(lambda x: 1 / 0, {"x": [1, 2]})
    with pytest.raises(lathe.TuneError):
        lathe.tune(lambda x: x, {})
    with pytest.raises(lathe.TuneError):
        lathe.tune(lambda x: x, {"x": [1]}, technique="magic")
    with pytest.raises(lathe.TuneError):
        lathe.tune(lambda x: x, {"x": [1]}, until="soon")
    with pytest.raises(lathe.TuneError):
        lathe.tune(lambda x: x, {"x": [1]}, budget="ten")


def test_several_costs_and_progress(capsys):
    lathe.tune(lambda x: x, {"x": range(3)}, progress=True)
    shown = capsys.readouterr()
    assert "3" in shown.out + shown.err
    seen = []
    t = lathe.tune(lambda x: (abs(x - 3), x), {"x": range(10)}, until="30 evaluations", progress=seen.append)
    assert t.costs == [0, 3] and seen and seen[-1].evaluations == len(t.history)


def test_ctrl_c_keeps_the_best():
    calls = []

    def cost(x):
        calls.append(x)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return x

    t = lathe.tune(cost, {"x": range(100)}, technique="random")
    assert t.stopped == "interrupted" and t.cost == min(calls[:4])

    def at_once(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lathe.tune(at_once, {"x": range(100)})


def test_a_key_continues(tmp_path):
    store = tmp_path / "s.sqlite"
    calls = []
    f = lambda x: calls.append(x) or x  # noqa: E731
    lathe.tune(f, {"x": range(5)}, key="mine", store=store)
    n = len(calls)
    t = lathe.tune(f, {"x": range(5)}, key="mine", store=store)
    assert len(calls) == n and t.known == n


def test_a_command(tmp_path):
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\necho $(( (A - 3) * (A - 3) + B )) > cost\n")
    script.chmod(0o755)
    t = lathe.tune("./run.sh", {"A": range(1, 6), "B": [1, 2]}, folder=tmp_path, cost_file="cost", until="20 evaluations",
                   store=False)
    assert t.params == {"A": 3, "B": 1} and t.cost == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.sh"]


def test_a_kernel(tmp_path):
    gemm = lathe.kernel(GEMM)
    a, b = np.ones((64, 48), np.float32), np.ones((48, 80), np.float32)
    assert gemm.compile(a, b, threads=1).source != "stored"
    t = gemm.tune(a, b, strategy="tiled", until="4 evaluations", budget="20s", threads=1)
    assert t.strategy == "tiled" and t.sizes == {"M": 64, "N": 80, "K": 48} and t.cost > 0 and t.checked
    # Calls of these sizes and threads take the winner, here and in other processes; others do not.
    for k in (gemm, lathe.kernel(GEMM)):
        used = k.compile(a, b, threads=1)
        assert (used.strategy, used.source) == ("tiled", "stored")
        assert used.params == {n: str(v) for n, v in t.params.items()}
        assert k.compile(a[:32], b, threads=1).source != "stored" and k.compile(a, b, threads=2).source != "stored"
    np.testing.assert_allclose(gemm(a, b, threads=1), a @ b)
    store = lathe.kernel(GEMM)
    np.testing.assert_allclose(store(a, b, threads=1), a @ b)
    t = gemm.tune(sizes={"M": 64, "N": 80, "K": 48}, strategy="tiled", until="4 evaluations", threads=1)
    assert t.known > 0
    with pytest.raises(lathe.LatheError):
        gemm.tune(a, strategy="tiled")
    with refused(lathe.TuneError, "E1085", "`naive`"):
        lathe.kernel("kernel c(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] }").tune(np.ones(3, np.float32), strategy="naive")


def test_ctrl_c_while_a_kernel_is_tuned():
    text = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, if a shell started the tests in the background
import numpy as np, lathe
gemm = lathe.kernel('''{GEMM.replace("step 16", "step 1")}''')
a = np.ones((256, 256), np.float32)
t = gemm.tune(a, a, strategy="tiled", budget="60s", threads=1, store=False, fresh=True,
              progress=lambda p: print("evaluated", p.evaluations, flush=True))
print(t.stopped, len(t.history), t.params, t.cost > 0)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
try:
    import os, time
    os.kill(os.getpid(), signal.SIGINT); time.sleep(1)
except KeyboardInterrupt:
    print("raised")
"""
    p = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, start_new_session=True)
    while (line := p.stdout.readline()) and not line.startswith("evaluated 2"):
        pass
    os.kill(p.pid, signal.SIGINT)
    out, _ = p.communicate(timeout=50)
    last = [line for line in out.splitlines() if not line.startswith("evaluated")]
    assert p.returncode == 0 and last[0].startswith("interrupted") and "True" in last[0] and last[1] == "raised", out
