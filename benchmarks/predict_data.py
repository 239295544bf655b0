"""The data phase of steps (drawing a batch, preparing it), measured, and predicted by a fit to other workloads.

    python benchmarks/predict_data.py CACHE [--only NAME,...] [--batch 16,64] [--write docs/predict-here.md]

CACHE is what `benchmarks/predict_here.py CACHE --measure` left. Each workload trains a few steps in a process of its
own, with one thread; measured is the clock of that thread from the begin of the data phase to that of the forward
pass: the median of the steps after the first. Predicted is what `wattstep predict --on this` has for the phase.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from wattstep import engines, workloads
from wattstep.errors import WattstepError
from wattstep.predict.cpu.time import step_time, work_of
from wattstep.schema.step_graph import StepGraph
from wattstep.schema.workload import Preparation
from wattstep.train.calibration.fitting import fit_time
from wattstep.train.calibration.probe import Probe, largest_cache

BEGIN, END = "<!-- predict_data: begin -->", "<!-- predict_data: end -->"
STEPS: Final = 12
BUDGET_S: Final = 20.0  # of a workload's steps; three at least
LEAST: Final = 3


@dataclass(frozen=True, kw_only=True)
class Case:
    """A data phase; times in s.

    Attributes:
        name: Of the workload.
        batch_size: Samples of a step.
        data: Measured.
        step: Likewise, of the whole step.
        predicted: Of the data phase; None where its operations are not known.
    """

    name: str
    batch_size: int
    data: float
    step: float
    predicted: float | None


def main() -> None:
    """Measures, predicts, prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("cache", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--batch", default="16,64")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "BATCH"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measured(given.measure[0], int(given.measure[1]))))
        return
    probes = [
        Probe.from_dict(json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(given.cache.glob("*.json"))
    ]
    names = given.only.split(",") if given.only else workloads.names()
    cases = []
    for name in names:
        for size in map(int, given.batch.split(",")):
            one = case(name, size, given.cache, probes)
            if one is not None:
                cases.append(one)
                print(row(one), file=sys.stderr)
    text = "\n".join(table(cases))
    print(text)
    if given.write:
        document = given.write.read_text(encoding="utf-8")
        head, rest = document.split(BEGIN)
        _, tail = rest.split(END)
        given.write.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")


def measured(name: str, batch_size: int) -> dict[str, list[float]]:
    """Times in s of the data phase and of whole steps, of this process, which should be a fresh one."""
    engine = engines.find(engines.DEFAULT)
    engine.load()
    trainer = engine.prepare(workloads.find(name), Preparation(batch_size=batch_size), threads=1)
    clock = time.thread_time
    begun, data = 0.0, 0.0
    within = False

    def mark(phase: str) -> None:
        nonlocal begun, data, within
        if phase == "data" and not within:
            begun, within = clock(), True
        elif phase in ("forward", "backward", "optimizer") and within:
            data += clock() - begun
            within = False

    phases, steps = [], []
    end = time.monotonic() + BUDGET_S
    while len(steps) <= LEAST or (len(steps) <= STEPS and time.monotonic() < end):
        data, before = 0.0, clock()
        trainer.step(mark)
        steps.append(clock() - before)
        phases.append(data)
    return {"data": phases[1:], "steps": steps[1:]}


def case(name: str, batch_size: int, cache: Path, probes: Sequence[Probe]) -> Case | None:
    """A data phase, measured and predicted; None: it cannot be trained so, or captured."""
    command = [sys.executable, __file__, str(cache), "--measure", name, str(batch_size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name} at {batch_size}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    times = json.loads(done.stdout.strip().splitlines()[-1])
    try:
        graph = (
            engines.find(engines.DEFAULT)
            .capture(workloads.find(name), Preparation(batch_size=batch_size), "fp32")
            .at(batch_size)
        )
    except WattstepError as error:
        print(f"{name} at {batch_size}: {error}", file=sys.stderr)
        return None
    return Case(
        name=name,
        batch_size=batch_size,
        data=median(times["data"]),
        step=median(times["steps"]),
        predicted=predicted(graph, [one for one in probes if one.settings.workload != name]),
    )


def predicted(graph: StepGraph, probes: Sequence[Probe]) -> float | None:
    """Time of a step's data phase in s, by a fit to other workloads."""
    if not graph.data_known:
        return None
    kinds, step = fit_time(probes)
    work = work_of(graph, cache=largest_cache())
    operations = step_time(work, graph, {**kinds, "step": step}, fresh=0.0).operations
    return float(operations[[phase == "data" for phase in graph.phases]].sum())


def row(one: Case) -> str:
    """A line of the table."""
    told = "not known" if one.predicted is None else f"{1e3 * one.predicted:.3g} ms"
    off = "" if one.predicted is None else f"{100 * (one.predicted - one.data) / one.step:+.1f} %"
    return f"| {one.name} | {one.batch_size} | {1e3 * one.data:.3g} ms | {100 * one.data / one.step:.1f} % | {told} | {off} |"


def table(cases: Sequence[Case]) -> Iterator[str]:
    """As Markdown: how far steps are off by their data phase, then each case."""
    known = [one for one in cases if one.predicted is not None]
    off = sorted(abs((one.predicted or 0.0) - one.data) / one.step for one in known)
    yield (
        f"Data phases of {len(known)} trainings, predicted: steps are off by {100 * median(off):.2f} % (median) and "
        f"{100 * off[-1]:.1f} % (most) for them."
    )
    yield ""
    yield "| workload | batch | data phase measured | of the step | predicted | off, of the step |"
    yield "|---|---:|---:|---:|---:|---:|"
    for one in cases:
        yield row(one)


if __name__ == "__main__":
    main()
