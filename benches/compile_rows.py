"""How long it takes from source to code: GEMM's versions, one edit, and chains of nests.

    cargo build --release -p lathe-cli -p lathe --example overheads
    python3 benches/compile_rows.py [--target target/release]

`overheads` measures within a process, without the time that one takes to start, and without a cache. Beside it, the command
as users run it: the first time with an empty cache, and again. Processor time is that of all threads.
"""

import argparse
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", default="target/release")
    parser.add_argument("--rounds", type=int, default=9)
    a = parser.parse_args()
    subprocess.run([os.path.join(a.target, "examples", "overheads"), "gemm", "edit", "chains", "nests"], check=True)
    run = [os.path.join(a.target, "lathe"), "run", "examples/gemm.lathe:gemm", "-D", "M=64", "-D", "N=64", "-D", "K=64", "-s", "fast"]
    cold, warm = [], []
    for _ in range(a.rounds):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "XDG_CACHE_HOME": folder}
            cold.append(used(run, environment))
            warm.append(used(run, environment))
    for name, times in (("an empty cache", cold), ("a full cache", warm)):
        wall, cpu = min(t[0] for t in times), min(t[1] for t in times)
        print(f"`lathe run` of gemm with {name}: best of {a.rounds} {wall * 1e3:.0f} ms, processor time {cpu * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
