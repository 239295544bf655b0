"""A tune that was killed goes on where it stopped, and what is not its own is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.refusals import refused
from tests.tuning.made import MadeBench
from tests.wording import assert_says

from wattstep.errors import RecordingError
from wattstep.train.script import ProfileSettings
from wattstep.tune.folder import TURNS, KeptBench, TuneFolder
from wattstep.tune.search import Search
from wattstep.tune.tuning import Question
from wattstep.tune.turns import Ask, Turn

VALUES = {"channels_last": (True,), "allocator": ("keep",)}
FACTORS = {("channels_last", True): 0.9, ("allocator", "keep"): 0.8}


class Killed(Exception):
    """Stands for what ends a tune."""


class Mortal:
    """A bench that is killed after some turns."""

    def __init__(self, bench: MadeBench, turns: int) -> None:
        self._bench, self._turns = bench, turns

    def measure(self, ask: Ask) -> Turn:
        if len(self._bench.asks) == self._turns:
            raise Killed
        return self._bench.measure(ask)


def opened(
    path: Path, asked: dict[str, object] | None = None, said: list[str] | None = None
) -> TuneFolder:
    return TuneFolder(path, asked or {"batch": 4}, "cpu", (said if said is not None else []).append)


@pytest.mark.parametrize("turns", [1, 7, 30])
def test_a_killed_tune_goes_on_where_it_stopped(tmp_path: Path, turns: int) -> None:
    whole = MadeBench(FACTORS)
    answer = Search(VALUES, whole).run()
    first = MadeBench(FACTORS)
    with opened(tmp_path) as folder, pytest.raises(Killed):
        Search(VALUES, KeptBench(folder, Mortal(first, turns))).run()
    with (tmp_path / TURNS).open("ab") as file:  # the line that was being written
        file.write(b'{"ask": "verdict/0')
    said: list[str] = []
    second = MadeBench(FACTORS)
    with opened(tmp_path, said=said) as folder:
        again = Search(VALUES, KeptBench(folder, second)).run()
    assert again == answer
    assert len(second.asks) == len(whole.asks) - turns
    (line,) = said
    assert_says(line, TURNS, f"line {turns + 1}")
    third = MadeBench(FACTORS)
    with opened(tmp_path) as folder:
        assert Search(VALUES, KeptBench(folder, third)).run() == answer
    assert not third.asks


def test_another_tune_in_the_folder_is_refused_by_what_differs(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    with refused("other-settings", "batch was 4, now 8"):
        opened(tmp_path, {"batch": 8})


def test_a_script_s_tune_goes_on_and_names_the_setting_that_differs(tmp_path: Path) -> None:
    def asked(*arguments: str) -> dict[str, object]:
        return Question(settings=ProfileSettings(script=__file__, arguments=arguments)).document()

    for _ in range(2):
        with opened(tmp_path, asked("--steps", "5")):
            pass
    with refused("other-settings", "arguments was ['--steps', '5'], now []") as told:
        opened(tmp_path, asked())
    assert "marker" not in str(told.value)


def test_two_tunes_cannot_write_into_one_folder(tmp_path: Path) -> None:
    with opened(tmp_path), refused("being-written", "another tune"):
        opened(tmp_path)


def test_a_name_that_no_file_system_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="too long"):
        opened(tmp_path / ("x" * 300))


def test_a_run_is_no_tune(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with refused("run-as-folder", tmp_path):
        opened(tmp_path)
