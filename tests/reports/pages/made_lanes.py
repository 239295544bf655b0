"""A whole run made by hand, with known answers: steps of 50 ms, power, a core, operations."""

from __future__ import annotations

import numpy as np
from tests.reports.synthetic import HOSTILE, HOSTILE_LAYER

from wattstep.attribution.tables.naming import Names
from wattstep.run.lanes import Lane, OperationLanes, StepLane
from wattstep.run.timeline import Timeline

BASE = 10**15
MS = 1_000_000
STEP = 50 * MS


def lanes(
    steps: int = 10_000, each: int = 4, samples: int = 20_000, name: str = "aten::mm"
) -> Timeline:
    """Every tenth step is traced, with so many operations of 10 ms in a row.

    Power at sample n is 5 + n % 100 / 100 W, each sample a whole share of the run apart; the core
    is half busy; steps 100 to 109 were throttled, 200 to 204 disturbed.
    """
    index = np.arange(steps)
    start = BASE + index * STEP
    phases = np.repeat(index, 2)
    traced = index % 10 == 5
    begins = np.repeat(start[traced], each) + np.tile(np.arange(each) * 10 * MS, traced.sum())
    t_ns = BASE + np.arange(samples, dtype=np.int64) * (steps * STEP // samples)
    return Timeline(
        base_ns=BASE,
        steps=StepLane(
            index=index,
            start_ns=start,
            end_ns=start + STEP - MS,
            traced=traced,
            warmup=index < 3,
            clean=~traced & (index >= 3) & ~np.append(False, traced[:-1]),
            throttled=(index >= 100) & (index < 110),
            disturbed=(index >= 200) & (index < 205),
            phase_step=phases,
            phase_ns=start[phases] + np.tile([0, 20 * MS], steps),
            phase=Names(
                code=np.tile([0, 1], steps), texts=np.array(["forward", "backward"], dtype=object)
            ),
        ),
        channels=[
            _lane("core 0 busy", "Processor", "ratio", True, t_ns, np.full(samples, 0.5)),
            _lane("power", "Power", "W", False, t_ns, 5 + np.arange(samples) % 100 / 100),
            _lane(HOSTILE, "Power", "W", False, t_ns, np.full(samples, 1.0), "modelled"),
        ],
        operations=OperationLanes(
            start_ns=begins,
            end_ns=begins + 9 * MS,
            row=np.zeros(len(begins), np.int64),
            rows=[(1, 0)],
            label=np.arange(len(begins)) % 2,
            labels=[(name, "fc1", "forward"), (HOSTILE, HOSTILE_LAYER, "backward")],
            window=np.repeat(np.arange(int(traced.sum())), each),
        ),
        interval_s=0.01,
        notes=("a note of the run",),
    )


def _lane(
    name: str,
    group: str,
    unit: str,
    held: bool,
    t_ns: np.ndarray,
    value: np.ndarray,
    status: str = "measured",
) -> Lane:
    return Lane(
        name=name, group=group, unit=unit, status=status, source="made", held=held, t_ns=t_ns,
        value=value,
    )  # fmt: skip
