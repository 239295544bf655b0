"""Products by our OpenCL kernels, tuned and not, beside CLBlast on the same device and NumPy on the same cores, in turns; and the events' clock beside the host's.

python benchmarks/opencl.py [--device N] [--sizes 256,1024] [--clblast libclblast.so.1 --loader libOpenCL.so.1]
    [--tune-s 60] [--rounds 9] [--write docs/opencl.md] [--json]

CLBlast is Debian's: apt-get install libclblast1, or apt-get download libclblast1 ocl-icd-libopencl1 and
dpkg -x each into a folder, whose libraries are then named. Times are the host's, from before a product is
put into the queue to when all is done; CPU time, which other processes do not lengthen, is that of all
threads of the process (NumPy's with one thread: idle ones spin).
"""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from wattstep.opencl.bench import GemmBench
from wattstep.opencl.clock import EventClock, stamps
from wattstep.opencl.config import Config
from wattstep.opencl.device import Opened, choose
from wattstep.opencl.gemm import Gemm
from wattstep.opencl.remembered import Tuned, exact, remember
from wattstep.opencl.timing import Work, host_work, in_turns
from wattstep.opencl.tuner import UNTUNED, Search

ROW_MAJOR, NO_TRANSPOSE = 101, 111  # of clblast_c.h
MARKS = 2000
BEGIN, END = "<!-- opencl: begin -->", "<!-- opencl: end -->"


