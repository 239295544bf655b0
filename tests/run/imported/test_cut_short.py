"""Logs of power that hold a part of the trace only: what is said of them, and what has no energy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.run.imported.made import imported
from tests.run.made import Worked, import_made, watts
from tests.wording import assert_says

from wattstep.run.run import Run, load

STEPS, STEP_MS = 30, 100.0


def recorded(path: Path, begin_ms: float, end_ms: float, *, marked: bool) -> Run:
    """Steps of 100 ms, 40 ms of which a kernel runs at 25 W and the card is idle at 5 W else."""
    kernels = [
        Worked(
            name="kernel", step=n if marked else 0, start=STEP_MS * n + 50, end=STEP_MS * n + 90,
            processor="gpu0", thread=1 << 50,
        )
        for n in range(STEPS)
    ]  # fmt: skip
    times = [begin_ms + 2.0 * n for n in range(round((end_ms - begin_ms) / 2.0) + 1)]
    samples = [(t, 5.0 + 20.0 * (50 <= t % STEP_MS < 90) + 0.01 * (t % 7)) for t in times]
    found: dict[str, Any] = imported()
    steps = [(STEP_MS * n, STEP_MS * (n + 1)) for n in range(STEPS)]
    if not marked:
        found["trace"] = {**found["trace"], "steps": "whole"}
        steps = [(0.0, STEPS * STEP_MS)]
    card = replace(watts("gpu0.power", "power_part"), domain="gpu")
    return load(
        import_made(
            path / "run", found, steps=steps, operations=kernels,
            samples=[(card, "power.csv", samples)],
        )
    )  # fmt: skip


def cut_notes(run: Run) -> list[str]:
    return [note for note in run.report().notes if note.startswith("power.csv")]


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "marked", "words"),
    [
        (-500, 2000, True, ("ends 1 s", "traced steps", "67 %")),
        (1000, 3500, True, ("begins 1 s", "traced steps", "67 %")),
        (-500, 1500, False, ("ends 1.5 s", "the trace:", "50 %")),
    ],
)
def test_a_log_that_begins_late_or_ends_early_is_noted(
    tmp_path: Path, begin_ms: float, end_ms: float, marked: bool, words: tuple[str, ...]
) -> None:
    (note,) = cut_notes(recorded(tmp_path, begin_ms, end_ms, marked=marked))
    assert_says(note, *words)


def test_a_log_of_all_steps_has_no_such_note(tmp_path: Path) -> None:
    assert cut_notes(recorded(tmp_path, -500, 3500, marked=True)) == []


def test_of_a_trace_without_steps_nothing_is_made_up_for_time_without_power(tmp_path: Path) -> None:
    """Half of 3 s is in the log: 1.5 s at 13 W are 19.5 J, and the other half is not known."""
    document = recorded(tmp_path, 0, 1500, marked=False).document()
    energy = document["metrics"]["recorded_energy"]
    assert energy["value"] == pytest.approx(19.5, rel=0.01)
    assert "what was sampled" in energy["method"]
    for row in (*document["operations"], *document["rests"].values()):
        assert row["energy"]["value"] is None


def test_energy_of_a_trace_without_steps_has_the_sensor_in_its_interval(tmp_path: Path) -> None:
    """39 J; a gauge of which nothing is documented may be late by 100 ms of 3 s."""
    energy = recorded(tmp_path, -500, 3500, marked=False).document()["metrics"]["recorded_energy"]
    assert energy["low"] < 0.97 * 39.0
    assert energy["high"] > 1.03 * 39.0
