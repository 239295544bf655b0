"""What is kept between commands: found again, computed anew when its key changes, never in the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wattstep.store import cache
from wattstep.store.cache import cache_folder, cached, cached_of_run, forget_oldest, hash_files


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_value_is_computed_once_for_a_key() -> None:
    calls: list[int] = []

    def compute() -> int:
        calls.append(1)
        return len(calls)

    assert [cached("n", key, compute) for key in ("a", "a", "b", "b", "a")] == [1, 1, 2, 2, 3]


@pytest.mark.parametrize("content", ["", "{", "[]", "7", '{"key": "a"}', '{"value": 3}'])
def test_a_damaged_cache_counts_as_none(folder: Path, content: str) -> None:
    (folder / "wattstep").mkdir()
    (folder / "wattstep" / "n.json").write_text(content)
    assert cached("n", "a", lambda: 5) == 5
    assert cached("n", "a", lambda: 6) == 5


def test_a_cache_that_cannot_be_written_is_done_without(folder: Path) -> None:
    (folder / "wattstep").write_text("a file where the folder should be")
    assert cached("n", "a", lambda: 5) == 5


def test_what_is_kept_of_runs_stays_small(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MOST_BYTES_OF_RUNS", 50_000)
    for number in range(200):  # some 1 kB each
        run = tmp_path / f"run-{number}"
        run.mkdir()
        assert cached_of_run("figures", run, lambda: "x" * 1000) == "x" * 1000
    kept = list((folder / "wattstep" / "runs").iterdir())
    assert 40 < len(kept) < 120  # 50 at a look, and what came since
    assert cached_of_run("figures", run, lambda: 1) == "x" * 1000


def test_the_oldest_files_are_forgotten_first(folder: Path) -> None:
    for age, name in enumerate(["newest", "second", "third", "oldest"]):
        path = folder / name
        path.write_bytes(bytes(100))
        os.utime(path, (1e9 - age, 1e9 - age))
    forget_oldest(folder, most_bytes=350)
    assert {path.name for path in folder.iterdir()} == {"newest", "second", "third"}
    forget_oldest(folder, most_files=2)
    assert {path.name for path in folder.iterdir()} == {"newest", "second"}
    forget_oldest(folder, most_bytes=10)
    assert [path.name for path in folder.iterdir()] == ["newest"]
    forget_oldest(folder / "absent", most_files=1)


def test_a_relative_cache_folder_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert cache_folder() == Path.home() / ".cache" / "wattstep"


def test_a_key_changes_with_content_name_and_text(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    two.write_text("b")
    keys = {hash_files([one]), hash_files([two]), hash_files([one, two]), hash_files([one], "x")}
    two.write_text("c")
    assert len(keys | {hash_files([one, two])}) == 5
    assert hash_files([one, two]) == hash_files([two, one])
