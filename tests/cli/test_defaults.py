"""Defaults of options from the environment and from pyproject.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from tests.refusals import refused

from wattstep.cli.defaults import defaults
from wattstep.cli.report import report
from wattstep.cli.run import run
from wattstep.cli.show import show


def commands() -> Any:
    app = typer.Typer()
    app.command("run")(run)
    app.command("show")(show)
    app.command("report")(report)
    group: Any = typer.main.get_command(app)
    return group.commands


def found(folder: Path, **environment: str) -> dict[str, dict[str, Any]]:
    return defaults(commands(), environment, folder, commands)


def test_the_environment_comes_before_the_file_and_a_command_s_table_before_all(
    tmp_path: Path,
) -> None:
    text = '[tool.wattstep]\npower-model = "vcpu"\nseconds = 5\n[tool.wattstep.run]\nseconds = 7\n'
    (tmp_path / "pyproject.toml").write_text(text)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert found(below)["run"] == {"power_model": "vcpu", "seconds": 7}
    assert found(below)["show"] == {}
    given = found(below, WATTSTEP_SECONDS="9", WATTSTEP_STRICT="1", WATTSTEP_BATCH="")
    assert given["run"] == {"power_model": "vcpu", "seconds": "9"}


def test_an_option_of_two_names_has_its_default_by_the_first(tmp_path: Path) -> None:
    given = found(tmp_path, WATTSTEP_OUT="elsewhere", WATTSTEP_OUTPUT="page.html")
    assert given["run"] == {"out": "elsewhere"}
    assert given["report"] == {"output": "page.html"}


def test_a_folder_of_runs_and_what_is_made_of_runs_are_understood_by_each_other_s_name() -> None:
    known = {name: {spelt for each in command.params for spelt in each.opts}
             for name, command in commands().items()}  # fmt: skip
    for name in ("run", "report"):
        assert known[name] >= {"--out", "--output", "-o"}


def test_without_a_file_or_a_table_of_ours_there_are_none(tmp_path: Path) -> None:
    assert found(tmp_path)["run"] == {}
    (tmp_path / "pyproject.toml").write_text('[tool.other]\nseconds = "x"\n')
    assert found(tmp_path)["run"] == {}
    (tmp_path / "pyproject.toml").write_text("[tool.other\n")  # that tool's business
    assert found(tmp_path)["run"] == {}


@pytest.mark.parametrize(
    ("text", "id", "named"),
    [
        ("[tool.wattstep.run]\nsecond = 1\n", "unknown-default", "mean seconds"),
        ("[tool.wattstep.runn]\nseconds = 1\n", "unknown-default", "mean run"),
        ("[tool.wattstep\n", "unreadable-defaults", "pyproject.toml"),
        ("[tool]\nwattstep = 3\n", "malformed-defaults", "tool.wattstep"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, text: str, id: str, named: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with refused(id, named):
        found(tmp_path)


def test_a_word_that_no_command_has_is_refused_of_one_command_too(tmp_path: Path) -> None:
    one = {"run": commands()["run"]}
    (tmp_path / "pyproject.toml").write_text('[tool.wattstep]\npower_mdel = "vcpu"\n')
    with refused("unknown-default", "did you mean power-model"):
        defaults(one, {}, tmp_path, commands)
    # What only others have is theirs.
    (tmp_path / "pyproject.toml").write_text("[tool.wattstep]\npaper = true\n")
    assert defaults(one, {}, tmp_path, commands) == {"run": {}}
