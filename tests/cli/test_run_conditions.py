"""`wattstep run` and the conditions of a run: what is asked, refused, waited for and written down."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import id_in, refused
from tests.wording import assert_says

from wattstep.cli.options import ask_ambient
from wattstep.run import load


def wattstep(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wattstep", *arguments],
        cwd=cwd, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


class Terminal(io.StringIO):
    """Text that says of itself that a person sits there."""

    def isatty(self) -> bool:
        return True


def ask(answer: str, given: float | None = None, **changed: Any) -> tuple[float | None, str]:
    screen = changed.get("screen", Terminal())
    keyboard = changed.get("keyboard", Terminal(answer))
    wanted = changed.get("wanted", True)
    return ask_ambient(given, wanted=wanted, keyboard=keyboard, screen=screen), screen.getvalue()


@pytest.mark.parametrize(
    ("answer", "value"), [("21.5\n", 21.5), ("21,5 °C\n", 21.5), ("-3\n", -3.0), ("\n", None)]
)
def test_the_ambient_temperature_is_asked_for_once(answer: str, value: float | None) -> None:
    temperature, question = ask(answer)
    assert temperature == value
    assert_says(question, "°C", "unknown")


def test_nobody_is_asked_who_said_it_does_not_need_it_or_is_not_there() -> None:
    assert ask("5\n", given=21.0) == (21.0, "")
    assert ask("5\n", wanted=False) == (None, "")
    assert ask("5\n", screen=io.StringIO()) == (None, "")
    assert ask("5\n", keyboard=io.StringIO("5\n")) == (None, "")


def test_an_answer_that_is_no_temperature_is_refused() -> None:
    with refused("not-a-temperature", "warm"):
        ask("warm\n")


def test_a_run_with_idle_time_says_so_and_has_it_outside_of_its_steps(tmp_path: Path) -> None:
    done = wattstep(
        "run", "lenet", "--steps", "5", "--threads", "1", "--trace", "none", "--idle", "500ms",
        "--stable", "--ambient", "21.5", "--exclude", "disturbed", "--subtract-idle", "before",
        "--power-model", "vcpu", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)["runs"]
    assert document["options"]["exclude"] == ["disturbed"]
    assert document["options"]["subtract_idle"] == "before"
    assert "idle before" in done.stderr
    assert "idle after, step 8" in done.stderr
    run = load(tmp_path / document["run"])
    assert run.info.conditions["ambient"]["value"] == 21.5
    assert set(run.info.conditions["stable"]) >= {"steady", "waited_s", "criterion", "judged"}
    steps = run.series.steps
    ((before_begin, before_end),) = steps.rest_ns["idle_before"]
    ((after_begin, after_end),) = steps.rest_ns["idle_after"]
    assert before_end <= steps.start_ns[0]
    assert after_begin >= steps.end_ns[-1]
    for begin, end in ((before_begin, before_end), (after_begin, after_end)):
        assert 0.5e9 <= end - begin < 5e9
    other = [span for name, spans in steps.rest_ns.items() if "idle" not in name for span in spans]
    assert all(
        begin >= after_end or end <= after_begin for begin, end in np.reshape(other, (-1, 2))
    )


@pytest.mark.parametrize(
    ("options", "id", "named"),
    [
        (["--subtract-idle", "before"], "needs-idle", "--idle"),
        (["--idle", "soon"], "malformed-duration", "'soon'"),
        (
            ["--exclude", "slow"],
            "unknown-exclusion",
            "--exclude slow: there are throttled",
        ),
        (["--ambient", "295"], "out-of-range", "--ambient 295: it lies between -60"),
        (["--cooldown", "later"], "malformed-cooldown", "--cooldown later: auto, none"),
        (["--sustain", "--until", "accuracy=0.6"], "two-ends", "--sustain and --until"),
        (
            ["--target", "adb:emulator-5554"],
            "no-engine-on-phone",
            "wattstep engines export",
        ),
        (
            ["--target", "emulate:jetson-tx2,heat=8", "--ambient", "30"],
            "other-ambient",
            "25 °C",
        ),
        (["--target", "moon:base"], "unknown-target", "local, replay:..., emulate:..."),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_trained(
    tmp_path: Path, options: list[str], id: str, named: str
) -> None:
    done = wattstep("run", "lenet", "--json", *options, cwd=tmp_path)
    assert (done.returncode, id_in(done.stdout)) == (2, id)
    assert named in " ".join(done.stderr.split())
    assert not (tmp_path / "runs").exists()


def test_a_password_in_a_target_is_refused_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("")
    for target in ("ssh://me:s3cret@board", "ssh://me:s3cret@board,foo"):
        done = wattstep("profile", "--target", target, "script.py", cwd=tmp_path)
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1
        assert "s3cret" not in done.stderr
