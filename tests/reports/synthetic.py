"""A run document and a timeline with everything in it, hostile names included."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from wattstep.report.html.report import Reported
from wattstep.run.three_steps import ShownChannel, ShownPhase, ShownStep, ThreeSteps
from wattstep.schema.run_report import RunReport

HOSTILE = "<script>window.hacked = 1</script>"
HOSTILE_LAYER = "</script><img src=x onerror='window.hacked = 1'>"
HOSTILE_MARKUP = "[red]evil[/red]\x1b[31m%{x}<b>{{ 7 * 7 }}"
NO_RAPL = "no /sys/class/powercap: the hypervisor hides it"


def figure(
    value: float | None,
    unit: str,
    status: str = "measured",
    low: float | None = None,
    high: float | None = None,
    **more: Any,
) -> dict[str, Any]:
    return {
        "value": value,
        "unit": unit,
        "low": low,
        "high": high,
        "confidence": None if low is None else 0.95,
        "n": None if low is None else 100,
        "method": None if low is None else "block bootstrap over steps",
        "systematic": None,
        "status": status,
        "source": "monotonic clock",
        "reason": None,
        **more,
    }


def missing(unit: str, reason: str = NO_RAPL) -> dict[str, Any]:
    return {"value": None, "unit": unit, "status": "missing", "reason": reason}


def costs(seconds: float, joules: float | None, calls: int = 1) -> dict[str, Any]:
    return {
        "calls": figure(calls, "count", "counted"),
        "time": figure(seconds, "s", "attributed", 0.95 * seconds, 1.06 * seconds),
        "busy_time": figure(1.5 * seconds, "s", "attributed"),
        "share": figure(seconds / 3.41e-3, "ratio", "attributed"),
        "energy": missing("J") if joules is None else figure(joules, "J", "modelled"),
        "cpu_utilization": figure(0.93, "ratio", "attributed"),
        "memory": figure(2.4e6, "B", "attributed"),
    }


def operation(
    name: str, layer: str, phase: str, seconds: float, joules: float | None, calls: int = 1
) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "convolution" if "conv" in name else "other",
        "layer": layer,
        "phase": phase,
        **costs(seconds, joules, calls),
        "flops": figure(2.3e9 * seconds, "FLOP", "counted"),
        "bytes": missing("B", "the tracer does not count bytes"),
    }


def document(**changes: Any) -> dict[str, Any]:
    return {
        "run": "runs/lenet-20261120-101500-3f9a",
        "schema": 1,
        "workload": "lenet",
        "title": "LeNet",
        "engine": "torch 2.13.0",
        "batch_size": 4,
        "threads": 1,
        "precision": "fp32",
        "processor": "cpu",
        "device": {
            "model": "KVM guest",
            "cpu": "AMD EPYC 9B14",
            "cores": 2,
            "memory": 25e9,
            "virtual": True,
            "hypervisor": "KVM",
            "kernel": "6.18",
            "system": "Debian 12",
        },
        "data": {
            "name": "scikit-learn digits",
            "stand_in": True,
            "stands_for": "MNIST",
            "sha256": "9f2c51e7" * 8,
            "samples": 1797,
        },
        "state": "recovered",
        "status_notes": ["The sampler was lost at 12.3 s; samples end there."],
        "steps": {"recorded": 130, "warmup": 3, "clean": 100, "traced": 27, "disturbed": 2},
        "metrics": _metrics(),
        "operations": [
            operation("aten::convolution_backward", "conv2", "backward", 1.02e-3, 4.7e-3),
            operation("aten::convolution", "conv2", "forward", 0.41e-3, 1.9e-3),
            operation("aten::convolution_backward", "conv1", "backward", 0.38e-3, 1.8e-3),
            operation("aten::addmm", "fc1", "forward", 0.21e-3, 0.9e-3),
            operation("aten::mm", "fc1", "backward", 0.197e-3, 0.85e-3, 2),
            operation("aten::convolution", "conv1", "forward", 0.17e-3, 0.8e-3),
            operation("aten::_foreach_add_", "", "optimizer", 0.14e-3, 0.6e-3, 2),
            operation("aten::max_pool2d_with_indices", "pool1", "forward", 96e-6, 0.4e-3),
            operation("aten::threshold_backward", "relu1", "backward", 51e-6, 0.2e-3, 4),
            operation("aten::_log_softmax", "loss", "forward", 18e-6, None),
            operation(HOSTILE, HOSTILE_LAYER, "forward", 9e-6, 40e-6),
            operation(HOSTILE_MARKUP, "a & b", "backward", 4e-6, None),
        ],
        "layers": [
            {"layer": layer, **costs(seconds, joules)}
            for layer, seconds, joules in (
                ("conv1", 0.55e-3, 2.6e-3),
                ("pool1", 96e-6, 0.4e-3),
                ("conv2", 1.43e-3, 6.6e-3),
                ("fc1", 0.407e-3, 1.75e-3),
                (HOSTILE_LAYER, 9e-6, 40e-6),
            )
        ],
        "phases": [
            {"phase": phase, **costs(seconds, joules)}
            for phase, seconds, joules in (
                ("forward", 0.914e-3, 4.04e-3),
                ("backward", 1.652e-3, 7.55e-3),
                ("optimizer", 0.14e-3, 0.6e-3),
            )
        ],
        "rests": {
            "framework": {
                "time": figure(0.56e-3, "s", "attributed"),
                "energy": figure(1.7e-3, "J", "modelled"),
            },
            "idle": {
                "time": figure(0.0, "s", "attributed"),
                "energy": figure(0.0, "J", "modelled"),
            },
            "data": {
                "time": figure(0.144e-3, "s", "attributed"),
                "energy": figure(0.31e-3, "J", "modelled"),
            },
        },
        "energy_by_rail": {"cpu": figure(11.1e-3, "J", "modelled"), "memory": missing("J")},
        "missing": [
            {"what": "RAPL energy", "reason": NO_RAPL},
            {"what": "GPU", "reason": "no NVIDIA driver: /proc/driver/nvidia is not there"},
            {"what": "Temperature", "reason": "no /sys/class/thermal/thermal_zone*"},
        ],
        "recording": {
            "sampler_cpu_share": figure(0.0123, "ratio"),
            "ticks": figure(1234, "count", "counted"),
            "lateness_p99": figure(118e-6, "s"),
            "late_or_lost": figure(0, "count", "counted"),
            "interval": "10 ms",
            "scheduling": "own session, short slice",
            "mark_cost": figure(1.3e-6, "s"),
            "trace windows": figure(12, "count", "counted"),
            "disk": figure(3.2e6, "B", "counted"),
        },
        "environment": {"python": "3.11.7", "torch": "2.13.0", "OMP_NUM_THREADS": "1"},
        "channels": [
            _channel("cpu0.busy_time", "s", "counter", "cpu", "busy_time", "/proc/stat", 0.01003),
            _channel("cpu1.busy_time", "s", "counter", "cpu", "busy_time", "/proc/stat", 0.01003),
            _channel("process.rss", "B", "gauge", "process", "resident_memory", "statm", 0.0101),
            _channel("battery.power", "W", "gauge", "battery", "power", "power_supply", None),
        ],
        **changes,
    }


def _metrics() -> dict[str, Any]:
    return {
        "step_time": figure(3.41e-3, "s", "measured", 3.30e-3, 3.52e-3),
        "throughput": figure(1172.6, "samples/s", "measured", 1136.2, 1212.4),
        "cpu_utilization": figure(0.934, "ratio", "measured", 0.92, 0.951),
        "cpu_core_utilization": [figure(0.981, "ratio"), figure(0.0415, "ratio")],
        "idle_state_ratio": [
            figure(0.01, "ratio", reason="window 10 ms"),
            figure(0.94, "ratio", reason="window 10 ms"),
        ],
        "gpu_utilization": missing("ratio", "no GPU was found"),
        "peak_memory": figure(212.4e6, "B"),
        "system_peak_memory": figure(1.83e9, "B"),
        "energy_per_step": figure(14.2e-3, "J", "modelled", 12.1e-3, 16.9e-3, systematic=0.2),
        "energy_per_sample": figure(3.55e-3, "J", "modelled", 3.03e-3, 4.23e-3, systematic=0.2),
        "mean_power": missing("W"),
        "memory_breakdown": {
            "weights": figure(246.8e3, "B", "counted"),
            "gradients": figure(246.8e3, "B", "counted"),
            "activations": figure(1.9e6, "B", "modelled"),
            "framework": figure(181e6, "B"),
            "optimizer state": missing("B", "the optimizer was not seen"),
        },
        "recording_overhead": figure(0.0081, "ratio", "measured", 0.002, 0.0142),
        "trace_inflation": figure(1.404, "ratio", "measured", 1.38, 1.43),
        "correction_residual": figure(-0.021, "ratio"),
        "steal": figure(0.0034, "ratio"),
        "other_cpu": figure(0.012, "ratio"),
        "something_new": figure(42.125, "widgets", "replayed"),
    }


def _channel(
    name: str, unit: str, kind: str, domain: str, role: str, source: str, interval: float | None
) -> dict[str, Any]:
    return {
        "name": name,
        "unit": unit,
        "kind": kind,
        "domain": domain,
        "role": role,
        "source": source,
        "update_interval": interval,
        "samples": 1234,
    }


def timeline(**changes: Any) -> dict[str, Any]:
    steps, start = [], 0.0
    for index, traced in ((40, False), (41, True), (42, False)):
        length = 4.79e-3 if traced else 3.41e-3
        ends = [start + share * length for share in (0.06, 0.34, 0.9, 0.97)]
        steps.append(
            {
                "index": index,
                "start": start,
                "end": start + length,
                "traced": traced,
                "phases": [
                    {"name": name, "start": begin, "end": end}
                    for name, begin, end in zip(
                        ("forward", "backward", "optimizer"), ends, ends[1:], strict=False
                    )
                ],
            }
        )
        start += length + 0.1e-3
    times = [start * i / 29 for i in range(30)]
    return {
        "steps": steps,
        "channels": [
            _series("cpu0.utilization", "ratio", "utilization", 0, times, 0.93, 0.07),
            _series("cpu1.utilization", "ratio", "utilization", 1, times, 0.06, 0.05),
            _series("process.cpu", "ratio", "process_cpu", None, times, 0.95, 0.05),
            _series("process.rss", "B", "resident_memory", None, times, 209e6, 3e6),
            {
                **_series("model.power", "W", "power", None, times, 4.1, 0.6),
                "status": "modelled",
            },
        ],
        "operations": _operations(steps[1]),
        "note": "Steps 40 to 42 of 130.",
        **changes,
    }


def _series(
    name: str, unit: str, role: str, core: int | None, times: list[float], mean: float, swing: float
) -> dict[str, Any]:
    points = [[t, mean + swing * math.sin(1.7 * i)] for i, t in enumerate(times)]
    points[12][1] = None  # type: ignore[call-overload]
    return {"name": name, "unit": unit, "role": role, "core": core, "points": points}


def _operations(step: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for phase, thread, names in (
        (step["phases"][0], 1, ("conv1", "pool1", "conv2", "fc1", HOSTILE_LAYER)),
        (step["phases"][1], 2, ("fc1", "conv2", "pool1", "conv1")),
        (step["phases"][2], 1, ("",)),
    ):
        width = (phase["end"] - phase["start"]) / len(names)
        for i, layer in enumerate(names):
            start = phase["start"] + i * width
            for depth, share in ((0, 0.96), (1, 0.8)):
                name = HOSTILE if layer == HOSTILE_LAYER else f"aten::{layer or 'add_'}_{depth}"
                found.append(
                    {
                        "name": name,
                        "layer": layer,
                        "phase": phase["name"],
                        "thread": thread,
                        "depth": depth,
                        "start": start,
                        "end": start + share * width,
                    }
                )
    return found


def report(document: Mapping[str, Any]) -> RunReport:
    """A document as reports take it."""
    return RunReport.from_dict(document)


def reported(document: Mapping[str, Any], timeline: Any = None, **more: Any) -> Reported:
    """What a page is told of a run with this document, and a timeline or the JSON of one."""
    if isinstance(timeline, ThreeSteps):
        return Reported(report=report(document), three_steps=timeline, **more)
    if isinstance(timeline, Mapping):
        return Reported(report=report(document), three_steps=three_steps(**timeline), **more)
    return Reported(report=report(document), timeline=timeline, **more)


def three_steps(**changes: Any) -> ThreeSteps:
    """`timeline` as a run gives it, without operations."""
    document = timeline(**changes)
    return ThreeSteps(
        steps=tuple(
            ShownStep(**{**step, "phases": tuple(ShownPhase(**p) for p in step["phases"])})
            for step in document["steps"]
        ),
        channels=tuple(
            ShownChannel(**{"status": "measured", "domain": "", **channel})
            for channel in document["channels"]
        ),
    )
