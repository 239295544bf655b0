"""Folders of runs: what is made for one that never begins goes away again, and nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.refusals import refused

from wattstep.schema.journal import JOURNAL
from wattstep.store.files import create_folder, remove_empty


def test_what_was_made_above_a_run_is_told_innermost_first(tmp_path: Path) -> None:
    run = tmp_path / "a" / "b" / "run"
    assert create_folder(run) == (tmp_path / "a" / "b", tmp_path / "a")
    assert (run / JOURNAL).is_dir()
    assert create_folder(tmp_path / "a" / "other") == ()


def test_folders_are_removed_as_far_as_nothing_is_in_them(tmp_path: Path) -> None:
    inner, outer = tmp_path / "a" / "b", tmp_path / "a"
    inner.mkdir(parents=True)
    (outer / "kept").touch()
    remove_empty((inner, outer))
    assert list(outer.iterdir()) == [outer / "kept"]
    remove_empty((inner,))  # it is gone already


def test_a_folder_that_is_taken_is_refused(tmp_path: Path) -> None:
    create_folder(tmp_path / "run")
    with refused("run-exists"):
        create_folder(tmp_path / "run")
