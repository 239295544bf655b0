"""What the campaign of truths is about: sensors and programs at random, and cases by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from truth_programs import Program, Row, sequence_of
from truth_random import between, random_program, traced_steps
from truth_sensors import Sensor

LONGEST_STALL_S = 10.0
Rng = np.random.Generator

# --- sensors at random ---------------------------------------------------------------------------


def worn(sensor: Sensor, rng: Rng) -> Sensor:
    """The same with what real ones have: delay, ticks that are not even, noise, rounding."""
    counter = sensor.way == "counter"
    noise = float(rng.choice([0.0, 0.002, 0.01, 0.05]))
    return replace(
        sensor,
        delay_s=float(rng.choice([0.0, rng.uniform(0, 0.02)])),
        dither=float(rng.choice([0.01, 0.05])),
        late=float(rng.choice([0.0, 0.01])),
        unsteady=float(rng.choice([0.0, 0.002, 0.01])),
        noise=min(noise, 0.01) if counter else noise,
        quantum=sensor.quantum if counter else between(rng, 1e-3, 0.5),
    )


def freely(rng: Rng, window_s: float) -> float:
    """New values by the sensor's own clock, or whenever it is read (0)."""
    return window_s if rng.random() < 0.5 else 0.0


def averaging(rng: Rng, window_s: float, read_s: float = 0.010, **more: Any) -> Sensor:
    refresh = freely(rng, max(window_s, read_s)) if window_s >= read_s else 0.0
    return worn(Sensor(window_s=window_s, read_s=read_s, refresh_s=refresh, **more), rng)


def counter(rng: Rng, refresh_s: float, quantum: float, documented: bool) -> Sensor:
    sensor = Sensor(
        way="counter", refresh_s=refresh_s, quantum=quantum, documented=documented, window_s=0
    )
    return worn(sensor, rng)


def instant(rng: Rng, least_s: float, most_s: float) -> Sensor:
    refresh = between(rng, least_s, most_s)
    read = 0.001 if refresh < 0.01 and rng.random() < 0.5 else 0.010
    return worn(Sensor(way="instant", refresh_s=refresh, read_s=read, documented=False), rng)


def hidden(rng: Rng) -> Sensor:
    """Averages over what it does not say, at its own pace, a fraction of that, or at each read."""
    window = between(rng, 0.010, 0.200)
    refresh = float(rng.choice([0.0, window, max(window / 4, 0.005)]))
    return worn(Sensor(window_s=window, refresh_s=refresh, documented=False), rng)


def smoothing(rng: Rng) -> Sensor:
    constant = between(rng, 0.005, 0.200)
    documented = bool(rng.random() < 0.3)
    return worn(Sensor(way="exponential", window_s=constant, documented=documented), rng)


def usual(rng: Rng) -> Sensor:
    """One of those that a program's own oddities are looked at with."""
    return SENSORS[str(rng.choice(["average 10 ms", "average 100 ms", "counter 1 ms"]))](rng)


SENSORS: dict[str, Callable[[Rng], Sensor]] = {
    "average 10 ms": lambda rng: averaging(rng, 0.010),
    "average 100 ms": lambda rng: averaging(rng, 0.100),
    "average 30 ms, read every 10 ms": lambda rng: averaging(rng, 0.030),
    "average 2 ms, read every 10 ms": lambda rng: averaging(rng, 0.002),
    "instant, new every 1 to 20 ms": lambda rng: instant(rng, 0.001, 0.020),
    "instant, new every 20 ms to 1 s": lambda rng: instant(rng, 0.020, 1.0),
    "hidden average of 10 to 200 ms": hidden,
    "1 Hz": lambda rng: worn(
        Sensor(
            way=str(rng.choice(["average", "instant"])), window_s=1.0, refresh_s=1.0,  # type: ignore[arg-type]
            documented=False,
        ), rng,
    ),
    "constant": lambda rng: replace(worn(Sensor(documented=False), rng), constant=True),
    "counter 1 ms": lambda rng: counter(rng, 0.001, 61e-6, True),
    "counter 1 ms, undocumented": lambda rng: counter(rng, 0.001, 61e-6, False),
    "counter 100 ms": lambda rng: counter(rng, 0.100, 1e-3, True),
    "counter 100 ms, undocumented": lambda rng: counter(rng, 0.100, 1e-3, False),
    "clipped": lambda rng: replace(
        averaging(rng, 0.010, documented=bool(rng.random() < 0.5)), clip=rng.uniform(0.7, 0.95)
    ),
    "exponential": smoothing,
    "one sample of 1 GW": lambda rng: replace(averaging(rng, 0.010), outlier=True),
}  # fmt: skip


