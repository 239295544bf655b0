"""Runs of which only the figures are given, and recorded ones whose load and power are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.run.made import Sampled, make_run

from wattstep.insight.observe import gather, observe
from wattstep.insight.observe.evidence import Evidence, Observed
from wattstep.insight.observe.observation import Observation
from wattstep.run import load
from wattstep.schema.channel import Channel, Domain, Origin
from wattstep.schema.figure import Figure, Status
from wattstep.schema.figures import Figures
from wattstep.schema.run_info import RunInfo
from wattstep.store.files import read_info, write_info

Change = Callable[[RunInfo], RunInfo]


def figure(
    value: float,
    half: float | None = 0.0,
    unit: str = "ratio",
    status: Status = Status.MEASURED,
    source: str = "made",
) -> Figure:
    """A figure with an interval of ±`half`; None: without one."""
    ends = (None, None) if half is None else (value - half, value + half)
    return Figure(
        value=value, unit=unit, status=status, low=ends[0], high=ends[1], confidence=0.95, n=50,
        source=source,
    )  # fmt: skip


def info(workload: str = "lenet", batch: int | None = 4, **changes: Any) -> RunInfo:
    """Of a run on one processor of one machine."""
    known: dict[str, Any] = {
        "state": "closed", "created": "2026-11-20T12:00:00+0000", "workload": workload,
        "title": workload, "engine": "torch 2.13", "batch_size": batch, "threads": 1,
        "precision": "fp32", "processor": "cuda", "seed": 0, "interval_s": 0.01, "warmup": 3,
        "trace": "auto", "device": {"model": "board", "cores": 4},
    }  # fmt: skip
    return RunInfo(**{**known, **changes})


def observed(
    workload: str = "lenet",
    batch: int | None = 4,
    metrics: Mapping[str, Any] | None = None,
    *,
    number: int = 0,
    extra: Mapping[str, Mapping[str, Figure]] | None = None,
    disturbed: float | None = None,
    **changes: Any,
) -> Observed:
    """A run by its figures; `changes` are of its description."""
    return Observed(
        path=f"runs/{workload}-{batch}-{number}", info=info(workload, batch, **changes),
        metrics=Figures(metrics), extra=extra or {}, disturbed=disturbed,
    )  # fmt: skip


def series(
    workload: str,
    metric: str,
    values: Mapping[int, float | Sequence[float]],
    relative: float = 0.01,
    unit: str = "samples/s",
    status: Status = Status.MEASURED,
    **changes: Any,
) -> list[Observed]:
    """Runs over batch sizes: several values at one for as many processes, one for three alike.

    Args:
        workload: Its name.
        metric: The metric.
        values: Of the metric, by batch size.
        relative: Half of the interval over the value.
        unit: Of the metric.
        status: Of the figures.
        changes: Of the runs' description.
    """
    found = []
    for batch, given in values.items():
        each = given if isinstance(given, Sequence) else [given] * 3
        for number, value in enumerate(each):
            own = figure(value, relative * abs(value), unit, status)
            found.append(observed(workload, batch, {metric: own}, number=number, **changes))
    return found


def thrice(*runs: Observed) -> list[Observed]:
    """Each as three processes that agree: how processes differ is known, and is nothing."""
    return [replace(run, path=f"{run.path}-{n}") for run in runs for n in range(3)]


def verdict_of(number: int, runs: Sequence[Observed]) -> Observation:
    """One observation on these runs."""
    return next(observe(Evidence(runs=runs), [str(number)]))


def recorded(
    path: Path, number: int, sampled: Sequence[Sampled], change: Change | None = None, **made: Any
) -> Observed:
    """A run that was recorded and read again, with what one observation needs of it.

    Args:
        path: Its folder.
        number: The observation.
        sampled: Channels.
        change: Of its description.
        made: As `make_run` takes it.
    """
    make_run(path, sampled, **made)
    if change is not None:
        write_info(path, change(read_info(path)))
    return gather(load(path), str(path), [str(number)])


def on_gpu(own: RunInfo) -> RunInfo:
    """A training that says that a GPU took part."""
    return replace(own, processor="cuda")


def gpu_load(status: Origin = "measured") -> Channel:
    """How busy a GPU is, in per cent."""
    return Channel(
        name="gpu0.utilization", unit="ratio", kind="gauge", domain="gpu", role="gpu_utilization",
        source="made", scale=1e-2, status=status,
    )  # fmt: skip


def core(number: int) -> Channel:
    """Busy time of a core in µs: finer than ticks."""
    return Channel(
        name=f"cpu{number}.busy_time", unit="s", kind="counter", domain="cpu", role="busy_time",
        source="made", scale=1e-6, core=number,
    )  # fmt: skip


def rail(part: Domain, role: str = "power_part") -> Channel:
    """Power of a part in mW."""
    return Channel(
        name=f"rail.{part}", unit="W", kind="gauge", domain=part, role=role, source="made",
        scale=1e-3,
    )  # fmt: skip


def steady_core(number: int, share: float) -> Sampled:
    """A core that is busy for a share of the time, evenly."""
    return Sampled(channel=core(number), raw=lambda t: round(t * share / 1000))


def steady(channel: Channel, value: int) -> Sampled:
    """A gauge that stands still."""
    return Sampled(channel=channel, raw=lambda t: value)
