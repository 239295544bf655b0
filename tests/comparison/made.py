"""Runs for comparisons, with known times: folders as wattstep writes them, and processes without a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.run.made import BEGIN, FIVE, MS, ByPhase, Sampled, make_run, power

from wattstep.insight.compare.configuration import configuration_of
from wattstep.insight.compare.drift import Canary
from wattstep.insight.compare.process import UNITS, Process
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.report_rows import CostRow
from wattstep.schema.run_info import RunInfo

INFO = RunInfo(
    state="closed", created="2026-11-20T12:00:00+0000", workload="made", title="made",
    engine="torch 2.13", batch_size=4, threads=1, precision="fp32", processor="cpu", seed=0,
    interval_s=0.01, warmup=3, trace="auto", device={"model": "board", "cores": 4},
)  # fmt: skip

PROCESS_CPU = Channel(
    name="process.cpu", unit="s", kind="counter", domain="process", role="process_cpu_time",
    source="perf task-clock", scale=1e-9,
)  # fmt: skip


def recorded(
    path: Path,
    slower: float = 1.0,
    watts: float | None = 5.0,
    jitter: int = 0,
    by_phase: bool = False,
    cpu: float | None = None,
    **info: Any,
) -> Path:
    """A run of 60 steps of 20 ms times `slower`, every sixth traced, at constant power or none.

    Args:
        path: Its folder.
        slower: Factor of all phases.
        watts: Of a sensor, or None for no sensor.
        jitter: How much in ns every other step takes longer.
        by_phase: Whether power differs by phase, which alone tells operations; `watts` is the mean.
        cpu: How many cores the training uses; None: not sampled.
        **info: Fields of `run.json` that are otherwise.
    """
    sampled = []
    if watts is not None:
        milliwatts = round(1000 * watts)
        raw = ByPhase([round(each * watts / 5) for each in FIVE], between=milliwatts)
        shown = raw if by_phase else lambda t_ns: milliwatts
        sampled.append(Sampled(channel=power(), raw=shown))
    if cpu is not None:
        used = cpu
        sampled.append(
            Sampled(channel=PROCESS_CPU, raw=lambda t_ns: int(used * (t_ns - BEGIN)) + MS)
        )
    phases = [
        (name, round(length * slower * MS))
        for name, length in (("data", 2), ("forward", 8), ("backward", 10))
    ]
    make_run(path, sampled, phases=phases, slow=lambda index: jitter * (index % 2))
    edit(path, **info)
    return path


def edit(path: Path, **info: Any) -> None:
    """Replaces fields of a run's description."""
    document = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**document, **info}))


def figure(value: float, reach: float | None = None, unit: str = "s", **more: Any) -> Figure:
    """A measured figure, with an interval where it has a reach."""
    ends = (
        {} if reach is None else {"low": value - reach, "high": value + reach, "confidence": 0.95}
    )
    return replace(
        Figure(value=value, unit=unit, status=Status.MEASURED, source="made", n=50), **ends, **more
    )


def process(
    figures: Mapping[str, Figure] | None = None,
    *,
    operations: Sequence[Mapping[str, Any]] = (),
    canary: Canary | None = None,
    samples: float | None = 4.0,
    sensors: str = "sensor",
    **more: Any,
) -> Process:
    """A process of which nothing is known but what is given."""
    nothing = {name: missing(unit, "not made") for name, unit in UNITS.items()}
    info = replace(INFO, **more.pop("info", {}))
    return Process(
        path=Path("made"), info=info, configuration=configuration_of(info),
        figures={**nothing, **(figures or {})}, samples=samples, sensors=sensors,
        rounding=more.pop("rounding", 0.0), temperature=more.pop("temperature", None),
        canary=canary, operations=[CostRow.from_dict(row) for row in operations],
        no_operations=more.pop("no_operations", None),
        data_movement=more.pop("data_movement", missing("ratio", "not made")),
        marred=more.pop("marred", {}), warnings=tuple(more.pop("warnings", ())),
    )  # fmt: skip


def timed(*values: float, reach: float | None = None) -> list[Process]:
    """Processes with these times of a step."""
    return [process({"step_time": figure(value, reach)}) for value in values]


def canary(
    compute: Sequence[float],
    memory: Sequence[float] = (1.0, 1.0),
    version: int = 1,
    kind: str = "numpy",
) -> Canary:
    """A canary whose looks before and after took so long."""
    looks = {"compute_s": tuple(compute), "memory_s": tuple(memory)}
    return Canary(version=version, kind=kind, looks=looks)
