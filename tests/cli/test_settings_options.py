"""Options of commands that are fields of settings: each is written once, where the setting is."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import typer
from typer.testing import CliRunner

from wattstep.cli.run import run
from wattstep.cli.settings_options import with_settings
from wattstep.schema.settings import option_of, setting
from wattstep.train.settings import TrainingSettings


@dataclass(frozen=True, kw_only=True)
class Baking:
    """Settings of nobody's."""

    heat: float = setting(180.0, "Of the oven.", "CELSIUS", option="oven-heat")
    fan: bool = setting(False, "Whether air moves.")
    seed: int = 7  # says nothing of its own


taken: list[dict[str, Any]] = []


@with_settings("loaf", "heat", "fan", "seed", of=Baking, seed=9)
def bake(name: str, heat: float, loaf: str = "rye", **given: Any) -> None:
    """Bakes."""
    taken.append({"name": name, "heat": heat, "loaf": loaf, **given})


def app() -> typer.Typer:
    made = typer.Typer(add_completion=False)
    made.command()(bake)
    return made


def test_a_field_is_an_option_with_its_name_type_and_default() -> None:
    taken.clear()
    assert CliRunner().invoke(app(), ["one"]).exit_code == 0
    arguments = ["two", "--oven-heat", "200", "--fan", "--seed", "1", "--loaf", "oat"]
    assert CliRunner().invoke(app(), arguments).exit_code == 0
    assert taken == [
        {"name": "one", "heat": 180.0, "loaf": "rye", "fan": False, "seed": 9},
        {"name": "two", "heat": 200.0, "loaf": "oat", "fan": True, "seed": 1},
    ]
    assert CliRunner().invoke(app(), ["two", "--oven-heat", "hot"]).exit_code == 2


def test_its_help_stands_in_the_order_asked_for_and_is_that_of_a_training_where_it_says_none() -> (
    None
):
    shown = CliRunner().invoke(app(), ["--help"], env={"COLUMNS": "120", "NO_COLOR": "1"}).output
    order = ["--loaf", "--oven-heat", "CELSIUS", "Of the oven.", "--fan", "Whether air moves."]
    order += ["--seed", "Of everything that is drawn."]
    places = [shown.index(each) for each in order]
    assert places == sorted(places)


def test_a_command_is_called_in_python_with_the_same_defaults() -> None:
    taken.clear()
    bake(name="three", loaf="oat")
    assert taken == [{"name": "three", "heat": 180.0, "loaf": "oat", "fan": False, "seed": 9}]


def test_every_setting_of_a_training_that_has_a_help_is_an_option_of_run() -> None:
    made = typer.Typer(add_completion=False)
    made.command()(run)
    known = {name for each in typer.main.get_command(made).params for name in each.opts}
    told = [each.name for each in fields(TrainingSettings) if each.metadata.get("help")]
    assert len(told) > 25
    assert {f"--{option_of(TrainingSettings, name)}" for name in told} <= known
