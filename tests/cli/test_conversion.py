"""Values of options are what typer makes of them, whether a library converts them or nobody has to."""

from __future__ import annotations

import enum
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import pytest
import typer

from wattstep.cli.conversion import convert_late

QUICK = """
import sys
from wattstep.cli import run_command_line
sys.argv = ["wattstep", "devices", "jetson-tx2", "--json"]
assert run_command_line() == 0
assert "pydantic" not in sys.modules
"""


class Kind(str, enum.Enum):
    """Of which one is chosen."""

    plain = "plain"
    other = "other"


def given(*words: str, late: bool) -> dict[str, Any] | int:
    """Values that a command gets; its exit code where it gets none."""
    seen: list[dict[str, Any]] = []
    app = typer.Typer()

    @app.command()
    def command(
        name: str,
        number: int = 3,
        port: Annotated[int, typer.Option(min=1)] = 8,
        share: float = 0.5,
        path: Optional[Path] = None,  # noqa: UP045
        runs: Optional[list[Path]] = None,  # noqa: UP045
        kind: Kind = Kind.plain,
        quiet: bool = False,
        parsed: Annotated[str, typer.Option(parser=str.upper)] = "a",
    ) -> None:
        seen.append({k: v for k, v in locals().items() if k != "seen"})

    made: Any = typer.main.get_command(app)
    if late:
        parse = made.parse_args

        def parse_args(context: Any, words: list[str]) -> Any:
            convert_late(made.get_params(context))
            return parse(context, words)

        made.parse_args = parse_args
    try:
        made(list(words), standalone_mode=False)
    except Exception as error:
        return int(getattr(error, "exit_code", 1))
    return seen[0]


@pytest.mark.parametrize(
    "words",
    [
        ("it",),
        ("it", "--number", "4", "--port", "9", "--share", "1"),
        ("it", "--path", "a/b", "--runs", "c", "--runs", "d", "--kind", "other", "--quiet"),
        ("it", "--parsed", "b"),
        ("it", "--number", "x"),
        ("it", "--port", "0"),
        ("it", "--kind", "none"),
        (),
    ],
)
def test_values_are_those_that_typer_makes(words: tuple[str, ...]) -> None:
    assert given(*words, late=True) == given(*words, late=False)


def test_a_command_whose_options_are_texts_loads_no_library_to_convert_them() -> None:
    subprocess.run([sys.executable, "-c", QUICK], check=True, stdout=subprocess.DEVNULL)
