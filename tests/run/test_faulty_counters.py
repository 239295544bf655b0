"""Counters of energy that go wrong while a run is recorded: 5 W for steps of 20 ms, by faults that data tell; and sound ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.run.made import BEGIN, MS, Sampled, energy, make_run, power
from tests.wording import assert_says, saying

from wattstep.run import Run, load
from wattstep.schema.figure import Figure

RANGE = 65_536_000_000  # µJ: where the counter starts again, 3.6 hours at 5 W
LIFE = 40_000_000_000  # that it has counted before the run
EVERY = 10 * MS  # reads
STEPS = 300  # 6 s; from 20 ms before the first to 20 ms after the last are 604 reads
DRAWN = 0.1  # J a step
Raw = Callable[[int], int]


def read_number(t_ns: int) -> int:
    return (t_ns - BEGIN + 20 * MS) // EVERY


def counts(n: int) -> int:
    """50 mJ from read to read."""
    return LIFE + 50_000 * n


def run_of(folder: Path, raw: Raw, wrap: int = RANGE, idle_ns: tuple[int, int] = (0, 0)) -> Run:
    """A run whose counter shows `raw` of the number of each read."""
    counter = Sampled(channel=energy(wrap), raw=lambda t_ns: raw(read_number(t_ns)), every_ns=EVERY)
    made = make_run(folder, [counter], steps=STEPS, trace="none", idle_ns=idle_ns)
    return load(made.path)


def holds(figure: Figure, truth: float) -> bool:
    assert figure.value is not None
    low = figure.value if figure.low is None else figure.low
    high = figure.value if figure.high is None else figure.high
    return low * 0.999 <= truth <= high * 1.001


def odd(at: int, shown: int, row: int = 1) -> Raw:
    """Shows something else for one read or a few."""
    return lambda n: shown if at <= n < at + row else counts(n)


# What reads show, and how many of them are left out.
ODD: Mapping[str, tuple[Raw, int]] = {
    # To 0 is no wrap: that would add 65,536 J to 30.
    "zero for one read": (odd(100, 0), 1),
    "zero for three": (odd(100, 0, 3), 3),
    "all bits set for one read": (odd(100, RANGE - 1), 1),
    "a glitch of 7 J": (odd(100, counts(100) + 7_000_000), 1),
    "two reads changed places": (lambda n: counts({100: 101, 101: 100}.get(n, n)), 2),
}


@pytest.mark.parametrize("name", ODD)
def test_reads_that_a_counter_cannot_have_shown_count_as_failed_ones(
    tmp_path: Path, name: str
) -> None:
    raw, count = ODD[name]
    run = run_of(tmp_path / "r", raw)
    figure = run.metrics["energy_per_step"]
    assert figure.value == pytest.approx(DRAWN, rel=1e-6)
    assert figure.status.value == "measured"
    assert_says(figure.reason, f"{count} read(s)", "package.energy", "left out")
    assert saying(run.document()["status_notes"], f"{count} read(s)", "package.energy")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What reads show, where it is said to start again, and what a note says; intervals hold what was drawn all the same."""

    raw: Raw
    says: tuple[str, ...]
    wrap: int = RANGE


