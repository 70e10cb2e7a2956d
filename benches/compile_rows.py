"""How long it takes from source to code: GEMM's versions, one edit, chains of nests, many arrays.

    cargo build --release -p lathe-cli -p lathe --bins --example overheads
    python3 benches/compile_rows.py [--target target/release] [--chains 10,30,100,300,1000]

`overheads` measures within a process, without the time that one takes to start, and without a cache. Beside it, the command
as users run it: the first time with an empty cache, and again. Processor time is that of all threads, less what a run with a
full cache takes where it says so; it is what counts on a machine that does other work.
"""

import argparse
import math
import os
import resource
import subprocess
import tempfile
import time


def used(command, environment):
    """Wall and processor seconds of a command."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cold_and_warm(run, rounds):
    """The least wall and processor seconds with an empty and with a full cache."""
    times = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "XDG_CACHE_HOME": folder}
            times.append((used(run, environment), used(run, environment)))
    return [tuple(min(t[kind][k] for t in times) for k in range(2)) for kind in range(2)]


def chain(n):
    """Stencils of which each reads what the one before wrote."""
    stages = [f"    var A{i}: f32[N + 2]\n    A{i}[i] = 0 where i in 0..N + 2\n"
              f"    S{i}: A{i}[i + 1] = A{i - 1}[i] + A{i - 1}[i + 1] + A{i - 1}[i + 2] where i in 0..N\n" for i in range(1, n + 1)]
    return (f"kernel chain(A0: f32[N + 2]) -> (B: f32[N]) {{\n{''.join(stages)}    B[i] = A{n}[i + 1]\n}}\n"
            "strategy tiled for chain = split(B.i, 64) ; parallel(B.i.o)\n")


def arrays(n):
    """So many arrays, all pairs of which but few must not overlap."""
    results = ", ".join(f"B{i}: f32[N]" for i in range(1, n))
    lines = "".join(f"    B{i}[i] = A[i] * {i}\n" for i in range(1, n))
    return f"kernel arrays(A: f32[N]) -> ({results}) {{\n{lines}}}\nstrategy naive for arrays = id\n"


def slope(points):
    """Least squares of the logarithms."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    mx, my = (sum(p[k] for p in logs) / len(logs) for k in range(2))
    return sum((x - mx) * (y - my) for x, y in logs) / sum((x - mx) ** 2 for x, _ in logs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", default="target/release")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--chains", default="10,30,100,300,1000")
    a = parser.parse_args()
    lathe, overheads = os.path.join(a.target, "lathe"), os.path.join(a.target, "examples", "overheads")
    if os.path.exists(overheads):
        subprocess.run([overheads, "gemm", "edit", "nests"], check=True)
    run = [lathe, "run", "examples/gemm.lathe:gemm", "-D", "M=64", "-D", "N=64", "-D", "K=64", "-s", "fast"]
    cold, warm = cold_and_warm(run, a.rounds)
    for name, (wall, cpu) in (("an empty cache", cold), ("a full cache", warm)):
        print(f"`lathe run` of gemm with {name}: best of {a.rounds} {wall * 1e3:.0f} ms, processor time {cpu * 1e3:.0f} ms", flush=True)
    print(f"  compiling: {(cold[0] - warm[0]) * 1e3:.0f} ms, processor time {(cold[1] - warm[1]) * 1e3:.0f} ms (goal 100)", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file, points = os.path.join(folder, "k.lathe"), []

        def one(text, name, strategy):
            with open(file, "w") as f:
                f.write(text)
            (wall, cpu), _ = cold_and_warm([lathe, "run", f"{file}:{name}", "-D", "N=64", "-s", strategy], 1)
            return wall, cpu

        for n in map(int, a.chains.split(",")):
            wall, cpu = one(chain(n), "chain", "tiled")
            points.append((n, cpu))
            print(f"chain of {n} stencils: {wall:.2f} s, processor time {cpu:.2f} s", flush=True)
        if len(points) > 1:
            large = [p for p in points if p[0] >= 100]
            print(f"  slope of the processor time (log-log): {slope(points):.2f}, from 100 on "
                  f"{slope(large) if len(large) > 1 else float('nan'):.2f} (goal 1.2)", flush=True)
        for n in (30, 120):
            wall, cpu = one(arrays(n), "arrays", "naive")
            print(f"a kernel of {n} arrays: {wall:.2f} s, processor time {cpu:.2f} s", flush=True)


if __name__ == "__main__":
    main()
