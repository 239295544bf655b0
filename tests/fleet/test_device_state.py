"""States of a device: what the options say, and that everything is put back whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.errors import InvalidValueError
from wattstep.schema.cores import parse_cores, spell_cores
from wattstep.train.environment.device_state import (
    DeviceState,
    nearest_clock,
    parse_clock,
    parse_state,
    states_from,
)
from wattstep.train.environment.keeper import ORIGINALS, Keeper, check_state

CPUFREQ = "sys/devices/system/cpu/cpufreq"


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """Two clusters, as on a TX2: A57 on 0 and 3 to 5, Denver on 1 and 2."""
    root = tmp_path / "board"
    for number, cores in ((0, "0 3 4 5"), (1, "1 2")):
        policy = root / CPUFREQ / f"policy{number}"
        policy.mkdir(parents=True)
        for name, value in {
            "related_cpus": cores,
            "cpuinfo_min_freq": "345600",
            "cpuinfo_max_freq": "2035200",
            "scaling_min_freq": "345600",
            "scaling_max_freq": "2035200",
            "scaling_available_frequencies": "345600 806400 1190400 2035200",
        }.items():
            (policy / name).write_text(f"{value}\n")
    (root / "sys/devices/system/cpu/online").write_text("0-5\n")
    return root


def clocks(board: Path) -> dict[str, str]:
    return {
        f"{path.parent.name}/{path.name}": path.read_text().strip()
        for path in sorted((board / CPUFREQ).glob("policy*/scaling_m*_freq"))
    }


def test_options_give_every_combination() -> None:
    states = states_from(None, "0,0-1", "600MHz,1.2GHz")
    assert [state.label for state in states] == [
        "cores=0 clock=600MHz", "cores=0 clock=1200MHz",
        "cores=0-1 clock=600MHz", "cores=0-1 clock=1200MHz",
    ]  # fmt: skip
    assert states_from(None, None, None) == (DeviceState(),)
    assert not DeviceState(cores=(0,)).changes_device


@given(st.frozensets(st.integers(0, 300), min_size=1))
def test_core_sets_are_read_as_they_are_spelt(cores: frozenset[int]) -> None:
    assert parse_cores(spell_cores(cores)) == tuple(sorted(cores))


@given(
    st.one_of(st.none(), st.from_regex(r"[A-Z0-9_]{1,12}", fullmatch=True)),
    st.one_of(st.none(), st.frozensets(st.integers(0, 64), min_size=1)),
    st.one_of(st.none(), st.integers(1, 5000)),
)
def test_labels_are_read_as_they_are_spelt(
    mode: str | None, cores: frozenset[int] | None, mhz: int | None
) -> None:
    state = DeviceState(
        mode=mode,
        cores=None if cores is None else tuple(sorted(cores)),
        frequency_hz=None if mhz is None else mhz * 1e6,
    )
    assert parse_state(state.label) == state


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "-1", "1,2"])
def test_what_is_no_core_set_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="--cores"):
        parse_cores(text)


@pytest.mark.parametrize("text", ["", "1200", "0MHz", "fast", "-1GHz"])
def test_what_is_no_clock_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="--clocks"):
        parse_clock(text)


def test_the_nearest_clock_is_the_highest_that_is_not_above() -> None:
    assert nearest_clock(1.2e9, [345.6e6, 1190.4e6, 1344e6]) == 1190.4e6
    assert nearest_clock(1.19e9, [1190.4e6]) == 1190.4e6  # 1190 MHz is meant
    assert nearest_clock(300e6, [345.6e6]) is None


def test_a_clock_is_held_and_put_back(board: Path, tmp_path: Path) -> None:
    before, said = clocks(board), []
    with Keeper(tmp_path, root=board, warn=said.append) as keeper:
        keeper.apply(DeviceState(frequency_hz=1.2e9))
        assert set(clocks(board).values()) == {"1190400"}
        assert json.loads((tmp_path / ORIGINALS).read_text())
    assert clocks(board) == before
    assert not (tmp_path / ORIGINALS).exists()
    assert said == []


def test_only_the_clusters_of_the_chosen_cores_are_held(board: Path, tmp_path: Path) -> None:
    with Keeper(tmp_path, root=board, warn=pytest.fail) as keeper:
        keeper.apply(DeviceState(cores=(1,), frequency_hz=806.4e6))
        now = clocks(board)
        assert now["policy1/scaling_max_freq"] == "806400"
        assert now["policy0/scaling_max_freq"] == "2035200"


def test_what_the_next_state_leaves_open_is_as_it_was(board: Path, tmp_path: Path) -> None:
    before = clocks(board)
    with Keeper(tmp_path, root=board, warn=pytest.fail) as keeper:
        keeper.apply(DeviceState(frequency_hz=806.4e6))
        keeper.apply(DeviceState(cores=(0,)))
        assert clocks(board) == before


def test_states_that_cannot_be_had_are_refused_before_anything_changes(
    board: Path, tmp_path: Path
) -> None:
    with refused("no-such-core", "6"):
        check_state(DeviceState(cores=(0, 6)), board)
    with refused("out-of-range", "345.6 to 2035.2 MHz"):
        check_state(DeviceState(frequency_hz=100e6), board)
    with refused("out-of-range", "345.6 to 2035.2 MHz"):
        check_state(DeviceState(frequency_hz=3e9), board)
    with refused("no-clock-control", "/sys"):
        check_state(DeviceState(frequency_hz=1e9), tmp_path)
    assert not (tmp_path / ORIGINALS).exists()


HOLDER = """
import sys, time
from pathlib import Path
from wattstep.train.environment.device_state import DeviceState
from wattstep.train.environment.keeper import Keeper
keeper = Keeper(Path(sys.argv[1]), root=Path(sys.argv[2]), warn=print)
keeper.apply(DeviceState(frequency_hz=806.4e6))
print("held", keeper._guardian.pid, flush=True)
time.sleep(60)
"""


def hold(folder: Path, board: Path) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), str(board)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    word, guardian = process.stdout.readline().split()
    assert word == "held"
    assert set(clocks(board).values()) == {"806400"}
    return process, int(guardian)


def test_a_sweep_that_is_killed_leaves_the_device_as_it_was(board: Path, tmp_path: Path) -> None:
    before = clocks(board)
    process, _ = hold(tmp_path, board)
    with process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    deadline = time.monotonic() + 20
    while (tmp_path / ORIGINALS).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert clocks(board) == before
    assert not (tmp_path / ORIGINALS).exists()


def test_where_the_guardian_is_killed_too_the_next_sweep_puts_things_back(
    board: Path, tmp_path: Path
) -> None:
    before, said = clocks(board), []
    process, guardian = hold(tmp_path, board)
    with process:
        os.kill(guardian, signal.SIGKILL)  # started by the process that this test started
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert clocks(board) != before
    Keeper(tmp_path, root=board, warn=said.append)
    assert clocks(board) == before
    (line,) = said
    assert_says(line, "settings", "put back")


def test_a_damaged_record_of_first_values_stops_a_sweep(tmp_path: Path) -> None:
    (tmp_path / ORIGINALS).write_text('{"/sys/x": "1')
    with refused("unusable-restore-record", "restore.json"):
        Keeper(tmp_path, warn=pytest.fail)


def test_a_folder_of_somebody_else_has_no_files_written(board: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    policy = board / CPUFREQ / "policy0"
    for key, value in (
        (str(victim), "theirs"),
        (str(policy / "scaling_max_freq"), "1; reboot"),
        (str(policy / ".." / ".." / "online"), "1"),
        (f"{board}/{CPUFREQ}/policy0/../policy1/scaling_max_freq", "1"),
        ("power mode", "0; reboot"),
    ):
        (tmp_path / ORIGINALS).write_text(json.dumps({key: value}))
        with refused("unusable-restore-record", "restore.json", f"{key} = {value!r}"):
            Keeper(tmp_path, root=board, warn=pytest.fail)
    assert victim.read_text() == "mine"


def test_where_the_guardian_is_gone_nothing_is_changed(board: Path, tmp_path: Path) -> None:
    before = clocks(board)
    with Keeper(tmp_path, root=board, warn=pytest.fail) as keeper:
        keeper.apply(DeviceState(cores=(1,), frequency_hz=806.4e6))
        assert keeper._guardian is not None
        keeper._guardian.kill()
        keeper._guardian.wait()
        with refused("keeper-ended"):
            keeper.apply(DeviceState(frequency_hz=806.4e6))
    assert clocks(board) == before


NVPMODEL = """#!/bin/sh
file="$(dirname "$0")/mode"
names="MAXN MAXQ MAXP_CORE_ALL"
case "$1" in
-q) n=$(cat "$file"); set -- $names; shift "$n"; echo "NV Power Mode: $1"; echo "$n";;
-m) [ "$2" = 2 ] && { echo "reboot required"; exit 0; }; echo "$2" > "$file"
    for f in "$(dirname "$0")"/board/sys/devices/system/cpu/cpufreq/policy*; do
      [ -d "$f" ] && echo 345600 > "$f/scaling_min_freq" && echo 1200000 > "$f/scaling_max_freq"
    done; true;;