class ClBlast:
    """CLBlast's product, through its C interface.

    Args:
        library: Its library.
        loader: The OpenCL library that it is linked to, where the system has none.
    """

    def __init__(self, library: str, loader: str | None) -> None:
        if loader:
            ctypes.CDLL(loader, mode=ctypes.RTLD_GLOBAL)
        self._sgemm = ctypes.CDLL(library).CLBlastSgemm

    def works(self, opened: Opened, n: int, a: Any, b: Any, c: Any) -> Callable[[], None]:
        """A square product of buffers."""
        queue, event = ctypes.c_void_p(opened.queue.int_ptr), ctypes.c_void_p()
        size, zero = ctypes.c_size_t(n), ctypes.c_size_t(0)
        buffers = [ctypes.c_void_p(buffer.int_ptr) for buffer in (a, b, c)]

        def run() -> None:
            status = self._sgemm(
                ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, size, size, size, ctypes.c_float(1.0),
                buffers[0], zero, size, buffers[1], zero, size, ctypes.c_float(0.0),
                buffers[2], zero, size, ctypes.byref(queue), ctypes.byref(event),
            )  # fmt: skip
            if status != 0:
                raise SystemExit(f"CLBlast refuses a product of {n}: status {status}")
            opened.queue.finish()

        return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device")
    parser.add_argument("--sizes", default="256,512,1024")
    parser.add_argument("--clblast", default=ctypes.util.find_library("clblast"))
    parser.add_argument("--loader")
    parser.add_argument("--tune-s", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    opened = Opened(choose(options.device))
    peer = ClBlast(options.clblast, options.loader) if options.clblast else None
    sizes = [int(size) for size in options.sizes.split(",")]
    found = {
        "device": opened.device.facts(),
        "products": [product(opened, n, peer, options.tune_s, options.rounds) for n in sizes],
        "clock": clock(opened),
    }
    text = as_text(found, peer is not None)
    print(json.dumps(found, indent=1) if options.json else text)
    if options.write:
        page = options.write.read_text()
        before, _, rest = page.partition(BEGIN)
        options.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


def product(
    opened: Opened, n: int, peer: ClBlast | None, tune_s: float, rounds: int
) -> dict[str, Any]:
    """Times of all who multiply, in turns, each checked against float64."""
    shape = (n, n, n)
    bench = GemmBench(opened, shape, trans_a=False, trans_b=False)
    tuned = exact(opened.device, shape, False, False)
    tried = 0
    if tuned is None:
        until = time.monotonic() + tune_s
        tuning = Search(opened.device, shape, bench, enough=lambda: time.monotonic() > until).run()
        tried = len(tuning.outcomes)
        tuned = Tuned(
            shape=shape, trans_a=False, trans_b=False, config=tuning.config, seconds=tuning.median
        )
        remember(opened.device, [tuned])
        print(f"{n}: {tuned.config} of {tried} tried", file=sys.stderr)
    left, right = np.random.default_rng(1).standard_normal((2, n, n)).astype(np.float32)
    a, b, c = opened.upload(left), opened.upload(right), opened.allocate(left.nbytes)
    truth = left.astype(np.float64) @ right.astype(np.float64)

    def ours(config: Config) -> Callable[[], None]:
        gemm = Gemm(opened, *shape, config=config)

        def run() -> None:
            gemm(opened.queue, a, b, c)
            opened.queue.finish()

        return run

    runs = {config.kind: ours(config) for config in UNTUNED}
    runs["tuned"] = ours(tuned.config)
    if peer is not None:
        runs["CLBlast"] = peer.works(opened, n, a, b, c)
    wrong = {}
    for name, run in runs.items():
        opened.upload_into(c, np.full((n, n), np.nan))
        run()
        wrong[name] = float(np.abs(opened.download(c, (n, n)) - truth).max() / np.abs(truth).max())
    out = np.empty_like(left)
    runs["NumPy"] = lambda: np.matmul(left, right, out=out)
    busy: dict[str, list[float]] = {name: [] for name in runs}
    works = {name: both_times(run, busy[name]) for name, run in runs.items()}
    works["NumPy, 1 thread"] = both_times(
        one_threaded(runs["NumPy"]), busy.setdefault("NumPy, 1 thread", [])
    )
    seconds = in_turns(works, rounds=rounds)
    bench.release()
    for buffer in (a, b, c):
        opened.release(buffer)
    return {
        "n": n, "config": str(tuned.config), "tried": tried, "wrong": wrong,
        "flops": {name: [2 * n**3 / s for s in times] for name, times in seconds.items()},
        "flop_a_core_s": {name: 2 * n**3 / min(times[1:]) for name, times in busy.items()},
    }  # fmt: skip


def both_times(run: Callable[[], object], busy: list[float]) -> Work:
    """A work timed by the host's clock, which notes its CPU time as well."""
    timed = host_work(run)

    def both(calls: int) -> float:
        begin = time.process_time()
        seconds = timed(calls)
        busy.append((time.process_time() - begin) / calls)
        return seconds

    return both


def one_threaded(run: Callable[[], object]) -> Callable[[], None]:
    """The same with one thread of the library that multiplies."""
    limits = ThreadpoolController()

    def alone() -> None:
        with limits.limit(limits=1):
            run()

    return alone


def clock(opened: Opened) -> dict[str, float]:
    """By how much events lie outside of the host's times around them, in ns."""
    import pyopencl as cl

    mapped = EventClock(opened.queue)
    brackets = []
    for _ in range(MARKS):
        before = time.monotonic_ns()
        event = cl.enqueue_marker(opened.queue)
        event.wait()
        brackets.append((before, stamps(event), time.monotonic_ns()))
    mapped.mark(opened.queue)
    outside = [
        max(before - mapped.map(at.queued), mapped.map(at.ended) - after, 0)
        for before, at, after in brackets
    ]
    return {
        "marks": MARKS,
        "outside_most_ns": max(outside),
        "uncertainty_ns": max(mapped.uncertainty_at(at.queued) for _, at, _ in brackets),
    }


def as_text(found: dict[str, Any], with_peer: bool) -> str:
    """Markdown."""
    names = [*(config.kind for config in UNTUNED), "tuned", "CLBlast", "NumPy"]
    lines = [
        f"| size | {' | '.join(names)} | tuned: over naive | over CLBlast | over NumPy | largest error |",
        "|---:|" + "---:|" * (len(names) + 4),
    ]
    for each in found["products"]:
        flops = each["flops"]
        cells = [f"{max(flops[name]) / 1e9:.3g}" if name in flops else "—" for name in names]
        ratios = [
            f"{ratio(flops['tuned'], flops[name]):.3g}" if name in flops else "—"
            for name in ("naive", "CLBlast", "NumPy")
        ]
        largest = max(error for name, error in each["wrong"].items() if name != "CLBlast")
        lines.append(f"| {each['n']} | {' | '.join([*cells, *ratios])} | {largest:.1e} |")
    configs = "; ".join(f"{each['n']}: {each['config']}" for each in found["products"])
    clocks = found["clock"]
    device = found["device"]
    lines += ["", f"| size | {' | '.join(names)} | tuned: over CLBlast | over NumPy |"]
    lines.append("|---:|" + "---:|" * (len(names) + 2))
    for each in found["products"]:
        busy = {**each["flop_a_core_s"], "NumPy": each["flop_a_core_s"]["NumPy, 1 thread"]}
        cells = [f"{busy[name] / 1e9:.3g}" if name in busy else "—" for name in names]
        cells += [
            f"{busy['tuned'] / busy[name]:.3g}" if name in busy else "—"
            for name in ("CLBlast", "NumPy")
        ]
        lines.append(f"| {each['n']} | {' | '.join(cells)} |")
    lines += [
        "",
        f"The first table: GFLOP/s, best of the rounds; ratios are medians over rounds. The second: GFLOP in a second of CPU time, the least of the rounds; NumPy with one thread. Load average {os.getloadavg()[1]:.0f}. {device['name']}, {device['units']} compute "
        f"units, {device['platform']} {device['driver']}{', target ' + device['target'] if device['target'] else ''}; "
        f"NumPy {np.__version__}. Tuned: {configs}.{'' if with_peer else ' CLBlast was not there.'}",
        "",
        f"Of {clocks['marks']} marks, the mapped times lay at most {clocks['outside_most_ns'] / 1e3:.1f} µs outside of the "
        f"host's times around them; the clock gives its uncertainty as {clocks['uncertainty_ns'] / 1e3:.1f} µs.",
    ]
    return "\n".join(lines)


def ratio(ours: Sequence[float], other: Sequence[float]) -> float:
    """Median over the rounds in which both were timed."""
    return statistics.median(a / b for a, b in zip(ours, other, strict=False))


if __name__ == "__main__":
    main()
