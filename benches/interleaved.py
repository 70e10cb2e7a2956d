"""Times of candidates that take turns."""

import statistics
import time


def rounds(candidates, n=15, at_least=2e-3, limit=60.0):
    """Medians and ranges of seconds per call, measured in turns."""
    times = {name: [] for name in candidates}
    counts = {}
    for name, call in candidates.items():
        call()
        begin = time.perf_counter()
        call()
        counts[name] = max(1, int(at_least / max(time.perf_counter() - begin, 1e-9)))
    end = time.perf_counter() + limit
    for _ in range(n):
        for name, call in candidates.items():
            k = counts[name]
            # Threads of the one before may still be looking for work, OpenBLAS's for some 20 ms.
            time.sleep(0.04)
            call()
            begin = time.perf_counter()
            for _ in range(k):
                call()
            times[name].append((time.perf_counter() - begin) / k)
        if time.perf_counter() > end:
            break
    return {name: (statistics.median(t), min(t), max(t)) for name, t in times.items()}
