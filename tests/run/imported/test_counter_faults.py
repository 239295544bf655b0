"""What goes wrong with counters of energy in logs, each with the energy that was drawn: held by its figures, or told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.refusals import refused
from tests.wording import assert_says, saying

from wattstep.importing.importer import ImportSettings, import_run
from wattstep.run import Run, load
from wattstep.schema.figure import Figure

N = 601  # rows, one a second
ROWS = range(N)
COUNTED = [5.0 * n for n in ROWS]  # 5 W: 3,000 J in 600 s
LIFE = 1e6  # J that a counter has counted before the log
NEAR = 0.005  # of what was drawn: rounding, noise, when a row was written
Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class Log:
    """A log of a counter.

    Attributes:
        counter: A cell a row, in J.
        says: What a note on its figures has in it.
        holds: Whether the intervals of energy and of power hold what was drawn; where they do not,
            the note alone says that the figure may be off.
        joules: That were drawn.
        seconds: In how long.
        times: Of the rows in s.
        holes: From row to row, none between.
        power: 6 W and 4 W by turns beside it.
    """

    counter: Sequence[float]
    says: tuple[object, ...] = ()
    holds: tuple[bool, bool] = (True, True)
    joules: float = 3000.0
    seconds: float = 600.0
    times: Sequence[float] = ROWS
    holes: Spans = ()
    power: bool = False

    def read(self, folder: Path) -> Run:
        path = folder / "log.csv"
        rows = [
            f"{self.times[n]:g},{cell:.6f}" + ("," + "46"[n % 2]) * self.power
            for n, cell in enumerate(self.counter)
            if not any(begin < n < end for begin, end in self.holes)
        ]
        header = "t_s,energy [J]" + ",power [W]" * self.power
        path.write_text("\n".join([header, *rows]) + "\n")
        return load(import_run(ImportSettings(telemetry=(path,), find_steps=False), folder / "run"))


def wrapping(width: float, first: float = 0.0, watts: float = 5.0) -> list[float]:
    return [(first + watts * n) % width for n in ROWS]


def reset(at: int) -> list[float]:
    """Begins again from 0 half a second before a row."""
    return [5.0 * n if n < at else 5.0 * (n - at) + 2.5 for n in ROWS]


def stuck(spans: Spans, steps: Sequence[float] = (5.0,), before: float = 0.0) -> list[float]:
    """Goes on by the steps in turn, and loses those from row to row."""
    total = [before]
    for n in ROWS[1:]:
        lost = any(begin < n <= end for begin, end in spans)
        total.append(total[-1] + steps[n % len(steps)] * (not lost))
    return total


FAULTS: Mapping[str, Log] = {
    "wrap at 1,000 J": Log(counter=wrapping(1000), says=("went back", "3 times", "3 s")),
    "wrap at 32 bit of microjoules": Log(
        counter=wrapping(2**32 * 1e-6, 4000), says=("went back", "1 times", "1 s")
    ),
    "wrap at 24 bit of microjoules, every third row": Log(
        counter=wrapping(2**24 * 1e-6), says=("no counter",)
    ),
    "wraps between any two rows": Log(
        counter=wrapping(16, watts=50.0), joules=30_000.0, says=("went back",), holds=(False, False)
    ),
    "wrap in a hole, lower behind it": Log(
        counter=wrapping(3500, 2000), holes=[(250, 350)], says=("went back", "100 s")
    ),
    "wrap in a hole, higher behind it": Log(
        counter=wrapping(2100), holes=[(20, 460)], says=("100 J", "440 s", "2,200 J", "again")
    ),
    "two wraps in a hole": Log(
        counter=wrapping(1050), holes=[(20, 460)], says=("100 J", "440 s", "2,200 J", "again")
    ),
    "reset in a hole": Log(
        counter=reset(102), holes=[(100, 400)], says=("992 J", "300 s", "1,500 J", "again")
    ),
    "reset in a hole of all columns": Log(
        counter=reset(102), holes=[(100, 400)], power=True, says=("300 s", "again")
    ),
    "reset early in a hole": Log(
        counter=reset(12), holes=[(10, 590)], says=("580 s", "2,900 J", "again"), holds=(False, False)
    ),
    "reset in a hole, lower behind it": Log(
        counter=reset(402), holes=[(400, 500)], says=("went back", "100 s")
    ),
    "stuck in a hole": Log(
        counter=stuck([(200, 300)], before=LIFE), holes=[(200, 301)],
        says=("5 J", "101 s", "505 J", "stuck"), holds=(False, True),
    ),
    "stuck in a hole but for a step": Log(
        counter=stuck([(201, 300)], before=LIFE), holes=[(200, 300)],
        says=("5 J", "100 s", "500 J", "stuck"), holds=(False, True),
    ),
    "stuck beside a hole of hours": Log(
        counter=[cell + 50_000 * (n > 400) for n, cell in enumerate(stuck([(100, 200)]))],
        times=[n + 10_000 * (n > 400) for n in ROWS], joules=53_000.0, seconds=10_600.0,
        says=("stood still", "100 s"),
    ),
    "stuck twice, its smallest step between": Log(
        counter=stuck([(100, 200), (201, 300)]), says=("stood still", "199 s"), holds=(False, True)
    ),
    "stuck twice from the first row on": Log(
        counter=stuck([(0, 100), (101, 200)]), says=("stood still", "199 s"), holds=(False, True)
    ),
    "stuck three times": Log(
        counter=stuck([(100, 200), (201, 300), (301, 400)]), says=("stood still",),
        holds=(False, False),
    ),
    "stuck for 8 s, time and again": Log(
        counter=stuck([(n, n + 8) for n in range(20, 520, 25)], steps=(0.5, 9.5)),
        says=("stood still", "160 s"), holds=(False, False),
    ),
    "stuck at the end of its range": Log(
        counter=[min(cell, 1000.0) for cell in COUNTED], says=("stood still", "400 s")
    ),
    "first read of 0 before the count of a lifetime": Log(
        counter=[(n > 0) * LIFE / 10 + cell for n, cell in enumerate(COUNTED)],
        says=("1 times", "100,000 J"),
    ),
    "leap by a tenth": Log(
        counter=[cell + 300 * (n > 300) for n, cell in enumerate(COUNTED)],
        says=("1 times", "305 J"), holds=(False, True),
    ),
    "other unit from the middle on": Log(
        counter=[cell * (1000 if n > 300 else 1) for n, cell in enumerate(COUNTED)],
        says=("megawatt",), holds=(False, False),
    ),
    "falls of a noisy counter": Log(
        counter=[300 + cell + (n * 7919 % 41 - 20) / 5 for n, cell in enumerate(COUNTED)],
        says=("below", "energy"),
    ),
    "hundreds of joules from the middle on": Log(
        counter=[cell if n < 300 else cell // 100 * 100 for n, cell in enumerate(COUNTED)]
    ),
    "clock set forward": Log(
        counter=COUNTED, times=[n + 600 * (n > 300) for n in ROWS],
        says=("5 J", "601 s", "clock"),
    ),
    "clock set forward, counter of a lifetime": Log(
        counter=[LIFE + cell for cell in COUNTED], times=[n + 600 * (n > 300) for n in ROWS],
        says=("5 J", "601 s", "clock"), holds=(True, False),
    ),
    "thousandth of what power says": Log(
        counter=[cell / 1000 for cell in COUNTED], power=True, says=("contradict", "milli")
    ),
}  # fmt: skip

# Without a note, and as exact as they are.
HONEST: Mapping[str, Log] = {
    "even": Log(counter=COUNTED, holes=[(50, 70), (100, 400)]),
    "long hole after a few rows": Log(counter=COUNTED, holes=[(12, 590)]),
    "counter of a lifetime": Log(counter=[LIFE + cell for cell in COUNTED], holes=[(12, 590)]),
    "every row twice": Log(
        counter=[5.0 * (n // 2) for n in range(2 * N)], times=[n // 2 for n in range(2 * N)]
    ),
    "steps of 0.5 J and 9.5 J by turns": Log(
        counter=stuck([], steps=(0.5, 9.5)), holes=[(50, 70), (100, 400)]
    ),
    "three times as much for a minute": Log(
        counter=[cell + 10 * min(max(n - 100, 0), 60) for n, cell in enumerate(COUNTED)],
        joules=3600.0, holes=[(110, 120), (300, 400)],
    ),
    "a second of nine times as much": Log(
        counter=[cell + 40 * (n > 300) for n, cell in enumerate(COUNTED)], joules=3040.0
    ),
}  # fmt: skip


def held(figure: Figure, truth: float) -> bool:
    """True if a figure's interval, or the figure that has none, holds a truth; what is missing says nothing wrong."""
    if figure.value is None:
        return True
    low = figure.value if figure.low is None else figure.low
    high = figure.value if figure.high is None else figure.high
    return low - NEAR * truth <= truth <= high + NEAR * truth


