"""Joules so far and the battery, from what the sampler wrote: numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.watching.made import Journal
from tests.wording import assert_says

from wattstep.integrations.live import Live
from wattstep.integrations.steps import StepMarks
from wattstep.record.recorder import Recorder
from wattstep.run import load
from wattstep.schema.channel import Channel

POWER = Channel(
    name="rail.power", unit="W", kind="gauge", domain="soc", role="power_total", source="a meter"
)
CHARGE = Channel(
    name="battery.bat0.energy", unit="J", kind="gauge", domain="battery", role="battery_energy",
    source="a battery", limit=1000.0,
)  # fmt: skip


class Machine:
    """A recording whose sampler is the test."""

    def __init__(self, folder: Path, *channels: Channel) -> None:
        self.run = Journal(folder / "run", *channels)
        self.path, self.info = self.run.path, self.run.info

    def passes(self, seconds: float, **values: int) -> None:
        """So long each channel gives a value ten times a second."""
        for _ in range(round(10 * seconds)):
            for one in self.run.channels:
                self.run.sample(one.name, values[one.domain])
            self.run.now_ns += 10**8

    def live(self) -> Live:
        recorder: Any = self
        return Live(recorder, lambda: self.run.now_ns * 1e-9)


def test_joules_are_watts_times_seconds_and_the_step_has_its_share(tmp_path: Path) -> None:
    machine = Machine(tmp_path, POWER, CHARGE)
    live = machine.live()
    assert not live.due()
    machine.passes(2.1, soc=10, battery=810)
    assert live.due()
    live.look(steps=4, seconds=1.6)  # the rest of the two seconds was an evaluation
    assert live.energy.value == pytest.approx(20.0)  # 2 s from the first sample to the last
    assert live.energy_per_step.value == pytest.approx(10 * 1.6 / 4)
    assert live.words() == "4 J/step, 20 J so far, battery 81 %"
    machine.passes(2.1, soc=30, battery=810)
    live.look(steps=5, seconds=2.0)
    assert live.energy.value == pytest.approx(20.0 + 2.0 + 60.0)  # a climb of 0.1 s between
    assert live.energy_per_step.value == pytest.approx(30 * 0.4)
    assert live.numbers() == pytest.approx(
        {
            "wattstep/power_W": 30.0,
            "wattstep/energy_so_far_J": 82.0,
            "wattstep/energy_per_step_now_J": 12.0,
            "wattstep/battery_ratio": 0.81,
        }
    )


def test_modelled_joules_say_so(tmp_path: Path) -> None:
    machine = Machine(tmp_path, replace(POWER, status="modelled"))
    live = machine.live()
    machine.passes(1.1, soc=5)
    live.look(steps=2, seconds=1.0)
    assert live.words() == "≈ 2.5 J/step, 5 J so far, modelled"
    assert "wattstep/modelled/power_W" in live.numbers()
    assert "wattstep/power_W" not in live.numbers()


def test_without_a_sensor_there_are_no_joules_and_no_zero(tmp_path: Path) -> None:
    live = Machine(tmp_path).live()
    live.look(steps=3, seconds=1.0)
    assert_says(live.words(), "joules missing", "no power sensor")
    assert live.numbers() == {}


def test_samples_are_counted_for_all_processes_of_the_machine(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run", trace="none") as recorder:
        marks = StepMarks(recorder, processes=2)
        for batches in ((4, 4), (3,)):
            for each in batches:
                marks.asks_for_data()
                marks.batch(each)
            marks.step_ends()
        marks.batch(None)
        marks.step_ends()
    found = load(tmp_path / "run").series.steps.samples.tolist()
    assert found[:2] == [16.0, 6.0]
    assert found[2] != found[2]  # nobody knows


def test_a_rest_before_the_first_batch_moves_the_beginning_of_the_step(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run", trace="none") as recorder:
        marks = StepMarks(recorder)
        for number in range(6):
            marks.asks_for_data()
            if number == 4:
                marks.span_begins("evaluation")
                marks.span_ends()
            if number == 5:
                marks.book_span("logging")
            marks.batch(2)
            marks.step_ends()
    steps = load(tmp_path / "run").series.steps
    assert steps.index.tolist() == list(range(6))
    assert steps.start_ns[4] >= steps.rest_ns["evaluation"][0, 1]
    assert steps.start_ns[5] == steps.rest_ns["logging"][0, 1]
    assert steps.samples.tolist() == [2.0] * 6
