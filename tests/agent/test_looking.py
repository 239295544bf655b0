"""What the agent brings from a board is what sensors would find there, and nothing in it is trusted."""

from __future__ import annotations

import base64
import errno
import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.boards import HERE, look_at, python
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.errors import InvalidValueError
from wattstep.record.sensors import probe_all
from wattstep.remote.agent.looking import Look, board_tree, parse_look
from wattstep.remote.agent.making import FILES_ONLY, make_agent_plan
from wattstep.schema.channel import Present

BOARDS = sorted(path.stem for path in (HERE.parent / "fixtures" / "boards").glob("*.txt"))
Tree = Callable[[str], Path]


def a_look(**changed: Any) -> dict[str, Any]:
    return {
        "format": "wattstep look 1", "pid": 7, "python": "3.6.9", "machine": "aarch64",
        "release": "4.9.253-tegra", "page_size": 4096, "clock_ticks": 100,
        "files": {"/proc/stat": "Y3B1IDEK"}, "links": {}, "unreadable": {}, "left_out": {}, "commands": [],
        **changed,
    }  # fmt: skip


def parsed(**changed: Any) -> Look:
    return parse_look(json.dumps(a_look(**changed)).encode())


@pytest.mark.parametrize("board", BOARDS)
def test_a_plan_from_a_look_has_the_channels_that_sensors_find_on_the_board_itself(
    board_tree: Tree, board: str
) -> None:
    root = board_tree(board)
    found = probe_all(root, 1)
    wanted = {
        channel.name: (f"/{Path(read.path).resolve().relative_to(root.resolve())}", channel.scale)
        for result in found.values()
        if isinstance(result, Present)
        for read in result.reads
        if not read.push_source
        for channel in read.channels
    }
    plan = make_agent_plan(look_at(root))
    # The last entries of a plan belong to its reads, number by number.
    assert [read["path"] for read in plan["reads"]][1:] == [
        entry["path"] for entry in plan["entries"]
    ][1:]
    planned = {
        channel["name"]: (
            f"/{(root / read['path'][1:]).resolve().relative_to(root.resolve())}",
            channel["scale"],
        )
        for read in plan["reads"]
        for channel in read["channels"]
        if not channel["name"].startswith("sampler.")
    }
    assert planned == wanted


def test_the_rails_of_a_jetson_tx2_are_in_its_plan(board_tree: Tree) -> None:
    plan = make_agent_plan(look_at(board_tree("jetson-tx2")))
    names = {channel["name"] for read in plan["reads"] for channel in read["channels"]}
    # Its fixture has VDD_IN and VDD_SYS_GPU, among others.
    assert {name.lower() for name in names if "vdd_in" in name.lower()}
    assert {name.lower() for name in names if "vdd_sys_gpu" in name.lower()}


def test_nothing_that_a_board_sends_can_be_executed_here() -> None:
    with board_tree(parsed(files={"/usr/bin/vcgencmd": "IyEvYmluL3NoCg=="})) as at:
        assert (at / "usr/bin/vcgencmd").stat().st_mode & 0o111 == 0


def test_the_facts_of_the_machine_are_those_of_the_board(board_tree: Tree) -> None:
    look = replace(look_at(board_tree("jetson-tx2")), machine="aarch64", release="4.9.140-tegra")
    device = make_agent_plan(look)["device"]
    assert device["board"] == "jetson-tx2"
    assert (device["architecture"], device["kernel"]) == ("aarch64", "4.9.140")


def test_nothing_of_the_folder_here_stands_in_a_plan(board_tree: Tree) -> None:
    text = json.dumps(make_agent_plan(look_at(board_tree("jetson-tx2"))))
    assert "wattstep-board-" not in text
    assert str(Path.home()) not in text


def test_a_file_for_root_only_is_said_to_be_so_for_its_sensor() -> None:
    path = "/sys/kernel/debug/bpmp/debug/clk/emc/rate"
    look = parsed(unreadable={path: errno.EACCES})
    reason = make_agent_plan(look)["absent"]["tegra_memory"]
    assert_says(reason, path, "permission denied")


def test_a_sensor_that_needs_a_command_is_absent_with_the_reason() -> None:
    look = parsed(commands=["usr/bin/tegrastats"])
    plan = make_agent_plan(look)
    assert plan["absent"]["tegrastats"] == FILES_ONLY
    assert not any(read["parser"] == "feed" for read in plan["reads"])


