"""A sampler or a process that was suspended, and a machine that slept: what the run says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.run.made import BEGIN, MS, Sampled, make_run, power
from tests.wording import saying

from wattstep.run import load

SECOND = 1000 * MS


def notes(path: Path) -> list[str]:
    return list(load(path).document()["status_notes"])


def test_samples_that_lack_two_seconds_are_told_with_the_steps_there(tmp_path: Path) -> None:
    """Steps of 20 ms for 6 s; the sampler stood still from 2 to 4 s."""
    run = tmp_path / "run"
    made = make_run(run, [Sampled(channel=power(), raw=lambda t_ns: 5000)], steps=300, trace="none")
    path = run / "samples.parquet"
    table = pq.ParquetFile(path).read()
    begin = made.steps[0][0] + 2 * SECOND
    between = pc.and_(pc.greater(table["t_ns"], begin), pc.less(table["t_ns"], begin + 2 * SECOND))
    pq.write_table(table.filter(pc.invert(between)), path, compression="zstd")
    (note,) = saying(notes(run), "2.00 s", "from 2.0 s on")
    assert "stood still" in note
    assert saying([note], "steps touch it")


def test_a_run_whose_samples_lack_nothing_says_nothing(tmp_path: Path) -> None:
    make_run(tmp_path / "run", [Sampled(channel=power(), raw=lambda t_ns: 5000)], steps=100)
    assert not saying(notes(tmp_path / "run"), "stood still")
    assert not saying(notes(tmp_path / "run"), "stopped")


def test_a_step_in_which_the_process_was_stopped_is_named(tmp_path: Path) -> None:
    run = tmp_path / "run"
    make_run(run, [], steps=100, trace="none", slow=lambda index: 3 * SECOND if index == 40 else 0)
    assert saying(notes(run), "1 of 97 steps", "step 40", "3.02 s")


@pytest.mark.parametrize(("ahead_s", "word"), [(3600, "on"), (-3600, "back"), (1, "")])
def test_a_machine_that_slept_or_whose_clock_was_set_says_so(
    tmp_path: Path, ahead_s: int, word: str
) -> None:
    run = tmp_path / "run"
    make_run(run, [], steps=50)
    path = run / "run.json"
    document = json.loads(path.read_text())
    wall = 1_795_000_000 * SECOND
    clocks = [[BEGIN, wall], [BEGIN + SECOND, wall + ahead_s * SECOND]]
    path.write_text(json.dumps({**document, "clocks": clocks}))
    assert bool(saying(notes(run), f"went {word}", "3,600 s", "1 s")) == bool(word)
