"""An empty path, as of a variable of the shell that is not set, is not the folder that one is in."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command_line import Command
from tests.refusals import id_in


@pytest.mark.parametrize(
    "words",
    [
        ["run", "lenet", "-o", ""],
        ["tune", "lenet", "--out="],
        ["schedule", "lenet", "--on", "equal-2", "-o", ""],
        ["report", "--output", ""],
        ["show", ""],
        ["run", "lenet", "--data", ""],
    ],
)
def test_it_is_refused_in_one_line(piped: Command, tmp_path: Path, words: list[str]) -> None:
    code, out, err = piped(*words, "--json")
    assert (code, id_in(out)) == (2, "empty-path")
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_that_of_a_project_s_defaults_is_refused_too(piped: Command, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.wattstep.tune]\nout = ""\n')
    assert id_in(piped("tune", "lenet", "--json")[1]) == "empty-path"
