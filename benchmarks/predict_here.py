"""Trainings on this machine's CPU, measured, and predicted by a fit that has not seen their workload.

    python benchmarks/predict_here.py CACHE [--measure] [--only NAME,...] [--batch 1,4,16,64] [--calibration]
        [--write docs/predict-here.md]

`--measure` trains each workload of the suite at each batch size in a process of its own, with one thread, and
keeps what it found in CACHE (one file each: what is there is not measured again). Values of the device are then
fitted to all workloads but one (`wattstep.train.calibration.fitting`, as `wattstep calibrate-device` does),
and judged on that one, each in turn. Measured are the peak of the process's resident memory (VmHWM over three
steady steps) and the least time of a step of the one thread that works. Beside them stands what torch's
MemTracker (torch.distributed._tools.mem_tracker) says of the same step, run on fake tensors. With `--calibration`
values are fitted to the trainings of `wattstep calibrate-device` alone, so far as they are in CACHE and of other
workloads: what a user's predictions rest on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log
from pathlib import Path
from statistics import median
from typing import Final

from wattstep import workloads
from wattstep.errors import WattstepError
from wattstep.train.calibration.calibrate import PROBES
from wattstep.train.calibration.fitting import (
    LEAST_REACH,
    fit_memory,
    fit_time,
    peak_of,
    seconds_of,
)
from wattstep.train.calibration.probe import Probe, ProbeSettings, probe_in_child

BATCHES: Final = "1,4,16,64"
BEGIN, END = "<!-- predict_here: begin -->", "<!-- predict_here: end -->"
MB: Final = 1e6
STEPS: Final = 2  # that MemTracker follows: the first makes the optimizer's state


@dataclass(frozen=True, kw_only=True)
class Case:
    """A training, measured and predicted by a fit to other workloads.

    Attributes:
        probe: What was measured.
        memory: Predicted peak of the process, in B.
        seconds: Predicted time of a step.
        tracker: What MemTracker says, in B; None where it was not asked or cannot tell.
    """

    probe: Probe
    memory: float
    seconds: float
    tracker: float | None

    @property
    def memory_error(self) -> float:
        """Signed, of the measured."""
        return self.memory / self.probe.steady - 1

    @property
    def time_error(self) -> float:
        """Signed, of the measured."""
        return self.seconds / self.probe.seconds - 1


def main() -> None:
    """Measures, fits, predicts, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cache", type=Path)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--batch", default=BATCHES)
    parser.add_argument("--calibration", action="store_true")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--track", nargs=2, metavar=("NAME", "BATCH"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.track:
        print(json.dumps({"tracker": tracked(given.track[0], int(given.track[1]))}))
        return
    names = given.only.split(",") if given.only else workloads.names()
    if given.measure:
        for size in map(int, given.batch.split(",")):
            for name in names:
                measure(ProbeSettings(workload=name, batch_size=size), given.cache)
    cases = predicted(given.cache, calibration=given.calibration)
    text = "\n".join(table(cases))
    print(text)
    if given.write:
        document = given.write.read_text(encoding="utf-8")
        head, rest = document.split(BEGIN)
        _, tail = rest.split(END)
        given.write.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")


# --- measured ----------------------------------------------------------------------------------


