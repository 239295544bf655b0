"""A program that ran, written as other tools would: a Kineto trace of all its steps and a log of power."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from truth_programs import REST, Happened, Program, Row, sequence_of
from truth_random import between
from truth_sensors import Sensor
from wattstep.importing.importer import ImportSettings, import_run

Array = np.ndarray[Any, Any]
Rng = np.random.Generator
BEGIN_NS = 1_750_000_000_000_000_000  # since 1970, as Kineto counts
EXACTLY = "offset:0.00000,rate=1"
LAYERS = (  # module, its function and what undoes it, kind
    ("conv", "aten::conv2d", "ConvolutionBackward0", "convolution"),
    ("fc", "aten::linear", "AddmmBackward0", "matrix product"),
    ("act", "aten::relu", "ReluBackward0", "activation"),
    ("norm", "aten::batch_norm", "NativeBatchNormBackward0", "normalization"),
    ("pool", "aten::max_pool2d", "MaxPool2DWithIndicesBackward0", "pooling"),
    ("soft", "aten::softmax", "SoftmaxBackward0", "loss"),
)
UPDATES = ("aten::_foreach_add_", "aten::_foreach_mul_", "aten::_foreach_addcdiv_")
NO_LAYER = "(no single layer)"


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is imported.

    Attributes:
        sensor: What the log is of.
        low_s: Least length of an operation.
        high_s: Most.
        steps: How many.
        align: As `wattstep import --align` takes it.
        off_s: How far the log's clock may truly be off, either way.
        rate: By how much it may truly run fast or slow.
        changed: What else is odd about the program.
    """

    sensor: Sensor
    low_s: float = 0.002
    high_s: float = 0.03
    steps: int = 120
    align: str = EXACTLY
    off_s: float = 0.0
    rate: float = 0.0
    changed: tuple[tuple[str, float], ...] = ()


AVERAGE = Sensor(documented=False, dither=0.0)
INSTANT = replace(AVERAGE, way="instant")
CASES: dict[str, Case] = {
    "average 10 ms": Case(sensor=AVERAGE),
    "average 10 ms, late by 20 ms": Case(sensor=replace(AVERAGE, delay_s=0.02)),
    "average 100 ms": Case(sensor=replace(AVERAGE, window_s=0.1, read_s=0.1)),
    "average 100 ms, read every 10 ms": Case(sensor=replace(AVERAGE, window_s=0.1)),
    "instant 10 ms": Case(sensor=INSTANT),
    "instant, new every 100 ms": Case(sensor=replace(INSTANT, refresh_s=0.1)),
    "1 Hz": Case(sensor=replace(AVERAGE, window_s=1.0, read_s=1.0)),
    "counter 10 ms": Case(sensor=replace(AVERAGE, way="counter", quantum=61e-6)),
    "exponential 50 ms": Case(sensor=replace(AVERAGE, way="exponential", window_s=0.05)),
    "noise 3 %, steps of 0.5 W": Case(sensor=replace(AVERAGE, noise=0.03, quantum=0.5)),
    "long operations": Case(sensor=AVERAGE, low_s=0.05, high_s=0.4, steps=40),
    "long operations, 100 ms": Case(
        sensor=replace(AVERAGE, window_s=0.1, read_s=0.1), low_s=0.05, high_s=0.4, steps=40
    ),
    "warming": Case(sensor=AVERAGE, changed=(("drift", 0.3),)),
    "power varies": Case(sensor=AVERAGE, changed=(("power_noise", 0.03), ("ramp", 0.3))),
    "power carried over": Case(sensor=AVERAGE, changed=(("carried_s", 0.005),)),
    "wall clocks": Case(sensor=AVERAGE, align="wall", off_s=0.05),
    "offset to 10 ms": Case(sensor=AVERAGE, align="offset:0.00,rate=1", off_s=0.005),
    "rate not stated": Case(sensor=AVERAGE, align="offset:0.0000", rate=5e-5),
    "rate not stated, 4 min": Case(
        sensor=AVERAGE, steps=1500, align="offset:0.0000", rate=1e-4
    ),
    "by load": Case(sensor=AVERAGE, align="load", off_s=0.05, changed=(("pauses", 0.1),)),
    "instant, new every 100 ms, pauses": Case(
        sensor=replace(INSTANT, refresh_s=0.1), changed=(("pauses", 0.02),)
    ),
    "average 100 ms, pauses": Case(
        sensor=replace(AVERAGE, window_s=0.1, read_s=0.1), changed=(("pauses", 0.02),)
    ),
}  # fmt: skip


def case_of(name: str, seed: int) -> tuple[Program, Case, Rng]:
    """The same for the same seed, whatever else runs."""
    rng = np.random.default_rng([seed, list(CASES).index(name), 1313])
    case = CASES[name]
    return _program(case, rng), case, rng


