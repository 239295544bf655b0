"""Forty trainings on a played GPU, and by how much what wattstep says of each is off the truth."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tests.gpu.played import Work
from tests.gpu.traced_training import (
    CAUSES,
    CODE,
    COPY,
    DATA,
    DISPATCH,
    LAUNCHED,
    MS,
    SYNC,
    US,
    Recorded,
    Step,
    Training,
    gaps_of,
    record,
)

from wattstep.attribution import gaps
from wattstep.attribution.gpu_copies import copies
from wattstep.attribution.tables.traced_work import traced_work
from wattstep.insight.explain import device_gaps

SHORT = (20 * US, 16 * US)  # kernels that are over before the next is asked for
LONG = (600 * US, 250 * US)
KINDS: Mapping[str, Mapping[str, Any]] = {
    "GPU-bound": {},
    "GPU-bound, long kernels": {"forward": LONG, "backward": LONG, "layers": 3},
    "hundreds of kernels": {"layers": 20, "forward": (20 * US,) * 5, "backward": (25 * US,) * 6},
    "a graph": {"graph": True},
    "host-bound": {"forward": SHORT, "backward": SHORT, "updates": SHORT, "own_ns": 60 * US},
    "host-bound, code between layers": {
        "forward": SHORT, "backward": SHORT, "updates": SHORT, "between_ns": 150 * US,
    },
    "alternating": {"forward": (260 * US, 200 * US), "backward": SHORT, "own_ns": 60 * US},
    "two streams": {"branches": 2, "forward": (150 * US, 170 * US)},
    "copies in a stream of their own": {"copies_aside": True, "batch": (4_000_000, 330 * US)},
    "starved of data": {"data_ns": 3 * MS, "batch": (2_000_000, 250 * US)},
}  # fmt: skip
WAITS: Mapping[str, Mapping[str, Any]] = {
    "waits each step": {"waits_every": 1},
    "waits each 5": {"waits_every": 5},
    "waits each 50": {"waits_every": 50},
    "never waits": {"waits_every": 0},
}
SCENARIOS: Mapping[str, Training] = {
    f"{kind}, {waits}": Training(**{**facts, **how})
    for kind, facts in KINDS.items()
    for waits, how in WAITS.items()
}
# Delays are told within 2 %, or 3 µs; gaps within 2 %, or 0.4 % of the step.
LEAST_S = 150e-6
LEAST_GAP = 0.2  # of a step
_CAUSES: Mapping[str, str] = {
    gaps.COPY: COPY,
    gaps.LAUNCHED: LAUNCHED,
    gaps.DISPATCH: DISPATCH,
    gaps.SYNCHRONISATION: SYNC,
    device_gaps.DATA: DATA,
    device_gaps.OPTIMIZER: CODE,  # between its operations
    device_gaps.FRAMEWORK: CODE,
}


def errors_of(recorded: Recorded) -> dict[str, float]:
    """By quantity how much the worst of what is told of it is off."""
    run, steps = recorded.run, [recorded.steps[at] for at in recorded.clean]
    device_s = _mean([step.device[1] - step.device[0] for step in steps]) * 1e-9
    followed = set(recorded.clean)
    hosts = [
        (recorded.steps[at], recorded.steps[at + 1]) for at in recorded.clean if at + 1 in followed
    ]
    host_s = _mean([after.host[0] - step.host[0] for step, after in hosts]) * 1e-9
    ahead = _mean([step.device[1] - step.host[1] for step in steps]) * 1e-9
    pairs = {
        "step time": {"": (_value(run, "step_time"), device_s)},
        "host's step time": {"": (_value(run, "host_step_time"), host_s)},
        "run-ahead": {"": (_value(run, "run_ahead"), ahead)},
        "device time by operation": _by_operation(recorded, steps),
        "queueing by kernel": _queueing(recorded, steps),
        "gaps by cause": _gaps(recorded, steps),
        **_copies(recorded, steps),
    }
    least = {
        "run-ahead": LEAST_S, "queueing by kernel": LEAST_S, "gaps by cause": LEAST_GAP * device_s,
    }  # fmt: skip
    return {
        name: max(
            abs(told - true) / max(true, least.get(name, 0.0)) for told, true in each.values()
        )
        for name, each in pairs.items()
        if each
    }


Pairs = dict[str, tuple[float, float]]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _value(run: Any, name: str) -> float:
    value = run.metrics[name].value
    assert value is not None
    return float(value)


def _means(steps: Sequence[Step], of: Any) -> dict[str, float]:
    """Mean over steps of a sum over the pieces of each name."""
    sums: dict[str, float] = defaultdict(float)
    for step in steps:
        for work in step.work:
            sums[work.name] += of(work) / len(steps)
    return dict(sums)


def _by_operation(recorded: Recorded, steps: Sequence[Step]) -> Pairs:
    told: dict[str, float] = defaultdict(float)
    for row in recorded.run.breakdown.operations():
        if row.processor != "cpu":
            told[str(row.labels["name"])] += row.figure("busy_time").value or 0.0
    true = _means(steps, lambda work: work.lasting_ns * 1e-9)
    return {name: (told[name], seconds) for name, seconds in true.items() if _often(name, recorded)}


def _often(name: str, recorded: Recorded) -> bool:
    """Whether traced steps have it: a loss that is read each 50 steps may be in none of them."""
    traced = [
        recorded.steps[i] for i in recorded.run.series.steps.index[recorded.run.series.steps.traced]
    ]
    return all(any(work.name == name for work in step.work) for step in traced)


def _queueing(recorded: Recorded, steps: Sequence[Step]) -> Pairs:
    traced = traced_work(recorded.run.breakdown)
    work, call = traced.work, traced.call[:, 0]
    told = {
        name: _mean((work.start_ns - call)[work.name == code].tolist()) * 1e-9
        for code, name in enumerate(work.names)
        if (work.name == code).any()
    }

    def queued(each: Work) -> float:
        return (each.start_ns - each.called_ns) * 1e-9

    true = _means(steps, queued)
    often = {name for name in told if _often(name, recorded)}
    return {name: (told[name], true[name]) for name in often}


def _gaps(recorded: Recorded, steps: Sequence[Step]) -> Pairs:
    told: dict[str, float] = defaultdict(float)
    by_step = device_gaps.idle_of_device(recorded.run.breakdown, "gpu0")
    for one in by_step:
        for cause, seconds in one.items():
            told[_CAUSES[cause]] += seconds / len(by_step)
    true = [gaps_of(step, recorded.activity) for step in steps]
    return {cause: (told[cause], _mean([one[cause] for one in true])) for cause in CAUSES}


def _copies(recorded: Recorded, steps: Sequence[Step]) -> dict[str, Pairs]:
    """Bytes and time of copies in a step, by their way."""
    traced = traced_work(recorded.run.breakdown)
    count = len(recorded.run.breakdown.window_steps)
    ways = {"host to device": "Memcpy HtoD (Pinned -> Device)", "fill": "Memset (Device)",
            "device to host": "Memcpy DtoH (Device -> Pinned)"}  # fmt: skip
    sizes = _means(steps, lambda work: work.bytes)
    times = _means(steps, lambda work: work.lasting_ns * 1e-9)
    found = {one.way: one for one in copies(traced.work, traced.size)}
    often = {way: name for way, name in ways.items() if _often(name, recorded)}
    return {
        "bytes of copies": {
            way: (found[way].bytes / count, sizes[name]) for way, name in often.items()
        },
        "time of copies": {
            way: (found[way].total_ns / count * 1e-9, times[name]) for way, name in often.items()
        },
    }


def main() -> None:
    """Writes the table of the worst errors: of each quantity the median over all trainings, and the most."""
    errors: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for name, training in SCENARIOS.items():
        with tempfile.TemporaryDirectory() as folder:
            for quantity, error in errors_of(record(Path(folder) / "run", training)).items():
                errors[quantity].append((error, name))
    for quantity, found in errors.items():
        most, name = max(found)
        middle = float(np.median([error for error, _ in found]))
        print(f"| {quantity} | {middle:.2%} | {most:.2%} | {name} |")


if __name__ == "__main__":
    main()
