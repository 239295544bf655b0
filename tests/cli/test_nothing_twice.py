"""No sentence stands twice in one output, least of all the reason why there is no energy."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from tests.cli.repeated import repeated, sentences
from tests.comparison.made import recorded
from tests.matrix.answers import call

from wattstep.cli.progress import TrainingProgress, Warned
from wattstep.errors import InvalidValueError
from wattstep.recorded.series import NO_SENSOR
from wattstep.train.progress import Progress

ABSENT = {
    "thermal": "no thermal zone below /sys/class/thermal on this machine",
    "fan": "no fan below /sys/class/hwmon, and none of a board that is known",
}


@pytest.fixture(scope="module", params=["without a sensor", "with one"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two batch sizes, and two of one."""
    home = tmp_path_factory.mktemp("home")
    watts = None if request.param == "without a sensor" else 5.0
    for name, batch in (("a", 4), ("again", 4), ("b", 16)):
        more = {} if watts else {"absent": ABSENT}
        slower = batch / 4 * (1.01 if name == "again" else 1)
        recorded(home / "runs" / name, slower, watts=watts, batch_size=batch, jitter=1000, cpu=0.9, **more)  # fmt: skip
    return home


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "command",
    [
        "show runs/a",
        "show runs/a --full",
        "show runs/a runs/b",
        "show runs",
        "runs show runs/a",
        "show runs/a --steps 1000 --price 0.3",
        "explain runs/a",
        "explain runs/a --full",
        "compare runs/a runs/b --across batch",
        "compare runs/a runs/b --across batch --full",
        "compare runs/a runs/again runs/b --across batch --metric energy_per_sample",
        "compare runs",
        "compare runs/a --baseline runs/again",
        "observe runs/a runs/b",
        "runs list",
        "report runs/a runs/b -o page.html",
    ],
)
def test_no_sentence_stands_twice_in_an_output(
    command: str, width: int, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("COLUMNS", str(width))
    out = call(*command.split()).out
    assert repeated(out) == [], out
    assert " ".join(out.split()).count(NO_SENSOR) <= 1
    assert len(re.findall("overlap", out)) <= 1


@pytest.mark.parametrize(
    "command", ["show runs/a runs/b", "explain runs/a runs/b", "observe runs/a runs/b"]
)
@pytest.mark.parametrize("full", [[], ["--full"]])
def test_of_several_runs_what_holds_of_each_is_said_of_the_first(
    command: str, full: list[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    out = call(*command.split(), *full).out
    told = sentences(out)
    assert [one for one in set(told) if told.count(one) > 1] == []
    assert " ".join(out.split()).count(NO_SENSOR) <= 1


def test_a_reason_within_different_sentences_is_found() -> None:
    reason = "no sensor of power was found on this machine here"
    assert repeated(f"Energy is missing: {reason} of ours, power: {reason} too") == [reason]
    assert repeated("time by phase 3.41 ms measured " * 9) == []


@pytest.mark.parametrize("quiet", [False, True])
def test_a_warning_is_said_once_and_in_quiet_not_beside_a_result_that_has_it(
    quiet: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    warned = Warned(quiet=quiet)
    for cores in (1.9, 2.0):  # of two trainings
        with TrainingProgress("made", quiet=quiet, warned=warned) as progress:
            progress.warn(f"other programs keep {cores} of 2 cores busy, and the training waits")
            progress.warn("the disk is slow")
    warned.say_others({"when training began, other programs kept 1.9 of 2 cores busy"})
    err = capsys.readouterr().err
    assert err.count("other programs") == (not quiet)
    assert err.count("disk is slow") == 1


def test_what_is_refused_at_once_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with suppress(InvalidValueError), TrainingProgress("made", quiet=False) as progress:
        progress.update(Progress(stage="preparing"))
        progress.warn("the disk is slow")
        raise InvalidValueError("no such optimizer")
    assert capsys.readouterr().err == ""  # the refusal itself is the command's to say
    with TrainingProgress("made", quiet=False) as progress:
        progress.update(Progress(stage="preparing"))
        progress.warn("slow")
        progress.update(Progress(stage="training", share=0.5, steps=3))
    assert capsys.readouterr().err.splitlines() == [
        "made: preparing (0 %)", "wattstep: warning: slow", "made: training, step 3 (50 %)",
    ]  # fmt: skip