def _program(case: Case, rng: Rng) -> Program:
    """Three to six layers, forward, backward, and one to three updates of parameters."""
    count = int(rng.integers(3, len(LAYERS) + 1))
    layers = [LAYERS[n] for n in sorted(rng.choice(len(LAYERS), count, replace=False))]
    rows = [Row(name=f, kind=kind, layer=layer, phase="forward") for layer, f, _, kind in layers]
    rows += [
        Row(name=back, kind=kind, layer=layer, phase="backward")
        for layer, _, back, kind in reversed(layers)
    ]
    rows += [
        Row(name=name, kind="optimizer", layer=NO_LAYER, phase="optimizer")
        for name in UPDATES[: int(rng.integers(1, len(UPDATES) + 1))]
    ]
    rest, base = len(rows), rng.uniform(2, 4)
    rows.append(Row(phase=REST))
    items = [(rest, 0, 3e-4, base)]
    for n in range(rest):
        seconds = between(rng, case.low_s, case.high_s)
        items += [(n, 0, seconds, rng.uniform(4, 20)), (rest, 0, 3e-4, base)]
    changed = dict(case.changed)
    between_s = changed.pop("pauses", 0.003)
    return Program(
        rows=tuple(rows), phases=("step",), kinds=(sequence_of(items),), steps=case.steps, traced=(),
        jitter=float(rng.choice([0.01, 0.05, 0.1])), speed=0.02, base_watts=base,
        between_s=between_s, settling=0.0, **changed,  # type: ignore[arg-type]
    )  # fmt: skip


def all_traced(happened: Happened) -> Happened:
    """The same with every step traced, and figures of all of them."""
    edges = np.stack([step.edges_ns for step in happened.steps])
    row = happened.program.kinds[0].row
    lasted = np.diff(edges, axis=1).mean(axis=0) * 1e-9
    spent = np.diff(happened.curve.energy(edges * 1e-9), axis=1).mean(axis=0)
    count = len(happened.program.rows)
    seconds, joules = np.bincount(row, lasted, count), np.bincount(row, spent, count)
    ends = edges[[0, -1], [0, -1]] * 1e-9
    return replace(
        happened, steps=[replace(step, traced=True) for step in happened.steps], clean=0,
        seconds=seconds, joules=joules, step_seconds=float(seconds.sum()),
        step_joules=float(joules.sum()), expected_s=float(seconds.sum()),
        watts=float(np.diff(happened.curve.energy(ends))[0] / (ends[1] - ends[0])),
    )  # fmt: skip


def write(
    folder: Path, happened: Happened, case: Case, sampled: tuple[Array, Array], rng: Rng
) -> None:
    """Writes trace and log, and imports them as the run."""
    trace, log = folder.with_name("trace.json"), folder.with_name("power.csv")
    first = int(happened.steps[0].edges_ns[0])
    whole = {
        "schemaVersion": 1, "baseTimeNanoseconds": BEGIN_NS, "displayTimeUnit": "ms",
        "deviceProperties": [], "traceEvents": _events(happened),
    }  # fmt: skip
    trace.write_text(json.dumps(whole))
    read, value = sampled
    off, rate = rng.uniform(-case.off_s, case.off_s), rng.uniform(-case.rate, case.rate)
    at = read + off + rate * (read - first * 1e-9)
    unit = "energy [J]" if case.sensor.way == "counter" else "power [W]"
    lines = [f"{BEGIN_NS // 10**9 + t:.6f},{v:.6f}" for t, v in zip(at, value, strict=True)]
    log.write_text("\n".join([f"time_s,{unit}", *lines]) + "\n")
    import_run(ImportSettings(trace=trace, telemetry=(log,), align=case.align), folder)


def _events(happened: Happened) -> list[dict[str, Any]]:
    rows = happened.program.rows
    events: list[dict[str, Any]] = []

    def add(name: str, category: str, begin: float, end: float, thread: int, **args: Any) -> None:
        events.append(
            {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread,
             "ts": round(begin * 1e-3, 3), "dur": round((end - begin) * 1e-3, 3), "args": args}
        )  # fmt: skip

    number = 0
    for index, step in enumerate(happened.steps):
        edges, row_of = step.edges_ns, happened.program.kinds[step.kind].row
        add(f"ProfilerStep#{index}", "user_annotation", edges[0], edges[-1], 1)
        ran = [(rows[r], edges[n], edges[n + 1]) for n, r in enumerate(row_of) if rows[r].name]
        updates = [each for each in ran if each[0].phase == "optimizer"]
        add(
            "Optimizer.step#SGD.step",
            "user_annotation",
            updates[0][1] - 50e3,
            updates[-1][2] + 50e3,
            1,
        )
        forward: dict[str, int] = {}
        for row, begin, end in ran:
            number += 2
            own = {"External id": number}
            if row.phase == "forward":
                forward[row.layer] = number
                add(f"nn.Module: {row.layer}", "python_function", begin - 20e3, end + 20e3, 1,
                    **{"Python id": number})  # fmt: skip
                add(row.name, "cpu_op", begin, end, 1, **own, **_sequence(number, 0))
            elif row.phase == "backward":
                sequence = _sequence(forward[row.layer], 1)
                called = f"autograd::engine::evaluate_function: {row.name}"
                add(called, "cpu_op", begin, end, 2, **own, **sequence)
                add(row.name, "cpu_op", begin, end, 2, **{"External id": number + 1}, **sequence)
            else:
                add(row.name, "cpu_op", begin, end, 1, **own)
    events.sort(key=_place)
    return events


def _sequence(number: int, thread: int) -> dict[str, int]:
    return {"Sequence number": number, "Fwd thread id": thread}


def _place(event: dict[str, Any]) -> tuple[float, float]:
    return event["ts"], -event["dur"]
