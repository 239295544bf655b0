"""`wattstep boards`: what the tables know, and which of them this machine is."""

from __future__ import annotations

import json
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import wattstep as called

from wattstep.boards import names

ROOT = Path(__file__).parents[2]


def wattstep(*arguments: str) -> subprocess.CompletedProcess[str]:
    return called(*arguments, env={"COLUMNS": "120"})


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    done = wattstep("boards", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_board_is_in_the_document_with_its_rails(document: dict[str, Any]) -> None:
    rows = {row["name"]: row for row in document["boards"]}
    assert sorted(rows) == names()
    assert rows["jetson-tx2"]["total"] == ["VDD_IN"]
    assert rows["jetson-tx2"]["cores"] == 6
    rails = {rail["label"]: rail["role"] for rail in rows["jetson-agx-orin"]["rails"]}
    assert rails["VIN_SYS_5V0"] == "power_total"
    assert rails["VDDQ_VDD2_1V8AO"] == "power_part"
    assert rails["CVB_ATX_12V"] == "power_outside"
    assert rows["jetson-nano-2gb"]["rails"] == []


def test_it_is_said_which_board_this_machine_is(document: dict[str, Any]) -> None:
    assert document["this_machine"] in (None, *names())
    last = wattstep("boards").stdout.strip().splitlines()[-1]
    assert (document["this_machine"] or "none of them") in last
    assert "wattstep boards NAME" in last


def test_the_list_names_each_board_with_its_total() -> None:
    shown = wattstep("boards").stdout
    for name in names():
        assert name in shown
    assert "no power sensor" in shown


def test_one_board_shows_its_table_in_plain_words() -> None:
    done = wattstep("boards", "jetson-agx-xavier")
    assert done.returncode == 0
    for part in ("GPU + CPU + SOC + CV + VDDRQ + SYS5V", "carrier board", "154 mW", "8 Carmel"):
        assert part in done.stdout
    assert "only a meter" in " ".join(wattstep("boards", "raspberry-pi-4").stdout.split())


def test_a_board_that_nobody_knows_is_one_line_and_exit_code_2() -> None:
    done = wattstep("boards", "jetson-tx9")
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert "jetson-tx2" in done.stderr


def test_the_document_of_boards_is_what_the_command_says(document: dict[str, Any]) -> None:
    script = runpy.run_path(str(ROOT / "docs" / "boards_table.py"))
    text = (ROOT / "docs" / "boards.md").read_text(encoding="utf-8")
    assert text == script["document"](document["boards"])