@pytest.mark.parametrize("name", FAULTS)
def test_faults(tmp_path: Path, name: str) -> None:
    log = FAULTS[name]
    run = log.read(tmp_path)
    energy, power = run.metrics["recorded_energy"], run.metrics["mean_power"]
    assert (held(energy, log.joules), held(power, log.joules / log.seconds)) == log.holds
    assert not log.says or saying(run.document()["status_notes"], *log.says)
    for figure in (energy, power):
        if not figure.missing:
            assert_says(figure.reason, *log.says)


@pytest.mark.parametrize("name", HONEST)
def test_honest_logs(tmp_path: Path, name: str) -> None:
    log = HONEST[name]
    energy = log.read(tmp_path).metrics["recorded_energy"]
    assert energy.value == pytest.approx(log.joules)
    assert (energy.low, energy.high, energy.reason) == (None, None, None)


@pytest.mark.parametrize(
    "order",
    [
        [*ROWS[:100], 101, 100, *ROWS[102:]],  # two rows changed places
        [*ROWS[:300], *ROWS[200:]],  # a block is there twice
        [*ROWS[:300], *(n - 60 for n in ROWS[300:])],  # the clock was set back
    ],
)
def test_times_that_go_back(tmp_path: Path, order: Sequence[int]) -> None:
    with refused("unreadable-telemetry", "time"):
        Log(counter=[5.0 * n for n in order], times=order).read(tmp_path)