# --- programs that are odd -----------------------------------------------------------------------


def carrying(program: Program, rng: Rng) -> Program:
    named = [row.name != "" for row in program.rows]
    items = program.kinds[0]
    typical = float(np.median(items.seconds[[named[row] for row in items.row]]))
    return replace(program, carried_s=between(rng, 0.1, 1.0) * typical, ramp=0.0)


def drifting(program: Program, rng: Rng) -> Program:
    return replace(program, drift=rng.uniform(0.02, 0.10), warming=between(rng, 0.1, 1.0))


def preempted(program: Program, rng: Rng) -> Program:
    traced = program.traced[: int(rng.integers(2, 8))] if rng.random() < 0.5 else program.traced
    step_s = float(program.kinds[0].seconds.sum())
    return replace(program, traced=traced, stall=min(between(rng, 2, 60), LONGEST_STALL_S / step_s))


PROGRAMS: dict[str, tuple[int, Callable[[Program, Rng], Program]]] = {
    "power carried over": (1, carrying),
    "drift": (1, drifting),
    "two kinds of steps": (2, lambda program, _: program),
    "one traced step preempted": (1, preempted),
}
SCENARIOS = (*SENSORS, *PROGRAMS)

# --- named cases ---------------------------------------------------------------------------------


def in_turn(
    watts: Sequence[float], seconds: Sequence[float], rng: Rng, record_s: float = 60.0, **more: Any
) -> Program:
    """Operations one after another, the first half of them forward, the others backward."""
    count = len(watts)
    phases = ("forward", "backward")
    rows = tuple(
        Row(name=f"op{n}", kind="other", layer=f"layer{n}", phase=phases[2 * n // count])
        for n in range(count)
    )
    rests = tuple(Row(phase=phase) for phase in phases)
    items = []
    for n in range(count):
        turn = 2 * n // count
        items += [(n, turn, seconds[n], watts[n]), (count + turn, turn, 2e-5, min(watts))]
    steps = int(np.clip(record_s / sum(seconds), 60, 3000))
    settings = {"jitter": 0.01, "speed": 0.005, "base_watts": min(watts), **more}
    return Program(
        rows=(*rows, *rests), phases=phases, kinds=(sequence_of(items),), steps=steps,
        traced=traced_steps(rng, steps), **settings,
    )  # fmt: skip


def pair(seconds: float, sensor: Sensor) -> Callable[[Rng], tuple[Program, Sensor]]:
    """10 and 2 W in turn."""
    return lambda rng: (in_turn((10.0, 2.0), (seconds, seconds), rng), sensor)


def seventeen(rng: Rng) -> tuple[Program, Sensor]:
    watts, seconds = rng.uniform(2, 10, 17), np.exp(rng.uniform(np.log(0.001), np.log(0.2), 17))
    sensor = Sensor(documented=False, constant=True)
    return in_turn(watts.tolist(), seconds.tolist(), rng), sensor


AVERAGE = Sensor()
NAMED: dict[str, Callable[[Rng], tuple[Program, Sensor]]] = {
    "10 ms, operations of 20 ms": pair(0.020, AVERAGE),
    "10 ms, operations of 50 ms": pair(0.050, AVERAGE),
    "10 ms, operations of 200 ms": pair(0.200, AVERAGE),
    "100 ms, operations of 150 ms": pair(0.150, replace(AVERAGE, window_s=0.1, read_s=0.1)),
    "10 ms late by 5 ms, operations of 20 ms": pair(0.020, replace(AVERAGE, delay_s=0.005)),
    "1 Hz, operations of 4 ms": pair(
        0.004, Sensor(way="instant", refresh_s=1.0, documented=False, noise=0.01)
    ),
    "constant, 17 operations": seventeen,
}  # fmt: skip


# --- one of them ---------------------------------------------------------------------------------


def made(part: str, name: str, seed: int) -> tuple[Program, Sensor, Rng]:
    """The same for the same seed, whatever else runs."""
    known = list(NAMED if part == "named" else SCENARIOS)
    rng = np.random.default_rng([seed, known.index(name), len(part)])
    if part == "named":
        return *NAMED[name](rng), rng
    networks, changed = PROGRAMS.get(name, (1, lambda program, _: program))
    sensor = SENSORS.get(name, usual)(rng)
    program = random_program(rng, sensor.resolved_s, networks)
    if name not in PROGRAMS and rng.random() < 0.3:
        program = drifting(program, rng)
    return changed(program, rng), sensor, rng
