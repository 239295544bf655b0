"""Counters of energy that are stuck for a part of a log, beside holes, resets and power; and honest ones that count seldom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.wording import assert_says, saying

from wattstep.importing.importer import ImportSettings, import_run
from wattstep.run import Run, load

N = 601  # rows, one a second
Spans = Sequence[tuple[int, int]]


def counted(stuck: Spans = (), every: int = 1, joules: int = 5) -> list[int]:
    """A counter of so many joules a second that loses what is drawn in (begin, end], and goes on every so many rows."""
    total = [0]
    for n in range(1, N):
        total.append(total[-1] + joules * (not any(begin < n <= end for begin, end in stuck)))
    return [total[n // every * every] for n in range(N)]


def log(folder: Path, counter: Sequence[object], *columns: str, holes: Spans = ()) -> Run:
    """A run of its log; in a hole (begin, end) are no rows.

    Args:
        folder: Where it is made.
        counter: A cell a second.
        columns: "power" beside it: 6 W and 4 W by turns, 5 W on the mean.
        holes: Of all columns.
    """
    path = folder / "log.csv"
    header = ",".join(["t_s", "energy [J]", *(f"{each} [W]" for each in columns)])
    rows = [
        ",".join([str(n), str(cell), *(["4" if n % 2 else "6"] * len(columns))])
        for n, cell in enumerate(counter)
        if not any(begin < n < end for begin, end in holes)
    ]
    path.write_text("\n".join([header, *rows]) + "\n")
    return load(import_run(ImportSettings(telemetry=(path,), find_steps=False), folder / "run"))


STUCK = pytest.mark.parametrize(
    ("stuck", "holes", "every"),
    [
        ([(0, 100)], [], 1),
        ([(250, 350)], [], 1),
        ([(500, 600)], [], 1),
        ([(250, 350)], [(400, 500)], 1),
        ([(500, 600)], [(100, 200)], 1),
        ([(500, 600)], [(400, 500)], 1),  # the hole ends where it was stuck
        ([(0, 100)], [(100, 200)], 1),
        ([(300, 600)], [(400, 500)], 1),
        ([(200, 300)], [(200, 300)], 1),  # it counted nothing in the hole alone
        ([(100, 150), (300, 390)], [(200, 240)], 1),
        ([(200, 290)], [(400, 450)], 10),
        ([(420, 600)], [(100, 200)], 60),
    ],
)


@STUCK
def test_a_stuck_counter_alone(tmp_path: Path, stuck: Spans, holes: Spans, every: int) -> None:
    """3,000 J in all: what it counted is the least of it, that time has no figure, and both are said."""
    counter = counted(stuck, every)
    run = log(tmp_path, counter, holes=holes)
    energy, power = run.metrics["recorded_energy"], run.metrics["mean_power"]
    assert energy.value == counter[-1]
    assert energy.low is not None
    assert energy.high is not None
    assert energy.low <= energy.value
    assert 3000.0 <= energy.high <= 3750.0
    assert_says(energy.reason, "stood still", f"every {every} s", "stuck")
    assert saying(run.document()["status_notes"], "energy", "stood still")
    assert power.low is not None
    assert power.high is not None
    assert power.low <= 5.0 <= power.high
    assert power.low <= counter[-1] / 600 <= power.high


@STUCK
def test_a_stuck_counter_beside_power(
    tmp_path: Path, stuck: Spans, holes: Spans, every: int
) -> None:
    """Power counts where it was read, and the contradiction is told; in a hole nothing is known."""
    run = log(tmp_path, counted(stuck, every), "power", holes=holes)
    energy, power = run.metrics["recorded_energy"], run.metrics["mean_power"]
    assert energy.low is not None
    assert energy.high is not None
    assert energy.low <= 3000.0 <= energy.high
    if holes == stuck:  # power says nothing of that time
        assert saying(run.document()["status_notes"], "stood still", "100 s")
        return
    assert energy.value == pytest.approx(3000 - 5 * sum(end - begin for begin, end in holes))
    assert power.value == pytest.approx(5.0, rel=0.01)
    assert saying(run.document()["status_notes"], "contradict", "of power")


def test_a_counter_that_is_stuck_under_even_power_and_is_reset_in_a_hole(tmp_path: Path) -> None:
    """50 W for 600 s: 30,000 J. It is stuck for 100 s, and starts again in a hole of 100 s."""
    counter = counted([(100, 200)], joules=50)
    path = tmp_path / "log.csv"
    rows = [
        f"{n},50,{counter[n] - (n >= 400) * counter[400]}" for n in range(N) if not 300 < n < 400
    ]
    path.write_text("\n".join(["t_s,power [W],energy [J]", *rows]) + "\n")
    run = load(import_run(ImportSettings(telemetry=(path,), find_steps=False), tmp_path / "run"))
    energy = run.metrics["recorded_energy"]
    assert (energy.value, energy.high) == pytest.approx((20_000, 30_000))
    assert_says(energy.reason, "went back", "stood still", "100 s", "contradict")


def test_a_slow_counter_that_is_reset_loses_what_it_would_have_shown_next(tmp_path: Path) -> None:
    """5 W, shown every 20 s, from 0 again at 310 s: 300 to 320 s are in no figure."""
    counter = counted(every=20)
    run = log(tmp_path, [cell - (n >= 310) * 1500 for n, cell in enumerate(counter)])
    energy = run.metrics["recorded_energy"]
    assert energy.value is not None
    assert energy.high is not None
    assert energy.high >= 3000.0
    assert_says(energy.reason, "went back", "in 10 s")


@pytest.mark.parametrize(
    "counter",
    [
        counted(),
        counted(every=10),
        counted(every=60),
        # Two watts in steps of a tenth of a watt hour, new every 180 s.
        [2 * n // 360 * 360 for n in range(N)],
        # In steps of 20 J, at 20 W and, for 200 s, at 0.5 W: new every second, and every 40 s.
        [(n * 20 if n < 200 else 4000 + int((n - 200) * 0.5) // 20 * 20 if n < 400 else 4100 + (n - 400) * 20) for n in range(N)],
        # Shown as it was for 100 s, then as it is.
        [5 * (n if not 200 <= n < 300 else 200) for n in range(N)],
        # An idle machine of a watt, beside whose hundredth every read is new.
        [f"{n * 1.003:.2f}" for n in range(N)],
    ],
)  # fmt: skip
@pytest.mark.parametrize("holes", [[], [(420, 480)]])
def test_an_honest_counter(tmp_path: Path, counter: Sequence[object], holes: Spans) -> None:
    run = log(tmp_path, counter, holes=holes)
    energy = run.metrics["recorded_energy"]
    assert energy.value == pytest.approx(float(str(counter[-1])))
    assert energy.status.value == "measured"
    assert not saying(run.document()["status_notes"], "stood still")
    assert "stood still" not in (energy.reason or "")


@pytest.mark.parametrize("every", [1, 10, 60])
def test_an_honest_counter_beside_power(tmp_path: Path, every: int) -> None:
    run = log(tmp_path, counted(every=every), "power", holes=[(100, 200)])
    assert not saying(run.document()["status_notes"], "contradict")
    assert not saying(run.document()["status_notes"], "stood still")


@pytest.mark.parametrize(
    "low",
    [lambda n: 0.0, lambda n: 0.04 + n % 2 / 1000],
)
def test_power_that_says_that_nothing_was_drawn(
    tmp_path: Path, low: Callable[[int], float]
) -> None:
    """A device that is off, or nearly, for 100 s: the counter need not move, and loses nothing."""
    path = tmp_path / "log.csv"
    off = range(301, 400)
    rows = [
        f"{n},{low(n) if n in off else 5},{5 * (n - min(max(n - 300, 0), 100))}" for n in range(N)
    ]
    path.write_text("\n".join(["t_s,power [W],energy [J]", *rows]) + "\n")
    run = load(import_run(ImportSettings(telemetry=(path,), find_steps=False), tmp_path / "run"))
    energy = run.metrics["recorded_energy"]
    assert (energy.value, energy.low) == (2500, None)
    assert not saying(run.document()["status_notes"], "stood still")
