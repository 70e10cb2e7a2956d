"""`lathe.device`: the programs of device_programs.py and kernel_programs.py, on the devices that there are."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = [Path(__file__).with_name(f"{of}_programs.py") for of in ("device", "kernel")]
NAMES = [line.split("(")[0].removeprefix("def ") for file in PROGRAMS for line in file.read_text().splitlines()
         if line.startswith("def ") and not line.startswith(("def opened(", "def programs(", "def main("))]


@pytest.fixture(scope="module", params=["opencl", "cuda"])
def found(request):
    """What became of all programs on the devices of a kind."""
    ask = "import sys, lathe; sys.exit(0 if lathe.devices(sys.argv[1]) else 9)"
    if subprocess.run([sys.executable, "-c", ask, request.param], timeout=300).returncode:
        pytest.skip(f"no device of {request.param}")
    done = [subprocess.run([sys.executable, file, request.param], capture_output=True, text=True, timeout=900) for file in PROGRAMS]
    lines = [json.loads(line) for d in done for line in d.stdout.splitlines() if line.startswith("[")]
    return {name: said for name, said, _ in lines}, "".join(d.stderr for d in done)


@pytest.mark.parametrize("name", NAMES)
def test_program(found, name):
    said = found[0].get(name, f"it did not run: {found[1]}")
    if said.startswith("skipped: "):
        pytest.skip(said.removeprefix("skipped: "))
    assert said == "ok", said
