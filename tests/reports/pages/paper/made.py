"""Documents of runs and of a daily training whose values are simple enough to work out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.reports.synthetic import figure, missing, report

from wattstep.report.html.paper import readings as drawn_from
from wattstep.report.html.paper.readings import Reading, Readings
from wattstep.run.three_steps import ShownChannel, ShownStep, ThreeSteps
from wattstep.schema.daily_report import DailyBatch, DailyReport, Day, Published
from wattstep.schema.figure import Figure, Status

CORES = (0.5, 0.1, 0.0, 0.2)  # busy
RAILS = {"rail.gpu": "gpu", "rail.cpu": "cpu", "rail.ddr": "memory", "rail.soc": "soc"}


def document(workload: str = "lenet", batch: int | None = 4, **changes: Any) -> dict[str, Any]:
    """A run with everything that the paper's figures need; energy in J is batch / 4 of that at 4."""
    size = (batch or 4) / 4
    return {
        "run": f"runs/{workload}-{batch}",
        "workload": workload,
        "title": workload,
        "engine": "torch 2.13",
        "batch_size": batch,
        "threads": 1,
        "precision": "fp32",
        "processor": "cuda",
        "target": "local",
        "power_model": None,
        "device": {
            "model": "a board",
            "cores": 4,
            "clusters": [
                {"kind": "Denver2", "cores": [1, 2]},
                {"kind": "Cortex-A57", "cores": [0, 3]},
            ],
        },
        "metrics": metrics(size),
        "energy_by_rail": {
            "rail.gpu": figure(4.0 * size, "J", "measured", 3.9 * size, 4.1 * size),
            "rail.cpu": figure(1.0 * size, "J"),
            "rail.ddr": figure(2.0 * size, "J"),
            "rail.soc": figure(0.5 * size, "J"),
            "rail.in": figure(8.0 * size, "J"),
        },
        "channels": [
            {"name": name, "role": "power_part", "domain": part} for name, part in RAILS.items()
        ]
        + [{"name": "rail.in", "role": "power_total", "domain": "system"}],
        **changes,
    }


def metrics(size: float, **changes: Any) -> dict[str, Any]:
    """Throughput and GPU utilization grow with the batch, CPU utilization does not."""
    return {
        "throughput": figure(100.0 * size**0.5, "samples/s", "measured", 99 * size**0.5, 101 * size**0.5),
        "gpu_utilization": figure(0.6 + 0.02 * size, "ratio"),
        "cpu_utilization": figure(0.2, "ratio", "measured", 0.19, 0.21),
        "cpu_core_utilization": [figure(busy, "ratio") for busy in CORES],
        "idle_state_ratio": [figure(1 - busy, "ratio") for busy in CORES],
        "energy_per_step": figure(8.0 * size, "J", "measured", 7.9 * size, 8.1 * size),
        "mean_power": figure(10.0, "W"),
        "peak_memory": figure(300e6, "B"),
        "memory_highest": {
            "parameters": figure(1e6, "B", "counted"),
            "gradients": figure(1e6, "B", "counted"),
            "optimizer_state": figure(2e6, "B", "counted"),
            "input": figure(1e4 * size, "B", "counted"),
            "feature_maps": figure(3e6 * size, "B", "counted"),
            "workspace": figure(1e6 * size, "B", "counted"),
        },
        **changes,
    }  # fmt: skip


def timeline(*, leave_out: tuple[str, ...] = ()) -> ThreeSteps:
    """Three steps of 10 ms, a sample of everything each 5 ms; channels of some roles are left out."""
    times = [0.005 * n for n in range(7)]
    cores = [
        channel(f"core {core} busy", "core_utilization", "ratio", [busy] * 7, times, core=core)
        for core, busy in enumerate(CORES)
    ]
    watts = {"rail.gpu": 4.0, "rail.cpu": 1.0, "rail.ddr": 2.0, "rail.soc": 0.5}
    rails = [
        channel(name, "rail_power", "W", [value] * 7, times, domain=RAILS[name])
        for name, value in watts.items()
    ]
    channels = (
        *cores,
        channel("gpu", "gpu_utilization", "ratio", [0.9, 1.0, 0.8, 0.9, 1.0, 0.8, 0.9], times),
        *rails,
        channel("power", "power", "W", [8.0] * 7, times),
    )
    return ThreeSteps(
        steps=tuple(
            ShownStep(index=10 + n, start=0.01 * n, end=0.01 * (n + 1), traced=False, phases=())
            for n in range(3)
        ),
        channels=tuple(one for one in channels if one.role not in leave_out),
    )


def channel(
    name: str, role: str, unit: str, values: list[float], times: list[float], *,
    core: int | None = None, domain: str = "",
) -> ShownChannel:  # fmt: skip
    """A channel of a timeline."""
    return ShownChannel(
        name=name, role=role, unit=unit, core=core, points=tuple(zip(times, values, strict=True)),
        status="measured", domain=domain,
    )  # fmt: skip


def run(workload: str = "lenet", batch: int | None = 4, **changes: Any) -> Reading:
    """A run with its timeline."""
    return reading(document(workload, batch, **changes), timeline())


def reading(document: dict[str, Any], timeline: ThreeSteps) -> Reading:
    """A run of this document."""
    return drawn_from.reading(report(document), timeline)


def runs(*batches: int, workload: str = "lenet", **changes: Any) -> Readings:
    """Runs that differ in batch size only."""
    return Readings(runs=[run(workload, batch, **changes) for batch in batches])


def without(name: str, reason: str, unit: str, **more: Any) -> dict[str, Any]:
    """Metrics of which one is missing."""
    return {"metrics": metrics(1.0, **{name: missing(unit, reason)}), **more}


def daily(**changes: Any) -> DailyReport:
    """A daily training of two days with two batch sizes."""

    def ratio(value: float, half: float = 0.02) -> Figure:
        return Figure(
            value=value, unit="ratio", low=value - half, high=value + half, confidence=0.95, n=500,
            method="share", status=Status.MEASURED, source="held-out samples",
        )  # fmt: skip

    accuracies = (ratio(0.6), ratio(0.61), ratio(0.62))
    days = tuple(Day(day=number, accuracy=accuracy) for number, accuracy in enumerate(accuracies))
    made = DailyReport(
        folder="daily/lenet",
        workload="lenet",
        title="LeNet-5",
        images_per_day=64,
        days=2,
        epochs_per_day=1,
        pretrained={"goal": "accuracy=0.6"},
        batches=tuple(DailyBatch(batch_size=size, days=days) for size in (4, 16)),
        paper=Published(
            workload="densenet40", images_per_day=64, accuracy=((0, 0.6065), (17, 0.6132))
        ),
    )
    return replace(made, **changes)
