"""A day of training on a board whose CPU and GPU share one memory ends before the machine has none left."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fleet.test_watchdog import machine
from tests.wording import assert_says

from wattstep.errors import WattstepError
from wattstep.train.child.watchdog import find_watchdog
from wattstep.train.daily import child
from wattstep.train.daily.folder import DailyFolder
from wattstep.train.daily.settings import DailySettings


def test_its_child_is_ended_below_the_reserve_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child only waits: nothing but the watchdog ends it."""
    script = "import time; time.sleep(100)"

    def waiting(entry: str, *arguments: str) -> list[str]:
        assert entry == "wattstep.train.daily.child:main"
        return ["python3", "-c", script, *arguments]

    monkeypatch.setattr(child, "child_command", waiting)
    board = machine(tmp_path / "board", total=7620, available=5000)
    watchdog = find_watchdog("cuda", root=board)
    assert watchdog is not None
    machine(tmp_path / "board", total=7620, available=300)
    with pytest.raises(WattstepError) as raised:
        child.run_part(DailyFolder(tmp_path), None, lambda news: None, watchdog)
    assert_says(str(raised.value), "watchdog", "300 MiB", "381 MiB", "5,000 MiB", "same command")


def test_each_part_of_a_day_s_training_on_a_gpu_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(child, "find_watchdog", asked.append)
    monkeypatch.setattr(child, "run_part", lambda *given: None)
    folder = DailyFolder(tmp_path / "daily")
    folder.open(DailySettings(workload="lenet", processor="cuda"))
    child.train_daily(folder, [4, 8], lambda news: None)
    folder.close()
    assert asked == ["cuda"] * 3  # the pre-training, and each batch size