esac
"""


def test_a_power_mode_is_set_checked_and_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvpmodel").write_text(NVPMODEL)
    (tmp_path / "nvpmodel").chmod(0o755)
    (tmp_path / "mode").write_text("0\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    check_state(DeviceState(mode="1"))
    with Keeper(tmp_path, root=tmp_path, warn=pytest.fail) as keeper:
        keeper.apply(DeviceState(mode="1"))
        assert (tmp_path / "mode").read_text() == "1\n"
        with refused("mode-not-taken", "mode 2"):
            keeper.apply(DeviceState(mode="2"))
    assert (tmp_path / "mode").read_text() == "0\n"


@pytest.mark.parametrize(
    "states",
    [
        [DeviceState(mode="1")],
        [DeviceState(mode="1", frequency_hz=806.4e6)],
        [DeviceState(frequency_hz=806.4e6), DeviceState(mode="1")],
    ],
)
def test_clocks_that_a_mode_changes_are_put_back_as_well(
    board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: list[DeviceState]
) -> None:
    (tmp_path / "nvpmodel").write_text(NVPMODEL)
    (tmp_path / "nvpmodel").chmod(0o755)
    (tmp_path / "mode").write_text("0\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (board / CPUFREQ / "policy1/scaling_min_freq").write_text("2035200\n")  # as jetson_clocks does
    before = clocks(board)
    with Keeper(tmp_path, root=board, warn=pytest.fail) as keeper:
        for state in states:
            keeper.apply(state)
        assert clocks(board) != before
    assert clocks(board) == before
    assert (tmp_path / "mode").read_text() == "0\n"
