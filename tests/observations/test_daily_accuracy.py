"""Observation 12, on gains of accuracy that are known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.observations.made import figure

from wattstep.insight.observe import observe
from wattstep.insight.observe.evidence import DailyCourse, Evidence
from wattstep.insight.observe.observation import Observation
from wattstep.stats.statistics import change_figure


def course(
    won: int, lost: int, folder: str = "daily", batch: int = 4, days: int = 17
) -> DailyCourse:
    """Of 2,000 held-out samples so many are right now and were not, and the other way round."""
    return DailyCourse(
        folder=folder, workload="densenet40", settings={}, batch_size=batch, days=days,
        images_per_day=64, first=figure(0.6065, 0.02), last=figure(0.6132, 0.02),
        gain=change_figure(won, lost, 2000, "held-out samples"),
    )  # fmt: skip


def seeds(won: int, lost: int, batch: int = 4) -> list[DailyCourse]:
    """Three trainings that differ in nothing that can be seen."""
    return [course(won, lost, folder, batch) for folder in "abc"]


def found(*courses: DailyCourse) -> Observation:
    return next(observe(Evidence(daily=courses), ["12"]))


def test_a_gain_beyond_doubt_holds() -> None:
    """100 won, 40 lost of 2,000: 3 points ± 1.96 √(140 - 60²/2000)/2000 = 1.15, three times over."""
    one = found(*seeds(100, 40))
    gain = one.cases[0].figures()["gain"]
    assert one.verdict == "holds"
    assert gain.value == pytest.approx(0.03)
    assert gain.low == pytest.approx(0.03 - 0.01152 / 3**0.5, abs=1e-4)
    assert one.cases[0].figures()["gain_a_day"].value == pytest.approx(0.03 / 17)


def test_a_loss_does_not_hold_and_the_papers_gain_on_so_few_samples_is_undecided() -> None:
    assert found(*seeds(40, 100)).verdict == "does not hold"
    paper = found(*seeds(107, 94))  # 0.65 points
    assert paper.verdict == "undecided"
    assert paper.advice


def test_one_batch_size_that_loses_is_enough() -> None:
    both = (*seeds(100, 40), *seeds(40, 100, batch=64))
    assert found(*both).verdict == "does not hold"


def test_one_training_is_one_draw_of_many_and_decides_nothing_so_small() -> None:
    """Accuracy moves by ten points from day to day and from seed to seed (docs/daily.md)."""
    one = found(course(100, 40))
    assert one.verdict == "undecided"
    assert one.weak


def test_several_seeds_are_processes() -> None:
    """Gains of 3, 0 and -3 points: the mean of 0 is open, whatever one of them says by itself."""
    apart = [course(100, 40, "a"), course(50, 50, "b"), course(40, 100, "c")]
    one = found(*apart)
    assert one.verdict == "undecided"
    assert one.cases[0].figures()["gain"].n == 3
    assert not any("weaker" in note for note in one.notes)


def test_no_daily_training_and_no_day_cannot_be_tested() -> None:
    assert "wattstep daily" in found().sentences[0]
    assert "no day" in found(course(0, 0, days=0)).sentences[0].lower()


def test_stand_in_data_are_said() -> None:
    one = found(replace(course(100, 40), stand_in=True))
    assert any("stand-in data" in note for note in one.notes)
