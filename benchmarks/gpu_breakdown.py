"""What GPUs did, of a large Kineto trace, by wattstep and by HolisticTraceAnalysis: time, memory, answers.

    python benchmarks/gpu_breakdown.py [--peer PYTHON] [--megabytes 100] [--repetitions 3] [--json]

Each way loads the trace of `benchmarks/kineto_import.py` and answers both questions: idle, compute
and other time from the first work to the last; kinds of work with their overlaps, and sum, longest,
shortest, deviation and mean of every kernel. Ours answers for idle time by its cause as well. Each
time is of a fresh process, ways in turn, without the start of Python and imports. Peak memory is the
process's high-water mark. Then the answers are compared, one by one, in whole µs, those of the real
recordings in tests/fixtures/traces too; a difference beyond rounding ends it with 1.

Without --peer ours is measured alone. PYTHON is the interpreter of an environment with
HolisticTraceAnalysis; `benchmarks/hta_answers.py` says what it is asked.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kineto_import import generate

ASK = str(Path(__file__).with_name("hta_answers.py"))
RECORDINGS = Path(__file__).parent.parent / "tests/fixtures/traces"
OURS = """
import json, sys, time
from pathlib import Path
from wattstep.importing.gpu_work import gpu_breakdown_of_trace
before = time.perf_counter()
found = gpu_breakdown_of_trace(Path(sys.argv[1]))
taken = time.perf_counter() - before
time_us = [
    {"idle": one.idle_ns / 1e3, "compute": one.compute_ns / 1e3, "non_compute": one.other_ns / 1e3,
     "kernel": one.total_ns / 1e3} for one in found.occupancies]
kinds = {" overlapping ".join(map(str.upper, kinds)): ns / 1e3
         for one in found.occupancies for kinds, ns in one.together_ns.items()}
pieces = sum(one.pieces for one in found.occupancies)
kernels = [[one.kind.upper(), one.name, one.total_ns / 1e3, one.most_ns / 1e3, one.least_ns / 1e3,
            (one.deviation_ns or 0) / 1e3, one.mean_ns / 1e3] for one in found.kernels]
print(json.dumps({"s": taken, "pieces": pieces, "time_us": (time_us or [None])[0],
                  "kinds_us": kinds, "kernels": kernels}))
"""
ROUNDING_US = 1e-6  # of a number that both have in whole ns; of dates as floats it is more
FLOAT_US = 0.5  # a date in µs as a float of 64 bits is off by a quarter


def run(command: Sequence[str], folder: Path) -> dict[str, Any]:
    """The answers of a process, and its peak memory in B."""
    with (folder / "said").open("w+") as said, (folder / "errors").open("w+") as errors:
        child = subprocess.Popen(command, stdout=said, stderr=errors)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        errors.seek(0)
        if child.returncode:
            raise SystemExit(
                f"{command[:2]} ended with {child.returncode}: {errors.read()[-2000:]}"
            )
        return {**json.load(said), "peak_B": usage.ru_maxrss * 1024}


def command(way: str, trace: Path, peer: str) -> list[str]:
    """What is run for a way."""
    if way == "wattstep":
        return [sys.executable, "-c", OURS, str(trace)]
    return [peer, ASK, "--timed", str(trace)]


def measure(megabytes: float, repetitions: int, peer: str | None) -> dict[str, Any]:
    """Medians of each way on a trace of one size, and how far the answers differ."""
    ways = ("wattstep", "hta") if peer else ("wattstep",)
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = folder / "trace.json"
        events = generate(trace, megabytes)
        size = trace.stat().st_size
        for repetition in range(repetitions):
            for way in ways:
                found[way].append(run(command(way, trace, peer or ""), folder))
                last = found[way][-1]
                print(
                    f"{repetition + 1}/{repetitions} {way}: {last['s']:.2f} s, "
                    f"{last['peak_B'] / 1e6:.0f} MB",
                    file=sys.stderr,
                )
    result: dict[str, Any] = {"bytes": size, "events": events}
    for way, each in found.items():
        times = [one["s"] for one in each]
        result[way] = {
            "median_s": statistics.median(times),
            "times_s": times,
            "peak_B": max(one["peak_B"] for one in each),
        }
    if peer:
        result["ratio"] = result["hta"]["median_s"] / result["wattstep"]["median_s"]
        ours, theirs = found["wattstep"][0], found["hta"][0]
        result["compared"] = len(list(numbers(theirs)))
        result["differences"] = differences(ours, theirs)
    return result


def numbers(answer: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Every number of an answer in µs, with what it is."""
    for key, us in (answer.get("time_us") or {}).items():
        yield f"{key} time", us
    for key, us in (answer.get("kinds_us") or {}).items():
        yield f"kind {key}", us
    for kind, kernel, *each in answer.get("kernels", ()):
        for what, us in zip(("sum", "longest", "shortest", "deviation", "mean"), each, strict=True):
            yield f"{what} of {kind} {kernel}", us


