"""What a person tells a labeling: answers to what it asked, kept with its state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from tests.command_line import wattstep
from tests.labeling.filed import NAMES, asked, opened, run, table
from tests.labeling.made import blobs
from tests.refusals import id_in, refused
from tests.wording import assert_says

from wattstep.labeling import AutoLabeler
from wattstep.labeling.deciding import decide
from wattstep.labeling.folder import LabelFolder
from wattstep.labeling.source import Asked

X, Y = blobs(240, (0, 1, 2, 3), seed=2)
ANSWERED = [3, 7, 11, 15, 100, 101, 102]  # the first four of the class that is not labeled


@pytest.fixture
def days(files: Path, tmp_path: Path) -> tuple[Asked, Asked]:
    """Settings for the first day, and for both."""
    for n in range(2):
        pq.write_table(table(X[120 * n : 120 * (n + 1)]), tmp_path / f"day-{n}.parquet")
    names = tuple(str(tmp_path / f"day-{n}.parquet") for n in range(2))
    return asked(files, data=names[:1]), asked(files, data=names)


def answers(path: Path, rows: list[int]) -> Path:
    csv.write_csv(table(X[rows], Y[rows]), path)
    return path


def test_answers_are_told_before_what_follows(
    files: Path, tmp_path: Path, days: tuple[Asked, Asked]
) -> None:
    one, both = days
    run(tmp_path / "out", one)
    rows = run(tmp_path / "out", both, answers=answers(tmp_path / "a.csv", ANSWERED))
    # The same by hand.
    x, y = blobs(45, (0, 1, 2), seed=1)
    labeler = AutoLabeler(random_state=0).fit(x, np.array(["k0", "k1", "k2"])[y])
    told = [labeler.partial_label(X[n : n + 60]) for n in (0, 60)]
    labeler.partial_fit(X[ANSWERED], np.array([f"k{n}" for n in Y[ANSWERED]]))
    told += [labeler.partial_label(X[n : n + 60]) for n in (120, 180)]
    assert rows["likeliest"].to_pylist() == [str(label) for each in told for label in each.labels]
    assert set(rows["likeliest"].to_pylist()[120:]) == {"k0", "k1", "k2", "k3"}


@pytest.mark.parametrize("killed", ["save", "keep"])
def test_answers_of_a_killed_command_are_told_once(
    files: Path, tmp_path: Path, days: tuple[Asked, Asked], killed: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    one, both = days
    given = answers(tmp_path / "a.csv", ANSWERED)
    for name in ("whole", "out"):
        run(tmp_path / name, one)
    whole = run(tmp_path / "whole", both, answers=given)
    real = getattr(LabelFolder, killed)
    for calls in (1, 2):  # of the answers, and of the piece after them
        left = [real] * (calls - 1)

        def die(*arguments: Any, left: list[Any] = left) -> Any:
            if not left:
                raise KeyboardInterrupt
            return left.pop()(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(LabelFolder, killed, die)
            with pytest.raises(KeyboardInterrupt):
                run(tmp_path / "out", both, answers=given)
    assert run(tmp_path / "out", both, answers=given).equals(whole)


def test_of_a_file_that_has_grown_only_the_rest_is_told(
    files: Path, tmp_path: Path, days: tuple[Asked, Asked]
) -> None:
    one, _ = days
    run(tmp_path / "out", one)
    counts = []
    for rows in (ANSWERED[:4], ANSWERED, ANSWERED):
        with opened(tmp_path / "out", one) as (folder, source):
            counts.append(decide(folder, source, answers=answers(tmp_path / "a.csv", rows)))
            held = folder.labeler().engine_.labeled
    assert counts == [4, 3, 0]
    assert len(held.codes) == 45 + len(ANSWERED)


def test_refused_answers_decide_nothing(
    files: Path, tmp_path: Path, days: tuple[Asked, Asked]
) -> None:
    one, _ = days
    given = answers(tmp_path / "a.csv", ANSWERED)
    with refused("not-labeled-yet", tmp_path / "out", "--labeled"):
        run(tmp_path / "out", one, answers=given)
    run(tmp_path / "out", one)
    before = (tmp_path / "out" / "state.npz").read_bytes()
    csv.write_csv(table(X[:3], Y[:3]).drop_columns(["c"]), given)
    with refused("other-columns", "a.csv", "c"):
        run(tmp_path / "out", one, answers=given)
    csv.write_csv(table(X[:3]).append_column("kind", pa.array(["k0", "unknown", "k1"])), given)
    with refused("reserved-name", "unknown"):
        run(tmp_path / "out", one, answers=given)
    assert (tmp_path / "out" / "state.npz").read_bytes() == before


@pytest.mark.parametrize(
    ("kinds", "texts"), [([7, 8, 9], ["7", "8", "9"]), ([True, False, True], ["true", "False", ""])]
)
def test_answers_in_text_are_of_the_type_of_the_labels(
    tmp_path: Path, kinds: list[Any], texts: list[str]
) -> None:
    x, y = blobs(45, (0, 1, 2), seed=1)
    labels = pa.array([kinds[n] for n in y])
    pq.write_table(table(x).append_column("kind", labels), tmp_path / "labeled.parquet")
    pq.write_table(table(X), tmp_path / "data.parquet")
    settings = asked(tmp_path, labeled=str(tmp_path / "labeled.parquet"))
    run(tmp_path / "out", settings)
    given = tmp_path / "a.csv"
    csv.write_csv(table(X[:3]).append_column("kind", pa.array(texts)), given)
    run(tmp_path / "out", settings, answers=given)
    with opened(tmp_path / "out", settings) as (folder, _):
        assert folder.labeler().classes_.tolist() == sorted(set(kinds))
    csv.write_csv(table(X[:1]).append_column("kind", pa.array(["bicycle"])), given)
    with refused("mixed-labels", "bicycle"):
        run(tmp_path / "out", settings, answers=given)


def test_asked_and_answered_on_the_command_line(files: Path, tmp_path: Path) -> None:
    for n in range(2):
        pq.write_table(table(X[120 * n : 120 * (n + 1)]), tmp_path / f"day-{n}.parquet")
    days, out = [tmp_path / "day-0.parquet", tmp_path / "day-1.parquet"], tmp_path / "out"
    more = (
        "--labeled", files / "labeled.csv", "--column", "kind", "--batch", 60, "--ask", 4, "--out", out,
    )  # fmt: skip
    done = wattstep("label", *days, *more)
    assert done.returncode == 0, done.stderr
    form = out / "ask.csv"
    assert_says(done.stdout, form, f"--answers {form}")
    questions = csv.read_csv(form).to_pylist()
    assert len(questions) == 4
    for question in questions:
        day = int(question["file"].removeprefix("day-").removesuffix(".parquet"))
        row = X[120 * day + question["row"]]
        np.testing.assert_array_equal([question[name] for name in NAMES], row)
        question["kind"] = f"k{Y[120 * day + question['row']]}"
    csv.write_csv(pa.Table.from_pylist(questions), form)
    filled = form.read_bytes()
    # Nobody told them: they are not written over.
    lost = wattstep("label", *days, *more, "--json")
    assert id_in(lost.stdout) == "untold-answers"
    assert_says(lost.stderr, form, 4)
    assert form.read_bytes() == filled
    told = json.loads(wattstep("label", *days, *more, "--answers", form, "--json").stdout)
    assert (told["told"], told["questions"]) == (4, str(form))
    assert csv.read_csv(form)["kind"].null_count == 4
    assert form.read_bytes() != filled


@pytest.mark.parametrize(
    ("option", "value"), [("--ask", "-1"), ("--image", "7x7"), ("--answers", "none.csv")]
)
def test_options_that_do_not_fit_are_refused_before_anything_is_labeled(
    files: Path, tmp_path: Path, option: str, value: str
) -> None:
    done = wattstep(
        "label", files / "data.csv", "--labeled", files / "labeled.csv", "--column", "kind",
        option, value, "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.returncode == 2
    if option == "--image":
        assert_says(done.stderr, "7x7", 49, "4 features")
    assert not (tmp_path / "out").exists()
