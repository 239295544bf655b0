"""`wattstep tune` refuses what cannot be tuned in one line, and says on one screen what it found."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from tests.refusals import id_in
from tests.tuning.made import MadeBench
from tests.wording import assert_says

from wattstep.cli import run_command_line
from wattstep.cli.tune_screen import print_tune
from wattstep.tune.search import Search
from wattstep.tune.snippet import snippet_of
from wattstep.tune.tuning import TuneReport


@pytest.mark.parametrize(
    ("words", "id"),
    [
        (["lenet", "--threads", "4096"], "threads-above-cores"),
        (["lenet", "--threads", "two"], "malformed-list"),
        (["lenet", "--cores", "9999"], "core-refused"),
        (["lenett"], "unknown-workload"),
        (["lenet", "alexnet"], "several-to-tune"),
        (["lenet", "--for", "heat"], "unknown-goal"),
        (["lenet", "--turn", "volume"], "unknown-knob"),
        (["lenet", "--allow", "batch"], "unknown-allowance"),
        (["lenet", "--memory-limit", "much"], "malformed-size"),
        (["missing.py"], "no-such-script"),
        (["train.py", "--batch", "8"], "not-of-a-script"),
        (["train.py", "--for", "energy"], "script-for-time"),
        (["lenet", "--batch", "0"], "out-of-range"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    words: list[str],
    id: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    monkeypatch.setattr(sys, "argv", ["wattstep", "tune", *words, "--json"])
    assert run_command_line() == 2
    out, err = capsys.readouterr()
    assert id_in(out) == id
    assert len(err.splitlines()) == 1
    assert not Path("tunes").exists()


def report(tmp_path: Path, factor: float) -> TuneReport:
    bench = MadeBench(
        {("channels_last", True): factor, ("optimizer_kernel", "fused"): 1.0},
        curves={"optimizer_kernel": 1.0},
    )
    tuned = Search({"channels_last": (True,), "optimizer_kernel": ("fused",)}, bench).run()
    changes = {} if tuned.chosen is None else dict(tuned.chosen.candidate.changes)
    return TuneReport(
        name="lenet", script=False, batch_size=4, tuned=tuned, left_out={"clocks": "nobody may set them"},
        notes=["other programs keep cores busy"], folder=tmp_path, plan=tmp_path / "plan.json",
        snippet=snippet_of(changes),
    )  # fmt: skip


def screen(of: TuneReport) -> str:
    stream = StringIO()
    print_tune(of, Console(file=stream, width=110), snippet=True)
    return " ".join(stream.getvalue().split())


def test_one_screen_has_verdict_front_refusals_and_what_was_not_turned(tmp_path: Path) -> None:
    made = report(tmp_path, 0.8)
    words = screen(made)
    assert_says(words, "lenet", "batch 4", "Channels last", "0.800", "6 rounds", made.tuned.steps)
    assert_says(
        words, "fused optimizer", "--allow losses", "clocks", *made.notes, *made.left_out.values()
    )
    assert_says(words, f"run --plan {made.plan}", "memory_format=torch.channels_last")
    assert words.count("beaten by none") == 1  # the default is slower, and has the same memory


def test_where_nothing_is_better_it_says_to_keep_the_default(tmp_path: Path) -> None:
    made = report(tmp_path, 1.1)
    assert made.tuned.chosen is None
    assert_says(screen(made), "Keep the default", made.snippet)