@pytest.mark.parametrize("first", [0.0, LIFE])
def test_a_pause_of_low_power(tmp_path: Path, first: float) -> None:
    """1 W in a hole of 100 s, after 200 s of 5 W: told, and the energy as exact as it is."""
    counter = [first + cell - 4 * min(max(n - 200, 0), 100) for n, cell in enumerate(COUNTED)]
    run = Log(counter=counter, holes=[(200, 300)]).read(tmp_path)
    energy = run.metrics["recorded_energy"]
    assert energy.value == pytest.approx(2600)
    assert (energy.low, energy.high) == (None, None)
    assert saying(run.document()["status_notes"], "100 J", "100 s", "500 J", "less was drawn")


def test_a_few_stretches_of_low_load(tmp_path: Path) -> None:
    """20 W in steps of 20 J, and 0.5 W for 90 s: two long stretches, one step between; told, and as exact."""
    counter = [
        20.0 * n if n <= 200 else 4000 + (n - 200) // 40 * 20 if n <= 290 else 20 * (n - 88)
        for n in ROWS
    ]
    run = Log(counter=counter).read(tmp_path)
    energy = run.metrics["recorded_energy"]
    assert energy.value == pytest.approx(4000 + 40 + 20 * 310)
    assert (energy.low, energy.high) == (None, None)
    assert saying(run.document()["status_notes"], "stood still", "78 s", "hardly anything")


@pytest.mark.parametrize("every", [20, 32])
def test_mean_power_of_a_slow_counter(tmp_path: Path, every: int) -> None:
    """Behind by up to a step at the end: 576 s of 600 s, and 600 s of them."""
    counter = [COUNTED[n // every * every] for n in ROWS]
    power = Log(counter=counter).read(tmp_path).metrics["mean_power"]
    assert power.value == pytest.approx(counter[-1] / 600)
    assert power.low == pytest.approx((counter[-1] - 5 * every) / 600)
    assert power.high == pytest.approx((counter[-1] + 5 * every) / 600)
