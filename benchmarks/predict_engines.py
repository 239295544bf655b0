"""Trainings on each engine on this machine's CPU, measured, and predicted by a fit that has not seen their workload.

    python benchmarks/predict_engines.py CACHE [--measure] [--engines NAME,...] [--only NAME,...]
                                         [--batch 4,16] [--write docs/predict-here.md]

`--measure` trains each workload on each engine in a process of its own, with one thread, for a few seconds,
and keeps what it found in CACHE (one file each: what is there is not measured again). Values of each engine
are then fitted over those that torch has on this machine (`wattstep calibrate-device` before) to all
workloads but one, and judged on that one, each in turn. Measured are the least CPU time of a step, and the
peak of the process's resident memory in steady steps.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import expm1
from pathlib import Path
from statistics import median
from typing import Final

from wattstep import devices, engines
from wattstep.errors import WattstepError
from wattstep.predict.cpu.engines import GROUPS
from wattstep.store import this_device
from wattstep.train.calibration.engine import PROBES, trainings_of
from wattstep.train.calibration.engine_fitting import EngineFit, EngineTraining, fit_engine
from wattstep.train.calibration.engine_probe import EngineProbe, engine_probe_in_child

ENGINES: Final = "mnn,onnxruntime,executorch,mlx,torch-compile"
SMALL: Final = ",".join(dict.fromkeys(workload for workload, _ in PROBES))
BEGIN, END = "<!-- predict_engines: begin -->", "<!-- predict_engines: end -->"


def main() -> None:
    """Measures, fits, predicts, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cache", type=Path)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--engines", default=ENGINES)
    parser.add_argument("--only", default=SMALL)
    parser.add_argument("--batch", default="4")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    names = given.engines.split(",")
    if given.measure:
        for name in names:
            for workload in given.only.split(","):
                for size in map(int, given.batch.split(",")):
                    measure(name, workload, size, given.cache)
    device = devices.find(this_device.find(this_device.THIS))
    fits: dict[str, tuple[Sequence[EngineTraining], EngineFit]] = {}
    for name in names:
        probes = [
            EngineProbe.from_dict(json.loads(path.read_text(encoding="utf-8")))
            for path in sorted(given.cache.glob(f"{name}-*.json"))
        ]
        try:
            trainings = trainings_of(probes, device, exported=engines.find(name).exports)
            fits[name] = trainings, fit_engine(trainings)
        except WattstepError as error:
            print(f"{name}: {error}", file=sys.stderr)
    text = "\n".join(table(fits))
    print(text)
    if given.write:
        document = given.write.read_text(encoding="utf-8")
        head, rest = document.split(BEGIN)
        _, tail = rest.split(END)
        given.write.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")


def measure(name: str, workload: str, size: int, cache: Path) -> None:
    """Keeps what a training takes."""
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / f"{name}-{workload}-{size}.json"
    if path.exists():
        return
    try:
        probe = engine_probe_in_child(name, workload, size)
    except WattstepError as error:
        print(f"{name}, {workload} at {size}: {error}", file=sys.stderr)
        return
    path.write_text(json.dumps(asdict(probe)), encoding="utf-8")


def table(fits: dict[str, tuple[Sequence[EngineTraining], EngineFit]]) -> Iterator[str]:
    """A row for each engine, then the times of its groups, then each training, as Markdown."""
    yield "| engine | workloads | trainings | time: median | 90 % | largest | memory: median | 90 % | largest |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for name, (trainings, fit) in fits.items():
        workloads = {each.probe.workload for each in trainings}
        cells = [part for key in ("step_time", "system") for part in _sizes(fit.errors[key])]
        yield f"| {name} | {len(workloads)} | {len(trainings)} | {' | '.join(cells)} |"
    yield ""
    yield "How many times as long as torch on the same machine each takes, and its operations' starts after it, fitted to all of its trainings:"
    yield ""
    yield f"| engine | {' | '.join(GROUPS)} | a step beside |"
    yield f"|---|{'---:|' * (len(GROUPS) + 1)}"
    for name, (_, fit) in fits.items():
        times, starts = fit.times.times, fit.times.starts
        cells = [f"{times[group]:.3g}, {starts[group]:.2g}" for group in GROUPS]
        yield f"| {name} | {' | '.join(cells)} | {1e6 * fit.times.step_s:.0f} µs |"
    yield ""
    yield "| engine | workload | batch | step measured | predicted | off | memory measured | predicted | off |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for name, (trainings, fit) in fits.items():
        rows = zip(trainings, fit.errors["step_time"], fit.errors["system"], strict=True)
        for one, time, memory in sorted(
            rows, key=lambda row: (row[0].probe.workload, row[0].probe.batch_size)
        ):
            probe = one.probe
            off, beside = expm1(time), expm1(memory)
            yield (
                f"| {name} | {probe.workload} | {probe.batch_size} | {1e3 * probe.seconds:,.4g} ms "
                f"| {1e3 * probe.seconds * (1 + off):,.4g} ms | {100 * off:+.0f} % "
                f"| {probe.peak / 1e6:,.0f} MB | {probe.peak * (1 + beside) / 1e6:,.0f} MB | {100 * beside:+.1f} % |"
            )


def _sizes(errors: Sequence[float]) -> list[str]:
    sizes = sorted(abs(expm1(each)) for each in errors)
    ninth = sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]
    return [f"{100 * each:.1f} %" for each in (median(sizes), ninth, sizes[-1])]


if __name__ == "__main__":
    main()
