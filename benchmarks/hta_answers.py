"""What HolisticTraceAnalysis answers for traces: breakdown of GPU time, of kernels, of idle time.

    PYTHON benchmarks/hta_answers.py TRACE... > answers.json
    PYTHON benchmarks/hta_answers.py --timed TRACE

PYTHON is the interpreter of an environment with HolisticTraceAnalysis; nothing else is imported.
With `--timed` one trace is loaded and asked for both breakdowns of `benchmarks/gpu_breakdown.py`;
the seconds that this took, without imports, stand beside the answers.

Asked for are all steps (`include_last_profiler_step`), every kernel by its own name (`num_kernels`)
and memory kernels. Its rounding of ns is off (HTA_DISABLE_NS_ROUNDING=1) unless it is timed: it makes
kernels below 1 µs negative. "as_is" is what it says; "work_only" what it says once the rows that
wait ("cuda_sync") or ran on the CPU, but have the number of a stream, are taken out of its table.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

WORK = ("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset")
ALL_KERNELS = 10**6


def load(path: str) -> Any:
    """The trace, as the peer holds it."""
    from hta.trace_analysis import TraceAnalysis

    return TraceAnalysis(
        trace_files={0: str(Path(path).resolve())}, include_last_profiler_step=True
    )


def breakdowns(analysis: Any) -> dict[str, Any]:
    """Both breakdowns; an exception of the peer is its answer."""
    found: dict[str, Any] = {}
    try:
        table = analysis.get_temporal_breakdown(visualize=False)
        found["time_us"] = {
            key: float(table[f"{key}_time(us)"].iloc[0])
            for key in ("idle", "compute", "non_compute", "kernel")
        }
        kinds, kernels = analysis.get_gpu_kernel_breakdown(
            visualize=False, num_kernels=ALL_KERNELS, include_memory_kernels=True
        )
    except Exception as error:
        return {**found, "error": f"{type(error).__name__}: {error}"}
    found["kinds_us"] = dict(zip(kinds["kernel_type"], map(float, kinds["sum"]), strict=True))
    columns = ("kernel_type", "name", "sum (us)", "max (us)", "min (us)", "stddev", "mean (us)")
    found["kernels"] = kernels[list(columns)].values.tolist()
    return found


def idle(analysis: Any) -> Any:
    """Idle time of each stream by its cause in µs."""
    try:
        table, _ = analysis.get_idle_time_breakdown(visualize=False)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    rows = table[["stream", "idle_category", "idle_time"]].values.tolist()
    return [[int(stream), cause, float(us)] for stream, cause, us in rows]


def keep_work(analysis: Any) -> None:
    """Takes out of the peer's table what has the number of a stream and is no work."""
    names, table = analysis.t.symbol_table.get_sym_table(), analysis.t.traces[0]
    work = table["cat"].map(lambda code: names[code] in WORK)
    analysis.t.traces[0] = table[work | table["stream"].eq(-1)].copy()


def main() -> None:
    """Prints one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--timed", action="store_true")
    given = parser.parse_args()
    if not given.timed:
        os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    import hta.trace_analysis  # noqa: F401

    if given.timed:
        before = time.perf_counter()
        found = breakdowns(load(given.traces[0]))
        json.dump({"s": time.perf_counter() - before, **found}, sys.stdout)
        return
    answers: dict[str, Any] = {}
    for path in given.traces:
        as_is, work_only = load(path), load(path)
        keep_work(work_only)
        answers[Path(path).name] = {
            "as_is": breakdowns(as_is),
            "work_only": {**breakdowns(work_only), "idle_us": idle(work_only)},
        }
    json.dump(answers, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
