"""Every example of the documentation and of the docstrings runs, and so do the notebooks."""

import doctest
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lathe

ROOT = Path(os.environ.get("LATHE_ROOT", Path(__file__).parents[3]))


def available(text):
    needs = re.search(r"# needs: (\w+)", text)
    if needs is not None and needs.group(1) == "cuda":
        return bool(lathe.devices("cuda")) and importlib.util.find_spec("torch") is not None
    return needs is None or importlib.util.find_spec(needs.group(1)) is not None


def test_the_page(capsys, monkeypatch, tmp_path):
    page = ROOT / "docs" / "python.md"
    text = page.read_text()
    blocks = [(text[: m.start()].count("\n") + 2, m.group(1)) for m in re.finditer(r"```python\n(.*?)```", text, re.S)]
    assert len(blocks) > 12
    monkeypatch.chdir(tmp_path)
    # Decorated functions are read from their source, so the page becomes a module whose lines are the page's.
    lines = [""] * text.count("\n")
    for at, block in blocks:
        if available(block):
            for n, line in enumerate(block.splitlines()):
                lines[at - 1 + n] = line
    file = tmp_path / "page.py"
    file.write_text("\n".join(lines))
    exec(compile(file.read_text(), str(file), "exec"), {"__name__": "page"})
    assert "strategy mine(p1 = 16 in 16..=256 step 16) for gemm" in capsys.readouterr().out


def test_the_page_of_devices(tmp_path):
    # In a process of its own, since drivers of devices start threads; on a device of OpenCL where there is none of CUDA.
    text = (ROOT / "docs" / "devices-runtime.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) >= 4
    ask = "import lathe, json; print(json.dumps([len(lathe.devices(k)) for k in ('cuda', 'opencl')]))"
    cuda, opencl = json.loads(subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout)
    if not cuda and not opencl:
        pytest.skip("no device")
    runs = [b for b in blocks if cuda or "# needs: cuda" not in b]
    file = tmp_path / "page.py"
    file.write_text("\n".join(runs).replace('of_kind("cuda")', f'of_kind("{"cuda" if cuda else "opencl"}")'))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["lathe", "lathe.kernels", "lathe.strategies", "lathe.contraction", "lathe.shipping", "lathe.linalg", "lathe.fft", "lathe.random", "lathe._devices", "lathe.jax"])
def test_docstrings(name):
    if name == "lathe.jax":
        pytest.importorskip("jax")
    module = importlib.import_module(name)
    found = [t for t in doctest.DocTestFinder().find(module) if t.examples]
    assert found
    for t in found:
        if name == "lathe.kernels" and "lathe.fun" in t.docstring:
            continue  # needs a file to read the function from; the page has it
        assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(t).failed == 0


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem)
def test_notebooks(path, monkeypatch, tmp_path):
    book = json.loads(path.read_text())
    cells = ["".join(c["source"]) for c in book["cells"] if c["cell_type"] == "code"]
    if not all(available(c) for c in cells):
        pytest.skip("needs another package")
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": path.stem, "display": lambda *x: None}
    monkeypatch.setitem(sys.modules, path.stem, type(sys)(path.stem))
    for n, cell in enumerate(cells):
        file = tmp_path / f"cell{n}.py"
        file.write_text(cell)
        exec(compile(cell, str(file), "exec"), scope)
    # What is shown in the file is real output.
    assert any(c.get("outputs") for c in book["cells"] if c["cell_type"] == "code")


def test_all_that_is_exported_is_documented():
    for name in dir(lathe):
        thing = getattr(lathe, name)
        if not name.startswith("_") and callable(thing):
            assert thing.__doc__, name