def measure(settings: ProbeSettings, cache: Path) -> None:
    """Keeps what a training takes, and what MemTracker says of it."""
    cache.mkdir(parents=True, exist_ok=True)
    path, beside = cache / f"{settings.name}.json", cache / f"{settings.name}.tracker"
    if not path.exists():
        try:
            document = probe_in_child(settings).to_dict()
        except WattstepError as error:
            print(f"{settings.name}: {error}", file=sys.stderr)
            return
        path.write_text(json.dumps(document), encoding="utf-8")
    if not beside.exists():
        command = [
            sys.executable, __file__, str(cache),
            "--track", settings.workload, str(settings.batch_size),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = done.stdout.strip().splitlines()
        beside.write_text(
            lines[-1] if done.returncode == 0 and lines else '{"tracker": null}', encoding="utf-8"
        )


def tracked(name: str, batch_size: int) -> float:
    """Most bytes of tensors in a step, as torch's MemTracker counts them, of fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    from wattstep.engines.torch.trainer import TorchTrainer
    from wattstep.schema.workload import Preparation
    from wattstep.workloads.torch import TorchWorkload

    with FakeTensorMode(allow_non_fake_inputs=True):
        trainer = TorchTrainer(
            TorchWorkload(workloads.find(name)), Preparation(batch_size=batch_size), threads=1
        )
        tracker = MemTracker()
        tracker.track_external(trainer.model, *(each.optimizer for each in trainer.updates))
        with tracker:
            for number in range(STEPS):
                if number:
                    tracker.reset_mod_stats()
                for update in trainer.updates:
                    trainer.take(update, lambda phase: None)
        by_device = tracker.get_tracker_snapshot("peak")
    return float(
        sum(
            size
            for kinds in by_device.values()
            for kind, size in kinds.items()
            if getattr(kind, "value", kind) == "Total"
        )
    )


# --- predicted ---------------------------------------------------------------------------------


def predicted(cache: Path, *, calibration: bool) -> list[Case]:
    """Each training by a fit to the other workloads; of these to the trainings of a calibration alone, if asked."""
    probes = [
        Probe.from_dict(json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(cache.glob("*.json"))
    ]
    fitted = [probe for probe in probes if not calibration or probe.settings in PROBES]
    cases = []
    for name in sorted({probe.settings.workload for probe in probes}):
        others = [probe for probe in fitted if probe.settings.workload != name]
        floor, memory = fit_memory(others)
        kinds, step = fit_time(others)
        sizes = {key: each.value for key, each in memory.items()}
        for probe in probes:
            if probe.settings.workload == name:
                cases.append(
                    Case(
                        probe=probe,
                        memory=peak_of(probe, floor.value, sizes),
                        seconds=seconds_of(probe, kinds, step),
                        tracker=_tracker(cache / f"{probe.settings.name}.tracker"),
                    )
                )
    return sorted(
        cases, key=lambda case: (case.probe.settings.workload, case.probe.settings.batch_size)
    )


def _tracker(path: Path) -> float | None:
    if not path.exists():
        return None
    size = json.loads(path.read_text(encoding="utf-8"))["tracker"]
    return None if size is None else float(size)


def held(cases: Sequence[Case], quantity: str) -> tuple[float, float]:
    """Part of the cases within 90 % intervals that the misses of other workloads make; their median half.

    Args:
        cases: All.
        quantity: "memory" or "time".
    """
    errors: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        ratio = (
            case.memory / case.probe.steady
            if quantity == "memory"
            else case.seconds / case.probe.seconds
        )
        errors[case.probe.settings.workload].append(abs(log(ratio)))
    least = LEAST_REACH["system"] if quantity == "memory" else LEAST_REACH["step_time"]
    within, halves = 0, []
    for name, own in errors.items():
        others = sorted(
            each for other, theirs in errors.items() if other != name for each in theirs
        )
        half = max(least, others[min(len(others) - 1, int(0.9 * (len(others) + 1)))])
        halves.append(half)
        within += sum(each <= half for each in own)
    return within / len(cases), exp(median(halves)) - 1


# --- told --------------------------------------------------------------------------------------


def table(cases: Sequence[Case]) -> Iterator[str]:
    """Summary, then each case, as Markdown."""
    yield "| batch | cases | memory: median | 90 % | largest | MemTracker: median | largest | time: median | 90 % | within 25 % | largest |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    sizes = sorted({case.probe.settings.batch_size for case in cases})
    for size in [*sizes, None]:
        chosen = [case for case in cases if size in (None, case.probe.settings.batch_size)]
        memory = sorted(abs(case.memory_error) for case in chosen)
        time = sorted(abs(case.time_error) for case in chosen)
        other = sorted(
            abs(case.tracker / case.probe.steady - 1) for case in chosen if case.tracker is not None
        )
        near = sum(each <= 0.25 for each in time) / len(time)
        yield (
            f"| {size or 'all'} | {len(chosen)} | {_percent(median(memory))} | {_percent(_ninth(memory))} "
            f"| {_percent(memory[-1])} | {f'{_percent(median(other))} of {len(other)}' if other else '—'} | {_percent(other[-1]) if other else '—'} "
            f"| {_percent(median(time))} | {_percent(_ninth(time))} | {100 * near:.0f} % | {_percent(time[-1])} |"
        )
    memory_held, memory_half = held(cases, "memory")
    time_held, time_half = held(cases, "time")
    others = [case.probe.others for case in cases if isfinite(case.probe.others)]
    yield ""
    yield (
        f"Intervals of 90 %, made from the misses of the other workloads, hold in {100 * memory_held:.0f} % of the cases "
        f"for memory (of ±{100 * memory_half:.0f} %) and in {100 * time_held:.0f} % for time (of ±{100 * time_half:.0f} %). "
        f"Other processes took {min(others):.1f} to {max(others):.1f} cores meanwhile, in the {len(others)} cases in which it was noted."
    )
    yield ""
    yield "| workload | batch | memory measured | predicted | off | MemTracker | off | step measured | predicted | off |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for case in cases:
        settings, probe, tracker = case.probe.settings, case.probe, case.tracker
        beside = (
            "— | —"
            if tracker is None
            else f"{tracker / MB:,.0f} MB | {100 * (tracker / probe.steady - 1):+.0f} %"
        )
        yield (
            f"| {settings.workload} | {settings.batch_size} | {probe.steady / MB:,.0f} MB | {case.memory / MB:,.0f} MB "
            f"| {100 * case.memory_error:+.1f} % | {beside} | {1e3 * probe.seconds:,.4g} ms "
            f"| {1e3 * case.seconds:,.4g} ms | {100 * case.time_error:+.0f} % |"
        )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _ninth(sizes: Sequence[float]) -> float:
    """The least that nine in ten do not exceed."""
    return sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]


if __name__ == "__main__":
    main()
