"""A run of which old samples were thinned, as a recording to replay: its energy is that of all samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.store.test_thinning import CHANNELS, GLITCH, KEEP, ROWS, WRAP, a_long_run

from wattstep.importing.recorded import run_recording
from wattstep.store.convert import convert

GAP_NS = 200_000_000  # twenty periods


def trapezoids(t_ns: np.ndarray, value: np.ndarray) -> float:
    """Integral over s, across no failed read and no pause."""
    lasting, mean = np.diff(t_ns), (value[1:] + value[:-1]) / 2
    whole = np.isfinite(mean) & (lasting <= GAP_NS)
    return float((mean[whole] * lasting[whole]).sum() * 1e-9)


def test_energy_and_counts(tmp_path: Path) -> None:
    path = a_long_run(tmp_path / "run", KEEP).path
    convert(path)
    recording = run_recording(path)
    power, rail = CHANNELS[0].name, CHANNELS[2].name
    made = np.where(ROWS[:, 1] == 0, ROWS[:, 2] * 1e-3, np.nan)
    made[GLITCH] = np.nan
    assert trapezoids(recording.t_ns[power], recording.value[power]) == pytest.approx(
        trapezoids(ROWS[:, 0], made), rel=1e-9
    )
    good = ROWS[ROWS[:, 1] == 0, 4]
    counted = np.where(np.diff(good) < 0, np.diff(good) + WRAP, np.diff(good)).sum() * 1e-3
    value = recording.value[rail][np.isfinite(recording.value[rail])]
    assert value[-1] - value[0] == pytest.approx(counted, rel=1e-9)
    assert (np.diff(value) >= 0).all()
    for name, t_ns in recording.t_ns.items():
        assert (np.diff(t_ns) > 0).all(), name
    (note,) = recording.notes
    assert "were thinned (--keep)" in note
