"""`wattstep tune` refuses what cannot be tuned in one line, and says on one screen what it found."""

from __future__ import annotations

import shlex
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from tests.command_line import Command
from tests.refusals import id_in
from tests.tuning.made import MadeBench
from tests.wording import assert_says

from wattstep.cli.tune_screen import print_tune
from wattstep.tune.search import Search
from wattstep.tune.snippet import snippet_of
from wattstep.tune.tuning import Question, TuneReport, command_of, own_of, settings_of


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
        (["train.py", "--seed", "8"], "not-of-a-script"),
        (["lenet", "--batch", "0"], "out-of-range"),
        (["lenet", "--batch", "10000000000"], "batch-beyond-memory"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(command: Command, words: list[str], id: str) -> None:
    Path("train.py").write_text("")
    code, out, err = command("tune", *words, "--json")
    assert (code, id_in(out)) == (2, id)
    assert len(err.splitlines()) == 1
    assert not Path("tunes").exists()


def report(tmp_path: Path, factor: float) -> TuneReport:
    bench = MadeBench(
        {("channels_last", True): factor, ("optimizer_kernel", "fused"): 1.0},
        curves={"optimizer_kernel": 1.0},
        begin_s={"channels_last": 3.0},
        noise=0.01,
    )
    tuned = Search({"channels_last": (True,), "optimizer_kernel": ("fused",)}, bench).run()
    changes = {} if tuned.chosen is None else dict(tuned.chosen.candidate.changes)
    return TuneReport(
        name="lenet", script=False, batch_size=4, tuned=tuned, left_out={"clocks": "nobody may set them"},
        notes=["other programs keep cores busy"], folder=tmp_path, plan=tmp_path / "plan.json",
        command=f"wattstep run --plan {tmp_path / 'plan.json'}", snippet=snippet_of(changes),
    )  # fmt: skip


def screen(of: TuneReport) -> str:
    stream = StringIO()
    print_tune(of, Console(file=stream, width=110), snippet=True)
    return " ".join(stream.getvalue().split())


def test_one_screen_has_verdict_front_refusals_and_what_was_not_turned(tmp_path: Path) -> None:
    made = report(tmp_path, 0.8)
    words = screen(made)
    assert_says(words, "lenet", "batch 4", "Channels last", "6 rounds", made.tuned.steps)
    assert_says(
        words, "fused optimizer", "--allow losses", "clocks", *made.notes, *made.left_out.values()
    )
    assert_says(words, made.command, "memory_format=torch.channels_last")
    assert made.tuned.chosen is not None
    # 3 s over a fifth of 20 ms.
    assert 700 < float(made.tuned.chosen.earned) < 800
    assert_says(
        words,
        f"{float(made.tuned.chosen.ratio):.3f}",
        f"{float(made.tuned.chosen.earned):,.0f} steps",
    )
    assert words.count("beaten by none") == 1  # the default is slower, and has the same memory


def test_losses_that_were_not_compared_are_told_by_name(tmp_path: Path) -> None:
    made = report(tmp_path, 0.8)
    (_, named) = made.tuned.measured
    free = replace(made, tuned=replace(made.tuned, compared=0, uncompared=(named.candidate,)))
    assert_says(screen(free), "not compared", "others: channels last")
    assert "rounding does" in screen(made)
    assert "rounding does" not in screen(free)
    assert free.to_dict()["losses_not_compared"] == ["channels last"]


def test_where_nothing_is_better_it_says_to_keep_the_default(tmp_path: Path) -> None:
    made = report(tmp_path, 1.1)
    assert made.tuned.chosen is None
    assert_says(screen(made), "Keep the default", made.snippet)


def test_the_command_keeps_what_the_tune_was_asked_for(tmp_path: Path) -> None:
    plan, script = tmp_path / "plan.json", tmp_path / "train it.py"
    script.touch()
    own = Question(
        settings=settings_of("lenet", seed=3, classes=7, image_size=40, data_dir=str(tmp_path))
    )
    assert words(own, plan) == ["run", "--plan", str(plan), "--data", str(tmp_path)]
    assert own_of(own.settings).items() >= {"seed": 3, "classes": 7, "image_size": 40}.items()
    turned = {
        "channels_last": True,
        "optimizer_kernel": "fused",
        "interop_threads": 1,
        "policy": "default",
    }
    assert own_of(settings_of("lenet", **turned)).items() >= turned.items()
    of_script = settings_of(
        str(script), ("--lr", "1 2"), step_marker="backward", power_model="vcpu"
    )
    assert words(Question(settings=of_script), plan) == [
        "profile", "--plan", str(plan), "--power-model", "vcpu", "--step-marker", "backward", str(script), "--lr", "1 2",
    ]  # fmt: skip
    of_module = settings_of("timeit", ("-n", "3"), module=True)
    assert words(Question(settings=of_module), plan)[-5:] == ["-m", "timeit", "--", "-n", "3"]


def words(question: Question, plan: Path) -> list[str]:
    """Of the command, without its first."""
    return shlex.split(command_of(question, plan))[1:]
