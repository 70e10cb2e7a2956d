"""The package's types: what is installed passes mypy, and users' programs are understood."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lathe

PROGRAM = """
import numpy as np
import lathe

gemm = lathe.kernel("kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }")
c = gemm(np.ones((2, 2)), np.ones((2, 2)), threads=2)
text: str = gemm.explain()
tuned: lathe.Tuned = gemm.tune(sizes={"M": 4}, budget="1s")
cost: float = tuned.cost
s: lathe.Strategy = lathe.strategy(lambda p: p.tile(i=lathe.pick(1, 2)), for_=gemm)
reveal_type(gemm.emit("asm"))
gemm.tune(budget=[1])
lathe.kernel(3)
"""


def mypy(*args):
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy", "--no-incremental", *args], capture_output=True, text=True)
    return done.stdout


def test_the_package_is_typed(tmp_path):
    folder = Path(lathe.__file__).parent
    assert (folder / "py.typed").exists()
    (tmp_path / "user.py").write_text(PROGRAM)
    out = mypy(str(tmp_path / "user.py"))
    errors = re.findall(r"user.py:(\d+): error", out)
    assert errors == ["12", "13"], out
    assert "str | bytes | " in out or "Union[str, bytes" in out
    whole = mypy("-p", "lathe", "--ignore-missing-imports")
    assert "Success" in whole, whole


def test_the_stubs_say_what_is_there():
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "lathe._lathe", "--ignore-missing-stub"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