def lost(n: int) -> int:
    """Of each ten reads the fourth to the sixth find the same, and what was drawn meanwhile is lost; mJ at each other."""
    mj = np.cumsum([50, 40, 60, 0, 0, 0, 50, 40, 60, 50])
    return LIFE + 1000 * (350 * (n // 10) + int(mj[n % 10]))


FAULTS: Mapping[str, Fault] = {
    # 10 kW for 10 ms are no megawatt.
    "a leap": Fault(
        raw=lambda n: counts(n) + 100_000_000 * (n > 300), says=("grew 1 times", "100 J")
    ),
    "leaps": Fault(
        raw=lambda n: counts(n) + 6_000_000 * (n // 30), says=("grew 20 times", "121 J")
    ),
    "lost counts": Fault(raw=lost, says=("stood still", "every 10 ms", "stuck")),
    # Of 50 mJ from read to read 450 are counted in each of them, as a wrap at 1.9 J would make it.
    "starts again at 1.5 J": Fault(
        raw=lambda n: 50_000 * n % 1_500_000, wrap=1_900_000,
        says=("9 J", "20 steps", "1 J", "elsewhere than at 1.9 J"),
    ),
    "starts again at 2.5 J": Fault(
        raw=lambda n: 50_000 * n % 2_500_000, wrap=2_000_000, says=("went back 12 times",)
    ),
    "starts again after two reads or three": Fault(
        raw=lambda n: 50_000 * n % 120_000, wrap=120_000, says=("0.12 J", "0.05 J", "unseen")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_told(tmp_path: Path, name: str) -> None:
    fault = FAULTS[name]
    run = run_of(tmp_path / "r", fault.raw, fault.wrap)
    assert saying(run.document()["status_notes"], "package.energy", *fault.says)
    for metric, truth in (("energy_per_step", DRAWN), ("mean_power", 5.0)):
        figure = run.metrics[metric]
        assert_says(figure.reason, "package.energy", *fault.says)
        assert holds(figure, truth)


def test_what_a_counter_shows_late_is_told_by_time(tmp_path: Path) -> None:
    """1 W for a second, then 5 W in steps, the first three of which do not count; for a second about that it shows the same.

    0.5 J of the rest and 2.5 J of steps then come at once: 3 W for that second, 440 ms of which lie in
    steps that count, and took 5 W. At once it would be 0.8 J more than was drawn in these.
    """
    first = 102

    def raw(n: int) -> int:
        n = first - 50 if first - 50 <= n < first + 50 else n
        return LIFE + 10_000 * n + 40_000 * max(n - first, 0)

    run = run_of(tmp_path / "r", raw, idle_ns=(1000 * MS, 0))
    figure = run.metrics["energy_per_step"]
    counted = STEPS - 3
    assert figure.value == pytest.approx((counted * DRAWN - 2.2 + 1.32) / counted, rel=1e-4)
    says = ("package.energy", "stood still for 1 s", "at once")
    assert_says(figure.reason, *says)
    assert saying(run.document()["status_notes"], *says)


def test_a_counter_and_power_of_the_same_supply_that_contradict_each_other(tmp_path: Path) -> None:
    """It counts half as much again as the same chip's power makes: 7.5 W beside 5 W, and intervals hold both."""
    counter = Sampled(
        channel=energy(RANGE, name="soc.energy"),
        raw=lambda t_ns: counts(read_number(t_ns)) * 3 // 2, every_ns=EVERY,
    )  # fmt: skip
    gauge = Sampled(channel=power("power_part", name="soc.power"), raw=lambda t_ns: 5000)
    run = load(make_run(tmp_path / "r", [counter, gauge], steps=STEPS, trace="none").path)
    assert saying(run.document()["status_notes"], "soc.energy makes 7.5 W", "soc.power says 5 W")
    figure = run.metrics["energy_per_step"]
    assert figure.value == pytest.approx(1.5 * DRAWN)
    assert holds(figure, DRAWN)


RNG = np.random.default_rng(5)
VARYING = np.cumsum(RNG.integers(20_000, 80_000, 700)).tolist()
SEEN = np.maximum.accumulate(np.arange(700) - RNG.integers(0, 3, 700)).tolist()

SOUND: Mapping[str, tuple[Raw, int]] = {
    "even": (counts, RANGE),
    "wraps": (lambda n: 50_000 * n % 2_000_000, 2_000_000),
    "wraps of a load that varies": (lambda n: VARYING[n] % 2_000_000, 2_000_000),
    "new every 100 ms": (lambda n: counts(n // 10 * 10), RANGE),
    "in steps of 1 J": (lambda n: counts(n) // 1_000_000 * 1_000_000, RANGE),
    "up to two reads late": (lambda n: LIFE + VARYING[max(SEEN[n], 0)], RANGE),
    "1 W and 9 W by turns of half a second": (
        lambda n: LIFE + 10_000 * n + 80_000 * (n // 100 * 50 + min(n % 100, 50)), RANGE
    ),
    "idle but for a read in ten": (lambda n: LIFE + 1000 * n + 9000 * (n // 10), RANGE),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_sound_counters_have_no_mark(tmp_path: Path, name: str) -> None:
    run = run_of(tmp_path / "r", *SOUND[name])
    assert not saying(run.document()["status_notes"], "package.energy")
    figure = run.metrics["energy_per_step"]
    assert figure.value is not None
    assert figure.status.value == "measured"
    assert not any(word in (figure.reason or "") for word in ("still", "grew", "back", "left out"))