def test_pages_and_ticks_are_counted_in_the_units_of_the_board() -> None:
    here = os.sysconf("SC_PAGE_SIZE")
    look = parsed(
        page_size=4 * here,
        clock_ticks=2 * os.sysconf("SC_CLK_TCK"),
        files={"/proc/7/statm": "", "/proc/stat": "Y3B1ICAxIDIgMyA0IDUgNiA3IDgKY3B1MCAxIDIgMyA0IDUgNiA3IDgK"},
    )  # fmt: skip
    scales = {c["name"]: c["scale"] for r in make_agent_plan(look)["reads"] for c in r["channels"]}
    assert scales["process.resident_memory"] == 4 * here
    assert scales["cpu0.busy_time"] == pytest.approx(0.5 / os.sysconf("SC_CLK_TCK"))


def test_a_file_that_may_come_back_fails_so_in_the_tree() -> None:
    with board_tree(parsed(unreadable={"/a/sleeps": errno.EAGAIN, "/a/never": errno.EACCES})) as at:
        assert stat.S_ISSOCK((at / "a/sleeps").stat().st_mode)
        assert (at / "a/never").is_dir()
    assert not at.exists()


def test_links_of_the_board_are_links_in_the_tree() -> None:
    look = parsed(files={"/sys/devices/x/name": "aGkK"}, links={"/sys/class/x0": "/sys/devices/x"})
    with board_tree(look) as at:
        assert (at / "sys/class/x0/name").read_text() == "hi\n"


@pytest.mark.parametrize(
    "changed",
    [
        {"format": "something else"},
        {"pid": "7"},
        {"pid": True},
        {"page_size": 0},
        {"files": {"../../etc/passwd": ""}},
        {"files": {"/a/../../b": ""}},
        {"files": {"relative": ""}},
        {"files": {"/a": "no base64!"}},
        {"files": {"/": ""}},
        {"links": {"/a": "../b"}},
        {"unreadable": {"/a": -1}},
        {"files": []},
        {"files": {"/a\ud800": ""}},
        {"files": {"/a": base64.b64encode(bytes(65537)).decode()}},
        {"files": {f"/{n}": "" for n in range(20_001)}},
        {"python": "\ud800"},
        {"files": {"/a": "", "/a/b": ""}},
        {"files": {"/a/b": ""}, "links": {"/a/b": "/c"}},
    ],
)
def test_what_another_machine_sends_is_refused_with_what_to_do(changed: dict[str, Any]) -> None:
    with (
        refused("damaged-look", "wattstep_agent.py look"),
        board_tree(parsed(**changed)),
    ):
        pass


def test_serial_numbers_stay_on_the_board(tmp_path: Path) -> None:
    supply = tmp_path / "sys/class/power_supply/BAT0"
    supply.mkdir(parents=True)
    (supply / "serial_number").write_text("S-4711\n")
    (supply / "capacity").write_text("93\n")
    (supply / "uevent").write_text(
        "POWER_SUPPLY_NAME=BAT0\nPOWER_SUPPLY_SERIAL_NUMBER=S-4711\nPOWER_SUPPLY_CAPACITY=93\n"
    )
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(
        "Hardware\t: BCM2835\nSerial\t\t: 00S-4711\nModel\t: Pi\n"
    )
    look = look_at(tmp_path)
    assert look.files == {
        "/proc/cpuinfo": b"Hardware\t: BCM2835\nSerial\t\t:\nModel\t: Pi\n",
        "/sys/class/power_supply/BAT0/capacity": b"93\n",
        "/sys/class/power_supply/BAT0/uevent": b"POWER_SUPPLY_NAME=BAT0\n"
        b"POWER_SUPPLY_SERIAL_NUMBER=\nPOWER_SUPPLY_CAPACITY=93\n",
    }
    assert look.left_out == {"a serial number": 1}


@given(st.binary(max_size=200))
def test_any_bytes_are_a_look_or_refused(data: bytes) -> None:
    with pytest.raises(InvalidValueError):
        parse_look(data)


@pytest.mark.parametrize("cut", [1, 50, 200])
def test_half_a_look_is_refused(cut: int) -> None:
    with refused("damaged-look", "wattstep_agent.py look"):
        parse_look(json.dumps(a_look()).encode()[:-cut])


@pytest.mark.parametrize("version", ["3.6", "3.8"])
def test_an_old_python_sees_the_same(board_tree: Tree, version: str) -> None:
    root = board_tree("jetson-nano")
    old, new = look_at(root, python(version)), look_at(root)
    assert old.files == new.files
    assert old.links == new.links
    assert old.python.startswith(version)
