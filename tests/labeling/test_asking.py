"""Which samples a person is asked for: their numbers, none of them twice, and what answers do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.labeling.filed import opened
from tests.labeling.made import CENTERS, blobs

from wattstep.labeling import AutoLabeler
from wattstep.labeling.asking import choose
from wattstep.labeling.job import label_files
from wattstep.labeling.source import Asked

NAMES = np.array(["a", "b", "c", "d"])


@pytest.fixture
def labeler() -> AutoLabeler:
    x, y = blobs(24, (0, 1, 2), seed=1)
    return AutoLabeler(candidates=4, max_heuristics=3).fit(x, NAMES[y])


def test_numbers_count_every_sample_that_was_given(labeler: AutoLabeler, tmp_path: Path) -> None:
    x, _ = blobs(120, (0, 1, 2, 3), seed=2)
    x[:30] = np.nan
    x[70:80, 1] = np.inf
    for begin in (0, 20, 40):  # the first batch has nothing that can be read
        labeler.partial_label(x[begin : begin + 20])
    labeler.save(tmp_path / "state.npz")
    resumed = AutoLabeler.load(tmp_path / "state.npz")
    resumed.partial_label(x[60:])
    questions = resumed.ask(12)
    np.testing.assert_array_equal(x[questions.numbers], questions.x)
    assert questions.numbers.max() >= 80


class Stopped(Exception):
    """The command ends here."""


def test_numbers_of_the_command_go_on_through_files_and_interruptions(tmp_path: Path) -> None:
    x, _ = blobs(150, (0, 1, 2, 3), seed=2)
    x[:60] = np.nan
    np.save(tmp_path / "one.npy", x[:90])
    np.save(tmp_path / "two.npy", x[90:])
    few, y = blobs(24, (0, 1, 2), seed=1)
    np.save(tmp_path / "few.npy", few)
    np.save(tmp_path / "kinds.npy", NAMES[y])
    asked = Asked(
        data=(str(tmp_path / "one.npy"), str(tmp_path / "two.npy")), labeled=str(tmp_path / "few.npy"),
        labels=str(tmp_path / "kinds.npy"), batch=30,
    )  # fmt: skip

    def stop(done: int) -> None:
        if done in (30, 120):
            raise Stopped

    for _ in range(2):
        with pytest.raises(Stopped), opened(tmp_path / "out", asked) as (folder, source):
            label_files(folder, source, stop)
    with opened(tmp_path / "out", asked) as (folder, source):
        labeler, _ = label_files(folder, source, lambda done: None)
    questions = labeler.ask(9)
    np.testing.assert_array_equal(x[questions.numbers], questions.x)
    assert questions.numbers.max() >= 90


def test_what_was_answered_is_not_asked_for_again(labeler: AutoLabeler, tmp_path: Path) -> None:
    x, y = blobs(40, (0, 1, 2), seed=2)
    labeler.partial_label(x)
    numbers: list[int] = []
    for _ in range(5):
        questions = labeler.ask(8)
        numbers += questions.numbers.tolist()
        labeler.partial_fit(questions.x[::-1], NAMES[y[questions.numbers[::-1]]])
        labeler.save(tmp_path / "state.npz")
        labeler = AutoLabeler.load(tmp_path / "state.npz")
    assert sorted(numbers) == list(range(40))
    assert len(labeler.ask(8).numbers) == 0


def test_a_sample_of_the_labeled_set_that_comes_again_is_not_asked_for() -> None:
    x, y = blobs(24, (0, 1, 2), seed=1)
    labeler = AutoLabeler(candidates=4).fit(x, y)
    labeler.partial_label(np.concatenate([x, blobs(10, (0, 1), seed=3)[0]]))
    assert sorted(labeler.ask(30).numbers) == list(range(24, 34))


def test_without_an_answer_the_same_are_asked_for_again(labeler: AutoLabeler) -> None:
    labeler.partial_label(blobs(60, (0, 1, 2, 3), seed=2)[0])
    np.testing.assert_array_equal(labeler.ask(5).numbers, labeler.ask(5).numbers)


def test_nothing_came_and_nothing_is_asked_for(labeler: AutoLabeler) -> None:
    questions = labeler.ask(5)
    assert questions.x.shape == (0, 4)


def test_answers_to_questions_are_no_drift(labeler: AutoLabeler) -> None:
    # They are asked for because the labels are likely wrong: here all of them are of classes that are swapped.
    for number in range(4):
        labeler.partial_label(blobs(40, (0, 1, 2), seed=20 + number)[0])
        questions = labeler.ask(10)
        at = np.linalg.norm(questions.x[:, None] - CENTERS[:3], axis=2).argmin(axis=1)
        labeler.partial_fit(questions.x, NAMES[[1, 2, 0]][at])
    assert labeler.engine_.drifts == []


def on_a_line(*groups: float) -> np.ndarray:
    """Twelve samples a group, a tenth apart, from each of these places on."""
    return np.concatenate([place + np.arange(12) / 10 for place in groups])[:, None]


def chosen(x: np.ndarray, doubt: np.ndarray, labeled: list[float], count: int) -> list[int]:
    """Groups of the rows that are chosen."""
    none = np.zeros(len(x), dtype=bool)
    return [
        int(row) // 12
        for row in choose(x, doubt, none, np.array(labeled, dtype=float)[:, None], count)
    ]


def test_one_question_a_group_and_none_where_labels_are() -> None:
    x = on_a_line(0, 100, 200)
    assert sorted(chosen(x, np.full(36, 0.5), [-50], 3)) == [0, 1, 2]
    assert sorted(chosen(x, np.full(36, 0.5), [0.2, 0.9, 200.2, 200.9], 1)) == [1]


def test_many_that_are_a_little_unsure_come_before_one_that_is_alone() -> None:
    x = np.concatenate([on_a_line(0), [[500.0]]])
    doubt = np.append(np.full(12, 0.3), 1.0)
    assert chosen(x, doubt, [-50], 1) == [0]
