"""The tool that speaks GradBench's protocol, for all of its evals: against JAX, and against the values that GradBench expects."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

FOLDER = Path(os.environ.get("LATHE_ROOT", Path(__file__).resolve().parents[3])) / "benches/gradbench"
sys.path.insert(0, str(FOLDER))
import data  # noqa: E402
import rivals  # noqa: E402

FUNCTIONS = {"hello": ("square", "double"), "gmm": ("objective", "jacobian"), "kmeans": ("cost", "dir"), "lstm": ("objective", "jacobian"),
             "ba": ("objective", "jacobian"), "ht": ("objective", "jacobian"), "particle": ("rr", "rf", "fr", "ff"),
             "saddle": ("rr", "rf", "fr", "ff")}


class Tool:
    """A running tool."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, str(FOLDER / "tool.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.messages = 0

    def ask(self, **message):
        self.messages += 1
        self.process.stdin.write(json.dumps({"id": self.messages, **message}) + "\n")
        self.process.stdin.flush()
        response = json.loads(self.process.stdout.readline())
        assert response.pop("id") == self.messages
        return response

    def evaluate(self, module, function, given, runs=1):
        if isinstance(given, dict):
            given = given | {"min_runs": runs, "min_seconds": 0}
        r = self.ask(kind="evaluate", module=module, function=function, input=given)
        assert r["success"], r
        assert sum(t["name"] == "evaluate" for t in r["timings"]) == runs
        assert all(isinstance(t["nanoseconds"], int) for t in r["timings"])
        return r["output"]


@pytest.fixture(scope="module")
def tool():
    tool = Tool()
    yield tool
    tool.process.stdin.close()
    assert tool.process.wait(timeout=60) == 0


def close(a, b):
    """GradBench's comparison, with a smaller tolerance: the same keys, lengths and types."""
    if isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in b)
    if isinstance(b, list):
        return len(a) == len(b) and all(map(close, a, b))
    return isinstance(a, (int, float)) and abs(a - b) <= 1e-9 * max(1, abs(a) + abs(b))


def test_messages(tool):
    assert tool.ask(kind="start", eval="hello") == {"tool": "lathe"}
    assert tool.ask(kind="define", module="hello")["success"] is True
    assert tool.ask(kind="define", module="nothing")["success"] is False
    assert tool.ask(kind="something", of=1) == {}
    r = tool.ask(kind="evaluate", module="hello", function="cube", input=1.0)
    assert r["success"] is False and "cube" in r["error"]
    r = tool.ask(kind="evaluate", module="llsq", function="primal", input={"x": [1.0]})
    assert r["success"] is False and r["error"]
    assert tool.evaluate("hello", "square", 3.0) == 9
    assert tool.evaluate("hello", "double", 9.0) == 18
    tool.evaluate("lse", "primal", {"x": [1.0, 2.0]}, runs=7)


@pytest.mark.parametrize("module", rivals.MODULES)
def test_evals_agree_with_jax(tool, module):
    assert tool.ask(kind="define", module=module)["success"]
    for given in data.workloads(module).values():
        for gradient, function in enumerate(FUNCTIONS.get(module, ("primal", "gradient"))):
            run, output = rivals.MODULES[module](given, bool(gradient))
            assert close(tool.evaluate(module, function, given), output(run())), (module, function)


@pytest.mark.parametrize(("module", "expected"), [("particle", 0.2071918746486116), ("saddle", [8.246324826140356e-06] * 4)])
def test_nested_derivatives(tool, module, expected):
    given, = data.workloads(module).values()
    for function in FUNCTIONS[module]:
        assert close(tool.evaluate(module, function, given), expected), (module, function)
