"""Loading a large Kineto trace by wattstep and by HolisticTraceAnalysis: time and memory.

    python benchmarks/kineto_import.py --peer PYTHON [--megabytes 100] [--ways parse hta] [--json]

The trace is made by repeating a real one (rank 0 of a training on 128 GPUs, tests/fixtures/traces)
with times, correlation ids, external ids, sequence and step numbers moved on, so that every
repetition is a later part of the same training. Ways, each in a fresh process, in turn:

- parse: `wattstep.formats.kineto.read`, all columns;
- import: `wattstep import --trace FILE`, the whole command, to a closed Run;
- hta: `TraceAnalysis(trace_files={0: FILE})` of the peer, with its defaults;
- hta_ijson: the same with `ParserBackend.IJSON_BATCH_AND_COMPRESS`, which its source recommends
  "for best results"; ijson must be installed there.

Times of parse and of the peer leave out the start of Python and imports; that of the whole command
does not. Peak memory is the high-water mark of the largest process of each way. PYTHON is the
interpreter of an environment with HolisticTraceAnalysis. The trace is removed at the end.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REAL = Path(__file__).parent.parent / "tests/fixtures/traces/kineto_gpu_sampled_rank0.json.gz"
NUMBERED = re.compile(
    r'("ts": |"External id": |"correlation": |"Sequence number": |"Ev Idx": |ProfilerStep#)(\d+)'
)
GAP_US = 1000  # between two repetitions
PARSE = """
import sys, time
from pathlib import Path
from wattstep.formats import kineto
before = time.perf_counter()
trace = kineto.read(Path(sys.argv[1]))
taken = time.perf_counter() - before
count = len(trace.events)
"""
HTA = """
import logging, sys, time
logging.disable(logging.CRITICAL)
from hta.common import trace_parser
from hta.configs.parser_config import ParserBackend
from hta.trace_analysis import TraceAnalysis
if sys.argv[2] == "hta_ijson":
    trace_parser.set_default_trace_parsing_backend(ParserBackend.IJSON_BATCH_AND_COMPRESS)
before = time.perf_counter()
analysis = TraceAnalysis(trace_files={0: sys.argv[1]})
taken = time.perf_counter() - before
count = len(analysis.t.get_trace(0))
"""
SAY = 'print("\\nresult", taken, count)'
WAYS = ("parse", "import", "hta", "hta_ijson")


def generate(path: Path, megabytes: float) -> int:
    """Writes a trace of this size; gives how many events it has."""
    whole = json.loads(gzip.decompress(REAL.read_bytes()))
    once = [
        event for event in whole["traceEvents"] if event["ph"] != "X" or event["cat"] == "Trace"
    ]
    again = [
        event for event in whole["traceEvents"] if event["ph"] == "X" and event["cat"] != "Trace"
    ]
    head = {key: value for key, value in whole.items() if key != "traceEvents"}
    parts = NUMBERED.split(",\n".join(map(json.dumps, again)))
    keys, numbers = parts[1::3], [int(number) for number in parts[2::3]]
    kinds = set(keys)
    moves = {
        kind: max(n for key, n in zip(keys, numbers, strict=True) if key == kind)
        - min(n for key, n in zip(keys, numbers, strict=True) if key == kind) + 1
        for kind in kinds
    }  # fmt: skip
    longest = max(event["dur"] for event in again)
    moves['"ts": '] += int(longest) + GAP_US
    repetitions = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')
        file.write(",\n".join(map(json.dumps, once)))
        while file.tell() < megabytes * 1e6:
            parts[2::3] = [
                str(number + repetitions * moves[key])
                for key, number in zip(keys, numbers, strict=True)
            ]
            file.write(",\n" + "".join(parts))
            repetitions += 1
        file.write("\n]}\n")
    return len(once) + repetitions * len(again)


def command(way: str, trace: Path, peer: str, folder: Path) -> list[str]:
    """What is run for a way."""
    if way == "import":
        out = str(folder / "run")
        return [sys.executable, "-m", "wattstep", "import", "--trace", str(trace), "--out", out]
    if way == "parse":
        return [sys.executable, "-c", PARSE + SAY, str(trace)]
    return [peer, "-c", HTA + SAY, str(trace), way]


def run(way: str, trace: Path, peer: str) -> dict[str, float]:
    """Time in s, peak memory in B and events of one way, in a fresh process."""
    with (
        tempfile.TemporaryDirectory(dir=trace.parent) as name,
        (trace.parent / "said").open("w+") as said,
    ):
        before = time.perf_counter()
        # A process started by another may count its parent's peak as its own; this one is small.
        child = subprocess.Popen(command(way, trace, peer, Path(name)), stdout=said, stderr=said)
        _, status, usage = os.wait4(child.pid, 0)
        taken = time.perf_counter() - before
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
        if child.returncode:
            raise SystemExit(f"{way} ended with {child.returncode}: {text[-2000:]}")
        result = {"s": taken, "peak_B": usage.ru_maxrss * 1024}
        for line in text.splitlines():
            if line.startswith("result "):
                _, seconds, count = line.split()
                result |= {"s": float(seconds), "events": int(count)}
        return result


def measure(megabytes: float, repetitions: int, ways: Sequence[str], peer: str) -> dict[str, Any]:
    """Medians of every way on a trace of one size."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        events = generate(trace, megabytes)
        results: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
        for repetition in range(repetitions):
            for way in ways:
                results[way].append(run(way, trace, peer))
                shown = results[way][-1]
                print(
                    f"{repetition + 1}/{repetitions} {way}: {shown['s']:.1f} s, "
                    f"{shown['peak_B'] / 1e6:.0f} MB",
                    file=sys.stderr,
                )
        size = trace.stat().st_size
    rows = {
        way: {
            "median_s": statistics.median(one["s"] for one in found),
            "times_s": [one["s"] for one in found],
            "peak_B": max(one["peak_B"] for one in found),
            "events": found[0].get("events"),
        }
        for way, found in results.items()
    }
    return {"bytes": size, "events": events, "ways": rows}


def show(result: dict[str, Any]) -> None:
    """Prints a table."""
    print(f"{result['bytes'] / 1e6:.0f} MB, {result['events']} events")
    print(f"{'':12}{'median s':>10}{'least s':>10}{'peak MB':>10}{'events':>12}")
    for way, row in result["ways"].items():
        numbers = f"{row['median_s']:10.2f}{min(row['times_s']):10.2f}{row['peak_B'] / 1e6:10.0f}"
        print(f"{way:12}{numbers}{row['events'] or '':>12}")
    ours, theirs = [w for w in result["ways"] if not w.startswith("hta")], ["hta", "hta_ijson"]
    for way in ours:
        for other in (other for other in theirs if other in result["ways"]):
            ratio = result["ways"][other]["median_s"] / result["ways"][way]["median_s"]
            print(f"{other} takes {ratio:.1f} times the time of {way}")


def main() -> None:
    """Measures each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", default=sys.executable, help="Python with HolisticTraceAnalysis")
    parser.add_argument("--megabytes", type=float, nargs="+", default=[100])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    given = parser.parse_args()
    results = [measure(size, given.repetitions, given.ways, given.peer) for size in given.megabytes]
    if given.json:
        print(json.dumps(results))
    else:
        for result in results:
            show(result)


if __name__ == "__main__":
    main()
