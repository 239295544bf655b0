"""The folder of a labeling: killed and continued, and what does not belong to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.labeling.filed import NAMES, asked, labeled, opened, run, table
from tests.labeling.made import blobs
from tests.refusals import refused

from wattstep.labeling import AutoLabeler
from wattstep.labeling.folder import LabelFolder
from wattstep.labeling.job import label_files
from wattstep.labeling.progress import Progress
from wattstep.labeling.source import Asked


def test_what_was_interrupted_goes_on_exactly_where_it_was(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = asked(files, "data.parquet")
    whole = run(tmp_path / "whole", settings)
    keep, written = LabelFolder.keep, []

    def die(folder: LabelFolder, progress: Progress) -> None:
        if len(written) == 2:  # labels and state of the third piece are there, that they are is not
            raise KeyboardInterrupt
        written.append(progress)
        keep(folder, progress)

    monkeypatch.setattr(LabelFolder, "keep", die)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", settings)
    monkeypatch.setattr(LabelFolder, "keep", keep)
    assert run(tmp_path / "parts", settings).equals(whole)


@pytest.mark.parametrize("killed", ["before the state", "before the progress"])
def test_a_name_given_right_after_a_kill(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    pq.write_table(table(blobs(400, (0, 1, 2, 3), seed=2)[0]), tmp_path / "data.parquet")
    settings = Asked(
        data=(str(tmp_path / "data.parquet"),), labeled=str(files / "labeled.csv"), column="kind",
        features=NAMES, batch=100,
    )  # fmt: skip
    owner, name = (AutoLabeler, "save") if killed == "before the state" else (LabelFolder, "keep")
    real, calls = getattr(owner, name), []

    def die(*given: Any) -> None:
        calls.append(given)
        if len(calls) == 4:
            raise KeyboardInterrupt
        real(*given)

    monkeypatch.setattr(owner, name, die)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out", settings)
    monkeypatch.setattr(owner, name, real)
    rows = run(tmp_path / "out", settings, names=["unknown-1=bicycle"])
    assert len(rows) == 400
    truth = blobs(400, (0, 1, 2, 3), seed=2)[1]
    last = [row for row in rows.to_pylist()[300:] if truth[row["row"]] == 3]
    assert np.mean([row["label"] == "bicycle" for row in last]) > 0.8


def test_labels_that_are_gone_from_a_folder_are_missed(files: Path, tmp_path: Path) -> None:
    settings = asked(files, "data.parquet", batch=120)
    run(tmp_path / "out", settings)
    (tmp_path / "out" / "labels" / "000001.parquet").unlink()
    with refused("lost-labels", "000001.parquet"):
        run(tmp_path / "out", settings)


def test_what_a_killed_command_left_half_written_goes_and_nothing_else(
    files: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (out / "labels").mkdir(parents=True)
    (out / "label.json").write_text("{}")
    half = [
        out / ".progress.json.0123456789ab", out / "labels" / ".000000.parquet.0123456789ab",
        out / "state.npz.new",
    ]  # fmt: skip
    others = [out / ".mine.0123456789ab", out / "labels" / "notes.txt"]
    for path in (*half, *others):
        path.touch()
    with opened(out, asked(files)):
        pass
    assert not any(path.exists() for path in half)
    assert all(path.exists() for path in others)


def test_other_data_of_the_same_name_are_refused(files: Path, tmp_path: Path) -> None:
    x, _ = blobs(120, (0, 1, 2), seed=5)
    pq.write_table(table(x), tmp_path / "data.parquet")
    settings = asked(files, str(tmp_path / "data.parquet"))
    run(tmp_path / "out", settings)
    pq.write_table(table(x + 1), tmp_path / "data.parquet")
    with refused("other-data", "data.parquet"):
        run(tmp_path / "out", settings)


def test_other_settings_in_the_same_folder_are_refused(files: Path, tmp_path: Path) -> None:
    run(tmp_path / "out", asked(files, "data.parquet"))
    with refused("other-settings", "batch"):
        run(tmp_path / "out", asked(files, "data.parquet", batch=50))


def test_a_folder_of_something_else_is_refused(files: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with refused("not-a-label-folder", tmp_path):
        run(tmp_path, asked(files))


def test_one_command_at_a_time_has_the_folder(files: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "out", asked(files)), refused("being-written"):
        run(tmp_path / "out", asked(files))


def test_labels_in_csv_are_no_formulas_and_numbers_stay_numbers(
    files: Path, tmp_path: Path
) -> None:
    x, y = blobs(40, (0, 1), seed=1)
    np.save(tmp_path / "data.npy", blobs(60, (0, 1), seed=2)[0])
    for first, second in (("=1+2", "@a"), ("-1", "+2.5e3")):
        rows = {name: x[:, n] for n, name in enumerate("0123")}
        kinds = pa.table({**rows, "kind": [(first, second)[label] for label in y]})
        pq.write_table(kinds, tmp_path / "labeled.parquet")
        settings = Asked(
            data=(str(tmp_path / "data.npy"),), labeled=str(tmp_path / "labeled.parquet"),
            column="kind", format="csv",
        )  # fmt: skip
        with opened(tmp_path / first, settings) as (held, source):
            label_files(held, source, lambda done: None)
        text = (tmp_path / first / "labels" / "000000.csv").read_text()
        apostrophe = "'" if first == "=1+2" else ""
        assert f'"{apostrophe}{first}"' in text
        assert f'"{apostrophe}{second}"' in text


# -- data as they arrive


@pytest.fixture
def days(tmp_path: Path) -> tuple[str, ...]:
    x, _ = blobs(330, (0, 1, 2, 3), seed=2)
    for n in range(3):
        pq.write_table(table(x[110 * n : 110 * (n + 1)]), tmp_path / f"day-{n}.parquet")
    return tuple(str(tmp_path / f"day-{n}.parquet") for n in range(3))


def test_days_one_by_one_get_the_labels_of_all_at_once(
    files: Path, tmp_path: Path, days: tuple[str, ...]
) -> None:
    whole = run(tmp_path / "whole", asked(files, data=days))
    for count in (1, 2, 2, 3):
        rows = run(tmp_path / "out", asked(files, data=days[:count]))
        assert len(rows) == 110 * count
    assert rows.equals(whole)


def test_files_that_were_labeled_are_named_first_and_in_their_order(
    files: Path, tmp_path: Path, days: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    run(out, asked(files, data=days[:2]))
    for wrong, named in (
        (days[1:], "day-1.parquet"), (days[::-1], "day-2.parquet"), (days[:1], "2 files"),
    ):  # fmt: skip
        with refused("other-data", out, named, "--out"):
            run(out, asked(files, data=wrong))
    moved = tmp_path / "moved.parquet"
    Path(days[0]).rename(moved)
    assert len(run(out, asked(files, data=(str(moved), *days[1:])))) == 330


def test_a_refused_day_can_be_given_again_mended(
    files: Path, tmp_path: Path, days: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    run(out, asked(files, data=days[:2]))
    whole = pq.read_table(days[2])
    pq.write_table(whole.drop_columns(["d"]), days[2])
    with refused("other-columns", "day-2.parquet", "d"):
        run(out, asked(files, data=days))
    assert len(run(out, asked(files, data=days[:2]))) == 220
    pq.write_table(whole, days[2])
    assert len(run(out, asked(files, data=days))) == 330


def test_labels_of_a_piece_that_was_not_kept_go(
    files: Path, tmp_path: Path, days: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    run(out, asked(files, data=days[:1]))
    with monkeypatch.context() as patch:
        patch.setattr(AutoLabeler, "save", _die)
        with pytest.raises(KeyboardInterrupt):
            run(out, asked(files, data=days[:2]))
    assert len(labeled(out)) > 110  # of the second day, written just before
    assert len(run(out, asked(files, data=days[:1]))) == 110


def test_two_kills_at_the_same_place(
    files: Path, tmp_path: Path, days: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(tmp_path / "whole", asked(files, data=days))
    run(tmp_path / "out", asked(files, data=days[:1]))
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(LabelFolder, "keep", _die)
            with pytest.raises(KeyboardInterrupt):
                run(tmp_path / "out", asked(files, data=days))
    assert run(tmp_path / "out", asked(files, data=days)).equals(whole)


def _die(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("changed", ["x.npy", "y.npy"])
def test_another_labeled_set_is_refused(files: Path, tmp_path: Path, changed: str) -> None:
    x, y = blobs(45, (0, 1, 2), seed=1)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "data.npy", blobs(60, (0, 1, 2), seed=2)[0])
    settings = Asked(
        data=(str(tmp_path / "data.npy"),), labeled=str(tmp_path / "x.npy"),
        labels=str(tmp_path / "y.npy"),
    )  # fmt: skip
    run(tmp_path / "out", settings)
    np.save(tmp_path / changed, np.load(tmp_path / changed)[::-1])
    with refused("other-data", tmp_path / changed, tmp_path / "out", "--out", "--answers"):
        run(tmp_path / "out", settings)