def differences(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], rounding_us: float = ROUNDING_US
) -> list[str]:
    """What differs beyond rounding; kinds by at most 1 µs a piece, for the peer cuts each to whole µs."""
    mine, other = dict(numbers(ours)), dict(numbers(theirs))
    found = [
        f"only {'wattstep' if what in mine else 'hta'} has the {what}"
        for what in sorted(mine.keys() ^ other.keys())
    ]
    for what in sorted(mine.keys() & other.keys()):
        allowed = rounding_us + 1e-9 * abs(mine[what])
        if what.startswith("kind ") and rounding_us > ROUNDING_US:
            allowed += ours["pieces"]
        if abs(mine[what] - other[what]) > allowed:
            found.append(f"{what}: {mine[what]} against {other[what]}")
    return found


def recordings(peer: str) -> dict[str, list[str]]:
    """The differences of each real recording; where the peer has no answer, its error."""
    files = sorted(RECORDINGS.glob("kineto*.json.gz"))
    found = {}
    with tempfile.TemporaryDirectory() as name:
        answers = run([peer, ASK, *map(str, files)], Path(name))
        for file in files:
            ours = run(command("wattstep", file, peer), Path(name))
            theirs = answers[file.name]["work_only"]
            error = theirs.get("error")
            found[file.name] = [f"hta: {error}"] if error else differences(ours, theirs, FLOAT_US)
    return found


def show(result: Mapping[str, Any]) -> None:
    """Prints a table."""
    print(f"{result['bytes'] / 1e6:.0f} MB, {result['events']} events")
    print(f"{'':12}{'median s':>10}{'least s':>10}{'peak MB':>10}")
    for way in ("wattstep", "hta"):
        if way in result:
            row = result[way]
            least, peak = min(row["times_s"]), row["peak_B"] / 1e6
            print(f"{way:12}{row['median_s']:10.2f}{least:10.2f}{peak:10.0f}")
    if "ratio" in result:
        print(f"hta takes {result['ratio']:.1f} times the time of wattstep")
        print(f"{result['compared']} numbers compared, {len(result['differences'])} differ")
        for line in result["differences"][:10]:
            print(f"  {line}")


def main() -> None:
    """Measures, compares, and ends with 1 where answers differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="Python with HolisticTraceAnalysis")
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    given = parser.parse_args()
    result = measure(given.megabytes, given.repetitions, given.peer)
    if given.peer:
        result["recordings"] = recordings(given.peer)
    if given.json:
        print(json.dumps(result))
    else:
        show(result)
        for file, lines in result.get("recordings", {}).items():
            print(f"{file}: {'; '.join(lines) or 'the same'}")
    apart = [line for lines in result.get("recordings", {}).values() for line in lines]
    if result.get("differences") or any(not line.startswith("hta: ") for line in apart):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
