#!/usr/bin/env python3
"""How long differentiating takes: every kernel of examples/gradients, reverse mode, passes before and after and all checks of
what came out included; the shortest of some runs.

    python3 benches/derive_times.py [LATHE] [RUNS]
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    lathe = sys.argv[1] if len(sys.argv) > 1 else "lathe"
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    rows = []
    for file in sorted((ROOT / "examples" / "gradients").glob("*.lathe")):
        command = [lathe, "grad", f"{file}:{file.stem}", "--json"]
        found = []
        for _ in range(runs):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
            found.append(json.loads(done.stdout)["derive_s"])
        rows.append((min(found), file.stem))
    for seconds, name in sorted(rows, reverse=True):
        print(f"{name:16} {1000 * seconds:8.1f} ms")
    within = sum(seconds <= 0.05 for seconds, _ in rows)
    print(f"{within} of {len(rows)} within 50 ms")


if __name__ == "__main__":
    main()
