"""Watching a run of which old samples were thinned: what it used is what all samples tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.store.test_thinning import GLITCH, KEEP, LATE, ROWS, SEGMENT, TICKS, WRAP, a_long_run

from wattstep.live.rows import Rows
from wattstep.live.so_far import SoFar
from wattstep.schema.journal import MISSING
from wattstep.store.convert import convert
from wattstep.store.packing import pack_closed

GAP_NS = 200_000_000  # twenty periods


def trapezoids(rows: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> float:
    """Energy in J of rows as they were made, across no failed read and no pause."""
    watts = np.where(rows[:, 2] == MISSING, np.nan, rows[:, 2] * 1e-3)
    lasting, mean = np.diff(rows[:, 0]), (watts[1:] + watts[:-1]) / 2
    whole = np.isfinite(mean) & (lasting <= GAP_NS)
    return float((mean[whole] * lasting[whole]).sum() * 1e-9)


def without_glitch() -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    rows = ROWS.copy()
    rows[GLITCH, 2] = MISSING
    return rows


@pytest.fixture(params=["records", "closed"])
def so_far(request: pytest.FixtureRequest, tmp_path: Path) -> SoFar:
    """What is seen by who begins to watch late: while it records, and when it is closed."""
    journals = a_long_run(tmp_path / "run", KEEP)
    closed = request.param == "closed"
    if closed:
        convert(journals.path)
    else:
        pack_closed(journals.path)
    seen = SoFar(journals.path, journals.info)
    seen.look(closed=closed)
    return seen


def test_energy_and_highest_power(so_far: SoFar) -> None:
    power = so_far.channels["board.power"]
    assert power.total == pytest.approx(trapezoids(without_glitch()), rel=1e-9)
    good = (ROWS[:, 1] == 0) & (np.arange(TICKS) != GLITCH)
    assert power.highest == pytest.approx(ROWS[good, 2].max() * 1e-3, rel=1e-12)
    energy = so_far.figures()["energy"]
    assert energy.value == pytest.approx(power.total)
    assert energy.reason is None  # all but the failed reads, a glitch and the pause is covered


def test_a_counter_that_wraps(so_far: SoFar) -> None:
    part = so_far.channels["rapl.core"]
    steps = np.diff(ROWS[:, 4])
    steps = np.where(steps < 0, steps + WRAP, steps)[(ROWS[1:, 1] == 0) & (ROWS[:-1, 1] == 0)]
    assert part.total == pytest.approx(steps.sum() * 1e-3, rel=1e-9)


def test_ticks(so_far: SoFar) -> None:
    assert so_far.lost_ticks == (LATE > 85).sum()


def test_thinning_between_two_looks(tmp_path: Path) -> None:
    """Rows that were given do not come again; a stretch of which some were given is left out."""
    journals = a_long_run(tmp_path / "run", KEEP)
    layout = np.dtype(("<i8", ROWS.shape[1]))
    follower = Rows(journals.folder / "samples-00.bin", layout)
    given, stretches = [], []
    segment = journals.folder / "samples-00.bin"
    whole = segment.read_bytes()
    read = 2507  # of the first segment, within a stretch: they begin at 2,000, and there are two
    segment.write_bytes(whole[: read * layout.itemsize])
    later = [each for each in journals.folder.glob("samples-00.*bin*") if each != segment]
    aside = tmp_path / "aside"
    aside.mkdir()
    for each in later:
        each.rename(aside / each.name)
    given.append(follower.new())
    segment.write_bytes(whole)
    for each in aside.iterdir():
        each.rename(journals.folder / each.name)
    pack_closed(journals.path)
    while len(rows := follower.new()):
        given.append(rows)
        stretches.append(follower.stretches)
    times = np.concatenate(given)[:, 0]
    assert (np.diff(times) > 0).all()
    assert (times[:read] == ROWS[:read, 0]).all()
    begun = np.concatenate([each[:, 0] for each in stretches if len(each)])
    assert begun.min() >= ROWS[read - 1, 0]
    assert begun.min() < ROWS[SEGMENT, 0]  # of the same piece
