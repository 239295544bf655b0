"""Marks as rows: which of them begin and end a step, and how many samples each step had."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from wattstep.schema.journal import Mark
from wattstep.store.mark_rows import MARK, ended_steps, samples_of_steps

START, END, SAMPLES, PHASE = Mark.STEP_START, Mark.STEP_END, Mark.SAMPLES, Mark.PHASE


def marks(*kinds: Mark, values: tuple[float, ...] = ()) -> np.ndarray:
    rows = np.zeros(len(kinds), MARK)
    rows["kind"] = kinds
    rows["value"][: len(values)] = values
    return rows


def test_a_step_is_the_last_start_before_an_end() -> None:
    starts, ends = ended_steps(marks(END, START, START, PHASE, END, START, END, START))
    assert starts.tolist() == [2, 5]
    assert ends.tolist() == [4, 6]


def test_of_a_start_that_several_ends_claim_the_first_is_a_step() -> None:
    starts, ends = ended_steps(marks(START, END, END, START, END))
    assert (starts.tolist(), ends.tolist()) == ([0, 3], [1, 4])


def test_no_marks_are_no_steps() -> None:
    starts, ends = ended_steps(marks())
    assert len(starts) == len(ends) == 0


def test_samples_are_those_marked_within_a_step_else_those_given_at_its_begin() -> None:
    rows = marks(START, SAMPLES, SAMPLES, END, START, END, values=(8, 3, 4, 0, 16, 0))
    starts, ends = ended_steps(rows)
    samples = samples_of_steps(rows, starts, ends, rows["value"][starts])
    assert samples.tolist() == [7, 16]


def test_who_follows_a_training_in_its_own_process_loads_no_arrow() -> None:
    program = "import sys, wattstep.live.so_far; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
