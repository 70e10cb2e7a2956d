"""How long it takes to make a space: Lathe, pyATF, Kernel Tuner, python-constraint.

    generate.py LATHE [--limit SECONDS] [--memory GIB] [--space NAME,...] [--rounds N] [--markdown]

LATHE is the command (`target/release/lathe`). The spaces are those that lathe-space ships: the four of table 2 of
Rasch's thesis, and a product of 10^9 points, of which 10^6 are also drawn at random. Every tool gets the same
parameters and constraints, runs in a process of its own under the limits, and is timed inside it, without starting
up and importing. `prl@8` is the space with all sizes 8, at which more tools finish. Tools that need less than two seconds are timed several times; the median counts.

Needs: pip install pyatf kernel_tuner python-constraint2.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SPACES = ["conv", "gemm", "ccsdt", "prl", "product", "conv@8", "gemm@4", "prl@8"]
FOLDER = Path(__file__).resolve().parents[2] / "crates/lathe-space/spaces"
TOOLS = ["pyatf", "kernel_tuner", "constraint"]
ALIASES = {
    "divides": "({e}) % {v} == 0",
    "multiple_of": "{v} % ({e}) == 0",
    "unequal": "{v} != ({e})",
    "equal": "{v} == ({e})",
    "at_most": "{v} <= ({e})",
    "at_least": "{v} >= ({e})",
    "less_than": "{v} < ({e})",
    "greater_than": "{v} > ({e})",
}
DRAWN = 1_000_000


def load(name):
    name, _, size = name.partition("@")
    form = json.loads((FOLDER / f"{name}.json").read_text())
    if size:
        form["constants"] = {n: int(size) for n in form["constants"]}
    return form


def definition(name):
    """Values by parameter, and conditions in Python with the parameter that each was written at."""
    form = load(name)
    constants = form.get("constants", {})
    params, conditions = {}, []

    def closed(text):
        text = re.sub(r"\b[A-Za-z_]\w*\b", lambda m: str(constants.get(m[0], m[0])), text)
        # The spaces divide integers only.
        return text.replace("&&", " and ").replace("||", " or ").replace("/", "//")

    for p in form["tuning_parameters"]:
        r = p["range"]
        if isinstance(r, str):
            inside = re.fullmatch(r"interval<int>\((.*)\)", r)[1]
            low, high, *step = [eval(closed(part)) for part in inside.split(",")]
            r = list(range(low, high + 1, *step))
        params[p["name"]] = r
        for part in (p.get("constraint") or "").split("&&"):
            part = part.strip()
            alias = re.fullmatch(r"(\w+)\((.*)\)", part)
            if alias and alias[1] in ALIASES:
                part = ALIASES[alias[1]].format(e=alias[2], v=p["name"])
            if part:
                conditions.append((p["name"], closed(part)))
    return params, conditions


def names_in(text, params):
    return [n for n in params if re.search(rf"\b{n}\b", text)]


def pyatf(params, conditions):
    import random

    from pyatf import TP, Set
    from pyatf.search_space import SearchSpace

    by_param = {}
    for owner, text in conditions:
        # A constraint may only read what is declared before it.
        last = [n for n in params if n in names_in(text, params)][-1]
        by_param.setdefault(last, []).append(text)
    made = []
    for name, values in params.items():
        constraint = None
        if name in by_param:
            text = " and ".join(f"({t})" for t in by_param[name])
            constraint = eval(f"lambda {', '.join(names_in(text, params))}: {text}")
        made.append(TP(name, Set(*values), constraint))
    start = time.perf_counter()
    space = SearchSpace(*made, verbosity=0)
    seconds = time.perf_counter() - start

    def draw(n):
        dimensions = len(params)
        for _ in range(n):
            space.get_configuration(tuple(1.0 - random.random() for _ in range(dimensions)))

    return seconds, space.constrained_size, draw


def kernel_tuner(params, conditions):
    from kernel_tuner.searchspace import Searchspace

    texts = [text for _, text in conditions]
    start = time.perf_counter()
    space = Searchspace(dict(params), texts, 10**9)
    seconds = time.perf_counter() - start
    return seconds, space.size, space.get_random_sample


def constraint(params, conditions):
    from constraint import Problem

    start = time.perf_counter()
    problem = Problem()
    for name, values in params.items():
        problem.addVariable(name, values)
    for _, text in conditions:
        names = names_in(text, params)
        problem.addConstraint(eval(f"lambda {', '.join(names)}: {text}"), names)
    solutions = problem.getSolutions()
    seconds = time.perf_counter() - start
    return seconds, len(solutions), None


def child(tool, space, memory):
    resource.setrlimit(resource.RLIMIT_AS, (memory << 30, memory << 30))
    params, conditions = definition(space)
    try:
        seconds, size, draw = globals()[tool](params, conditions)
    except MemoryError:
        print(json.dumps({"failed": "out of memory"}))
        return
    result = {"seconds": seconds, "size": str(size)}
    # The answer so far is kept should drawing not end.
    print(json.dumps(result), flush=True)
    if space == "product" and draw:
        start = time.perf_counter()
        draw(DRAWN)
        result["draw"] = time.perf_counter() - start
        print(json.dumps(result), flush=True)


def rival(tool, space, args):
    command = [sys.executable, __file__, "--child", tool, space, "--memory", str(args.memory)]
    all_of_it = []
    while len(all_of_it) < args.rounds:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=args.limit)
            lines, failed = done.stdout.splitlines(), f"failed: {(done.stderr.splitlines() or ['?'])[-1][:60]}"
        except subprocess.TimeoutExpired as e:
            lines, failed = (e.stdout or b"").decode().splitlines(), f"> {args.limit:.0f} s"
        results = [json.loads(line) for line in lines if line.startswith("{")]
        if not results:
            return {"failed": failed}
        if "failed" in results[-1]:
            return results[-1]
        all_of_it.append(results[-1])
        if results[-1]["seconds"] > 2:
            break
    return median(all_of_it)


def lathe(command, space, args):
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as f:
        json.dump(load(space), f)
    line = [command, "tune", "--space", f.name, "--count", "--json"]
    if space == "product":
        line += ["--sample", str(DRAWN)]
    results = []
    for _ in range(args.rounds):
        answer = json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
        one = {"seconds": answer["seconds"], "size": answer["valid"], "bytes": answer["bytes"]}
        if space == "product":
            one["draw"] = answer["sample_s"]
        results.append(one)
    os.unlink(f.name)
    return median(results)


def median(results):
    out = dict(results[0])
    for key in ("seconds", "draw"):
        values = [r[key] for r in results if key in r]
        if values:
            out[key] = statistics.median(values)
    return out


def shown(seconds):
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lathe", nargs="?")
    parser.add_argument("--child", nargs=2)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--memory", type=int, default=6)
    parser.add_argument("--space", default=",".join(SPACES))
    parser.add_argument("--tool", default=",".join(TOOLS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="also writes the numbers as JSON")
    args = parser.parse_args()
    if args.child:
        return child(*args.child, args.memory)
    if not args.lathe:
        parser.error("the command `lathe` is missing")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    rows = []
    print(f"{'space':10} {'tool':14} {'generate':>12} {'Lathe is':>12} {'valid points':>24}  {'draw 10^6':>10}")
    for space in args.space.split(","):
        own = None
        for tool in ["lathe"] + args.tool.split(","):
            r = lathe(args.lathe, space, args) if tool == "lathe" else rival(tool, space, args)
            own = own or r
            rows.append({"space": space, "tool": tool, **r})
            if "failed" in r:
                print(f"{space:10} {tool:14} {r['failed']:>12}", flush=True)
                continue
            times = f"{r['seconds'] / own['seconds']:.0f} x" if tool != "lathe" else ""
            draw = shown(r["draw"]) if "draw" in r else ""
            print(
                f"{space:10} {tool:14} {shown(r['seconds']):>12} {times:>12} {r['size']:>24}  {draw:>10}", flush=True
            )
            if r["size"] != own["size"]:
                print(f"  {tool} finds {r['size']} points where Lathe finds {own['size']}", file=sys.stderr)
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
