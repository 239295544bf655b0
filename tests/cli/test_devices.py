"""`wattstep devices`: what predictions know of a device, with ranges and sources."""

from __future__ import annotations

import errno
import json
import os
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import wattstep as called
from tests.wording import assert_says, saying

from wattstep import devices

ROOT = Path(__file__).parents[2]
MINE = """
title = "A board of mine"
aliases = ["\\u001b[31mred"]
memory.unified = true
memory.size = { value = 4e9, low = 3.9e9, high = 4.1e9, basis = "calibration", source = "its label\\u001b[2J" }
processors."npu\\u0007" = { kind = "gpu", title = "an accelerator" }
power = {}
thermal = {}
"""


def wattstep(*arguments: object) -> subprocess.CompletedProcess[str]:
    return called(*arguments, env={"COLUMNS": "300"})


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    done = wattstep("devices", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    listed: list[dict[str, Any]] = json.loads(done.stdout)["devices"]
    return listed


def test_the_list_has_each_device_once_with_its_estimates_marked() -> None:
    lines = wattstep("devices").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:16]] == devices.names()
    tx2 = next(line for line in lines if line.startswith("jetson-tx2"))
    assert re.split(r"\s{2,}", tx2.strip())[:7] == [
        "jetson-tx2", "8.24 GB", "6.52 GB", "666 GFLOP/s gpu", "59.7 GB/s", "1.80 W", "~13.0 W",
    ]  # fmt: skip
    assert_says(lines[-1], "~", "estimate", "wattstep devices NAME")


def test_one_device_shows_each_value_with_range_basis_and_source() -> None:
    shown = " ".join(wattstep("devices", "tx2").stdout.split())
    for _, _, value in devices.find("jetson-tx2").values():
        assert value.source in shown
    assert "usable 6.52 GB 6.48 to 6.55 published" in shown
    assert "parts.gpu.dynamic 5.50 W 3.70 to 7.20 estimate 3.98 W" in shown
    assert "size 8.24 GB exact datasheet boards/jetson-tx2.toml" in shown
    assert_says(shown, "carrier board")
    assert "modes.MAXQ 0 cores of cpu-denver clocks.gpu 850 MHz exact" in shown
    assert "processors.gpu Pascal GPU (GP10B), 256 cores" in shown


def test_the_document_has_the_numbers_as_the_file_has_them(rows: list[dict[str, Any]]) -> None:
    assert [row["name"] for row in rows] == devices.names()
    tx2 = next(row for row in rows if row["name"] == "jetson-tx2")
    assert tx2["board"] == "jetson-tx2"
    assert tx2["floors"]["torch-1.6"] == "system"
    assert tx2["processors"]["gpu"]["cores"] == 256
    assert tx2["modes"]["MAXQ"]["cores"] == {"cpu-denver": 0}
    assert tx2["values"]["memory.usable"]["low"] == 6.48e9
    assert tx2["values"]['floors."torch-1.6".memory']["unit"] == "B"
    assert set(tx2["missing"]) <= {"kinds"}


def test_a_file_of_one_s_own_says_what_it_lacks_and_steers_no_terminal(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE, encoding="utf-8")
    done = wattstep("devices", path)
    assert done.returncode == 0, done.stderr
    assert_says(done.stdout.splitlines()[0], "mine:", "A board")
    assert "size 4.00 GB 3.90 to 4.10 calibration" in " ".join(done.stdout.split())
    assert saying(done.stdout.splitlines(), "kinds", "what would tell")
    assert_says(done.stdout, "power meter")
    assert not set("\x1b\x07") & set(done.stdout)


def test_what_is_wrong_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE.replace("3.9e9", "5e9"), encoding="utf-8")
    for argument, named in (
        ("jetson-tx9", ("'jetson-tx9'", "jetson-agx-orin")),
        (path, ("mine.toml: memory.size: 4e+09", "5e+09 to 4.1e+09")),
        (tmp_path / "none.toml", ("none.toml", os.strerror(errno.ENOENT))),
    ):
        done = wattstep("devices", argument)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.strip().splitlines()) == 1
        assert_says(done.stderr, *named)


def test_the_document_of_devices_is_what_the_command_says(rows: list[dict[str, Any]]) -> None:
    script = runpy.run_path(str(ROOT / "docs" / "devices_table.py"))
    text = (ROOT / "docs" / "devices.md").read_text(encoding="utf-8")
    assert text == script["document"](rows)
