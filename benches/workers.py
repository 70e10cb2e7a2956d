"""Rows of a benchmark on many processors: each on whole cores of its own, and those that memory limits with nothing beside them.

A row is a process that prepares its candidates, says `READY`, waits for a line, and measures. Rows that arithmetic limits are
told to go on at once, as many beside each other as there are cores. Of those that memory limits, several prepare beside each
other, and one measures at a time, when no other row is at work; or, where a machine has much more bandwidth than a row can
use, as many as are said measure beside each other while others prepare.
"""
import os, subprocess, threading, time

READY = "READY"


def cores():
    """One processor of each core that this process may use: what shares a core shares its arithmetic."""
    mine, seen, out = sorted(os.sched_getaffinity(0)), set(), []
    for cpu in mine:
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as f:
                core = f.read().strip()
        except OSError:
            core = str(cpu)
        if core not in seen:
            seen.add(core)
            out.append(cpu)
    return out


def wait_to_go():
    """In a row's process, between preparing and measuring."""
    if os.environ.get("LATHE_BENCH_WAIT"):
        print(READY, flush=True)
        input()


class Row:
    """A process that is bound to processors; `stop` ends it when its time is over."""

    def __init__(self, line, environment, cpus, limit):
        self.cpus, self.out, self.errors, self.late = cpus, [], [], False
        self.p = subprocess.Popen(["taskset", "-c", ",".join(map(str, cpus)), *line], env=dict(environment, LATHE_BENCH_WAIT="1"),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.drain = threading.Thread(target=lambda: self.errors.append(self.p.stderr.read()), daemon=True)
        self.drain.start()
        self.timer = threading.Timer(limit, self.stop)
        self.timer.start()

    def stop(self):
        self.late = True
        self.p.kill()

    def ready(self):
        """Whether it prepared its candidates; it waits now."""
        for line in self.p.stdout:
            if line.strip() == READY:
                return True
            self.out.append(line)
        return False

    def measure(self):
        """What it says of its measurement; raises what went wrong."""
        try:
            self.p.stdin.write("\n")
            self.p.stdin.flush()
        except OSError:
            pass
        return self.ended()

    def ended(self):
        self.out += self.p.stdout.readlines()
        self.p.wait()
        self.timer.cancel()
        self.drain.join()
        if self.late:
            raise TimeoutError("took too long")
        lines = [l for l in self.out if l.startswith("{")]
        if self.p.returncode or not lines:
            raise RuntimeError((self.errors or [""])[0][-1500:])
        return lines[-1]


def run(rows, start, done, together=None, limit=float("inf"), streams=None):
    """Measures rows `(key, threads, alone)` on at most `together` cores; without that number, one row after the other. Of rows that
    are to be alone, `streams` measure beside each other if that is given. `start(key, cpus)` gives a `Row`, `done(key, text, error)`
    takes what it said. The number of rows that were not begun within `limit` seconds."""
    streams = streams if together else None
    gated = {r[0] for r in rows if r[2]} if streams else ()
    gate = threading.Semaphore(streams or 1)
    free, begin, left = cores()[:together or max((r[1] for r in rows), default=1)], time.monotonic(), [0]
    many = len(free)
    over = lambda: time.monotonic() - begin > limit
    lock = threading.Condition()

    def take(threads):
        with lock:
            lock.wait_for(lambda: len(free) >= threads)
            taken = [free.pop(0) for _ in range(threads)]
            return taken

    def give(cpus):
        with lock:
            free.extend(cpus)
            free.sort()
            lock.notify_all()

    def said(key, row, ready):
        text = error = None
        try:
            if ready and key in gated:
                with gate:
                    text = row.measure()
            else:
                text = row.measure() if ready else row.ended()
        except (RuntimeError, TimeoutError) as e:
            error = e
        with lock:
            done(key, text, error)

    def beside(key, cpus):
        try:
            row = start(key, cpus)
            said(key, row, row.ready())
        finally:
            give(cpus)

    # Rows of several threads first: one core alone would wait for them.
    crowd = []
    for key, threads, alone in rows if streams else sorted(rows, key=lambda r: -r[1]):
        if (alone and not streams) or together is None:
            continue
        cpus = take(min(threads, many))
        if over():
            give(cpus)
            left[0] += 1
            continue
        crowd.append(threading.Thread(target=beside, args=(key, cpus)))
        crowd[-1].start()
    [t.join() for t in crowd]
    waiting = [r for r in rows if (r[2] and not streams) or together is None]
    while waiting:
        batch = []
        while waiting and len(free) >= min(waiting[0][1], many) and not (batch and together is None):
            key, threads, _ = waiting.pop(0)
            if over():
                left[0] += 1
                continue
            cpus = take(min(threads, many))
            batch.append((key, cpus, start(key, cpus)))
        # All are ready before the first one measures.
        for key, cpus, row, ready in [(k, c, r, r.ready()) for k, c, r in batch]:
            said(key, row, ready)
            give(cpus)
    return left[0]
