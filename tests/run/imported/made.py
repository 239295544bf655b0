"""Steps, powers and totals that other tools might have recorded, with arithmetic done by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.run.made import Worked, import_made, watts

from wattstep.run import Run, load

TRACE = {"file": "train.json", "format": "Kineto trace", "steps": "marked"}
POWER = {"file": "power.csv", "format": "plain CSV"}
# A step of 100 ms: what runs from when to when, and in how many places at once.
#   conv2d  10-40   alone 10-30, with the kernel 30-40:                25 ms of wall time
#   sgemm   30-60   on the GPU: with conv2d, alone 40-50, with mm:     20 ms
#   mm      50-70   with the kernel 50-60, alone 60-70:                15 ms
#   nothing                                                            40 ms
STEP = 100.0
WATTS = ((30, 10.0), (40, 20.0), (50, 30.0), (60, 20.0), (100, 10.0))  # until so many ms
JOULES = {"aten::conv2d": 0.025 * 10, "sgemm": 0.020 * 30, "aten::mm": 0.015 * 10}
STEP_J = 1.4  # with 0.4 of nothing
TOTALS = [
    {"name": "sgemm", "kind": "kernel", "processor": "gpu0", "calls": 10, "total_s": 0.6,
     "mean_s": 0.06, "least_s": 0.05, "most_s": 0.09},
    {"name": "[CUDA memcpy HtoD]", "kind": "copy", "processor": "gpu0", "calls": 4, "total_s": 0.2},
    {"name": "cudaLaunchKernel", "kind": "runtime", "processor": "cpu", "calls": 14,
     "total_s": 0.1, "mean_s": 0.1 / 14},
]  # fmt: skip


def step(number: int, begin: float) -> list[Worked]:
    """The operations of one step that begins at so many ms."""
    return [
        Worked(
            name="aten::conv2d", step=number, start=begin + 10, end=begin + 40, layer="conv",
            kind="convolution",
        ),
        Worked(name="aten::convolution", step=number, start=begin + 15, end=begin + 35, inside=0),
        Worked(
            name="sgemm", step=number, start=begin + 30, end=begin + 60, processor="gpu0",
            thread=1007, layer="conv", kind="kernel",
        ),
        Worked(
            name="aten::mm", step=number, start=begin + 50, end=begin + 70, phase="backward",
            layer="fc",
        ),
    ]  # fmt: skip


def power(until: float, every: float = 1.0) -> list[tuple[float, float]]:
    """10 W, 30 W for the GPU alone, the mean where both run; noise of some mW makes values new."""
    times = [n * every for n in range(int(until / every) + 1)]
    noise = [(n * 7919 % 41 - 20) * 0.001 for n in range(len(times))]
    return [
        (t, round(next(w for end, w in WATTS if t % STEP < end) + more, 3))
        for t, more in zip(times, noise, strict=True)
    ]


def ramp(low: float, high: float, seconds: float = 5.0, every_ms: float = 100.0) -> list[
    tuple[float, float]
]:  # fmt: skip
    count = round(seconds * 1e3 / every_ms)
    return [(n * every_ms, low + (high - low) * n / count) for n in range(count + 1)]


def imported(uncertainty_s: float | None = 0.002, **more: Any) -> dict[str, Any]:
    entry = {"file": "power.csv", "method": "by load", "uncertainty_s": uncertainty_s}
    return {"trace": TRACE, "telemetry": [POWER], "alignment": [entry], **more}


def both(path: Path, count: int = 12, found: dict[str, Any] | None = None, **more: Any) -> Run:
    """Steps straight after each other, with power sampled every ms beside them."""
    begins = [n * STEP for n in range(count)]
    return load(
        import_made(
            path / "r",
            found or imported(),
            steps=[(begin, begin + STEP) for begin in begins],
            operations=[row for n, begin in enumerate(begins) for row in step(n, begin)],
            samples=[(watts(), "power.csv", power(count * STEP))],
            **more,
        )
    )


def rows(run: Run) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in run.operations()}


def whole(document: dict[str, Any], what: str) -> float:
    """Operations and rests, what is too short among them, and of energy what is told together."""
    parts = [*document["operations"], *document["rests"].values()]
    parts += document["energy_groups"] if what == "energy" else []
    return sum(part[what]["value"] or 0.0 for part in parts)
