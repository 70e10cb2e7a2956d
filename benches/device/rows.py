"""Checks kernels that Lathe made for a CUDA device, and times them beside PyTorch's.

    python3 rows.py --rows copy,gemm4096 --out rows.json

Needs the driver, PyTorch, and the folder that `make device-bundle` makes: a cubin and the list of launches per row. Rows are
measured one after the other by a process of their own (`worker.py`). One that takes longer than eight minutes ends that process
and is reported as failed; the next row has a new one. A row that the output holds already, of the same code, the same device
and as many rounds, is not measured again: what was cut off goes on where it ended.
"""

import argparse
import hashlib
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path

import driver

HERE = Path(__file__).parent
# Seconds for a row, with its rivals' compilers.
MOST = 480


class Worker:
    """A process that measures rows."""

    def __init__(self, options):
        command = [sys.executable, str(HERE / "worker.py"), *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        self.device = self.answer()
        if self.device is None:
            raise SystemExit(self.process.wait() or 1)

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def answer(self):
        """The next line; None where the process ended, or took too long and was ended."""
        try:
            return self.lines.get(timeout=MOST)
        except queue.Empty:
            self.process.kill()
            return None

    def row(self, name):
        try:
            print(name, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            return None
        return self.answer()


def code_of(folder, name):
    h = hashlib.sha256()
    for suffix in ("cubin", "json"):
        h.update((folder / f"{name}.{suffix}").read_bytes())
    return h.hexdigest()[:16]


def earlier(path, how):
    """The rows of an output that were measured in this way on this device."""
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    same = all(report.get(name) == value for name, value in how.items())
    return {r["name"]: r for r in report["rows"] if "failed" not in r} if same else {}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", default="", help="their names, with commas; default: all")
    p.add_argument("--out", default="rows.json")
    p.add_argument("--bundle", default=str(HERE / "bundle"))
    p.add_argument("--rounds", type=int, default=11)
    p.add_argument("--alone", action="store_true", help="without rivals: to compare strategies")
    p.add_argument("--repeat", type=int, default=0, help="repetitions that must give the same bits")
    p.add_argument("--again", action="store_true", help="measure what the output holds, too")
    a = p.parse_args()
    driver.opened()
    folder, out = Path(a.bundle), Path(a.out)
    known = json.loads((folder / "rows.json").read_text())
    options = ["--bundle", a.bundle, "--rounds", str(a.rounds), "--repeat", str(a.repeat), *(["--alone"] if a.alone else [])]
    worker = Worker(options)
    how = {**worker.device, "rounds": a.rounds, "alone": a.alone, "repeat": a.repeat}
    done = {} if a.again else earlier(out, how)
    for name in [n for n in a.rows.split(",") if n] or known:
        code = code_of(folder, name) if (folder / f"{name}.cubin").exists() else None
        if code is None or done.get(name, {}).get("code") != code:
            worker = worker or Worker(options)
            row = worker.row(name)
            if row is None:
                row = {"name": name, "failed": f"its process ended, or took longer than {MOST} s", "last": True}
            if row.pop("last", False):
                worker = None
            done[name] = {**row, "code": code}
        print(json.dumps(done[name]), flush=True)
        out.write_text(json.dumps({**how, "rows": list(done.values())}, indent=1) + "\n")


if __name__ == "__main__":
    main()
