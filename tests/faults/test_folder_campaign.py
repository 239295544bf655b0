"""The campaign of strangers' folders sees what a folder does to who opens it, and goes on where it was stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests import folder_campaign
from tests.folder_campaign import Bench, Opened, Results, opened

from wattstep.errors import DamagedRunError

MORE = 400_000_000
OUTCOMES = ("folders", "read", "refused", "not survived")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A bench with one small run."""
    bench = Bench(
        bases=tmp_path / "bases", place=tmp_path / "place", temporary=tmp_path / "temporary",
        working=tmp_path / "working",
    )  # fmt: skip
    (bench.bases / "one").mkdir(parents=True)
    (bench.bases / "one" / "run.json").write_text("{}")
    bench.working.mkdir()
    return bench


def _looks(monkeypatch: pytest.MonkeyPatch, bench: Bench, bad: Any) -> list[Opened]:
    """Opens six folders, of which the third does something."""

    def look(run: Path, *_: Any) -> None:
        if run.parent.name == "2":
            bad(run)
        elif run.parent.name == "4":
            raise DamagedRunError("refused")

    monkeypatch.setattr(folder_campaign, "look", look)
    monkeypatch.setattr(folder_campaign, "make_changed", lambda bases, run, rng: "one made")
    return opened(bench, 1, range(6))


def _defect(_: Path) -> None:
    raise KeyError("a defect")


def _death(_: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _greed(_: Path) -> None:
    bytearray(b"x" * 2 * MORE)


def _letter(run: Path) -> None:
    (run.parent / "outside" / "letter").touch()


def _change(run: Path) -> None:
    (run.parent / "outside" / "file").write_text("theirs")


@pytest.mark.parametrize("bad", [_defect, _death, _greed, _letter, _change])
def test_one_of_six_folders_is_not_survived(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, bad: Any
) -> None:
    # A child begins with the pages of this process, which has run other tests before.
    monkeypatch.setattr(folder_campaign, "MOST_BYTES", psutil.Process().memory_info().rss + MORE)

    found = _looks(monkeypatch, bench, bad)

    assert [one.number for one in found] == [*range(6)]
    assert [one.survived for one in found] == [True, True, False, True, True, True]
    assert found[4].outcome == "refused"


def test_a_folder_that_could_not_be_changed_is_counted_apart(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def changed(bases: Path, run: Path, rng: Any) -> str:
        if run.parent.name == "1":
            raise KeyError("an error of the campaign's own")
        return "one made"

    monkeypatch.setattr(folder_campaign, "look", lambda *_: None)
    monkeypatch.setattr(folder_campaign, "make_changed", changed)
    with closing(Results(tmp_path / "results", 1)) as results:
        results.add(opened(bench, 1, range(3)), 1.0)

    assert results.total()["unchanged"] == 1


@pytest.mark.parametrize("place", ["bases/one/run.json", "working/.profile"])
def test_a_write_into_another_run_or_the_home_ends_the_campaign(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    target = bench.bases.parent / place

    with pytest.raises(SystemExit):
        _looks(monkeypatch, bench, lambda run: target.write_text("mine"))


def test_results_go_on_behind_the_last_whole_line(tmp_path: Path) -> None:
    one = Opened(number=0, outcome="read", words="", cpu_s=2.0, peak=10**9)
    lost = Opened(number=1, outcome="not survived", words="why", cpu_s=90.0, peak=2 * 10**9)
    with closing(Results(tmp_path, 1)) as first:
        first.add([one, lost], 100.0)
    with (tmp_path / "seed-1.jsonl").open("ab") as file:
        file.write(b'{"folders": 2, "re')  # of a sitting that was killed
    with closing(Results(tmp_path, 2)) as other:
        other.add([one], 3.0)

    with closing(Results(tmp_path, 1)) as again:
        again.add([one, one, one], 7.0)
        assert again.done == 5
        total = again.total_of_all()

    assert total == json.loads((tmp_path / "total.json").read_text())
    assert total is not None
    assert [total[name] for name in OUTCOMES] == [6, 5, 0, 1]
    assert (total["cpu_s"], total["longest_s"], total["largest_gb"]) == (110.0, 90.0, 2.0)
    assert [words.partition(",")[0] for words in total["lost"]] == ["1"]


def test_two_processes_share_no_seed(tmp_path: Path) -> None:
    with closing(Results(tmp_path, 1)) as held, pytest.raises(SystemExit):
        Results(tmp_path, 1)
    assert held.done == 0


def test_parts_of_a_campaign_come_to_the_whole(tmp_path: Path) -> None:
    for count, folder in ((5, "parts"), (9, "parts"), (9, "whole")):
        words = ("tests.mutations", "--folders", str(count), "--seed", "3", "-o", tmp_path / folder)
        subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True, timeout=900)

    parts, whole = (
        json.loads((tmp_path / each / "total.json").read_text()) for each in ("parts", "whole")
    )
    assert [parts[name] for name in OUTCOMES] == [whole[name] for name in OUTCOMES]
    assert parts["folders"] == 9
