"""Runs whose files were cut at any place: damage is named, and nothing else is ever raised."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.conftest import Trainer

import wattstep
from wattstep.errors import DamagedRunError

CLOSED = Path(__file__).parent.parent / "fixtures" / "runs" / "schema-1"
FILES = sorted(path.name for path in CLOSED.iterdir())


def used(run: Path) -> bool:
    """Whether the run could be read; anything but damage is raised."""
    try:
        opened = wattstep.load(run)
        opened.metrics()
        opened.document()
    except DamagedRunError:
        return False
    return True


def cut(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


@pytest.mark.parametrize("name", FILES)
def test_a_closed_run_with_a_cut_file_is_damaged(tmp_path: Path, name: str) -> None:
    size = (CLOSED / name).stat().st_size
    draw = random.Random(name)
    for number, left in enumerate([0, 1, size - 1, *(draw.randrange(size) for _ in range(5))]):
        run = tmp_path / f"run{number}"
        shutil.copytree(CLOSED, run)
        cut(run / name, left)
        assert not used(run), (name, left)


@pytest.mark.parametrize("name", FILES)
def test_a_closed_run_that_lacks_a_file_is_damaged(tmp_path: Path, name: str) -> None:
    shutil.copytree(CLOSED, tmp_path / "run")
    (tmp_path / "run" / name).unlink()
    with pytest.raises(DamagedRunError, match=name):
        wattstep.load(tmp_path / "run").document()


@pytest.fixture(scope="module")
def unclosed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose trainer was killed, with its journals."""
    run = tmp_path_factory.mktemp("unclosed") / "run"
    one = Trainer(run, 10**6, "torch")
    one.until(1.0)
    one.process.kill()
    one.process.communicate()
    return run


def copied(run: Path, to: Path) -> Path:
    shutil.copytree(run, to)
    return to


def test_journals_cut_at_any_place_give_a_run_or_named_damage(
    tmp_path: Path, unclosed: Path
) -> None:
    draw = random.Random(1)
    assert used(copied(unclosed, tmp_path / "whole"))
    for number, path in enumerate(sorted((unclosed / "journal").iterdir())):
        size = path.stat().st_size
        most = 400_000 if path.name == "marks.bin" else size  # the rest is reserved, and empty
        for left in {0, draw.randrange(min(size, most) + 1)}:
            run = copied(unclosed, tmp_path / f"run{number}-{left}")
            cut(run / "journal" / path.name, left)
            used(run)


def test_all_journals_cut_at_once_give_a_run_or_named_damage(
    tmp_path: Path, unclosed: Path
) -> None:
    for seed in range(6):
        draw = random.Random(seed)
        run = copied(unclosed, tmp_path / f"run{seed}")
        for path in sorted((run / "journal").iterdir()):
            cut(path, draw.randrange(path.stat().st_size + 1))
        used(run)


def test_a_journal_that_is_gone_altogether_gives_a_run_or_named_damage(
    tmp_path: Path, unclosed: Path
) -> None:
    for number, path in enumerate(sorted((unclosed / "journal").iterdir())):
        run = copied(unclosed, tmp_path / f"run{number}")
        (run / "journal" / path.name).unlink()
        used(run)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: None,
        lambda path: path.mkdir(),
        lambda path: path.write_text("no folder"),
        lambda path: (path / "journal").mkdir(parents=True),
    ],
)
def test_what_is_no_run_is_named_so(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "run")
    with pytest.raises(DamagedRunError):
        wattstep.load(tmp_path / "run")
