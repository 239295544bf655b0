"""Clocks that may be capped, on trees of files; that everything is put back, whatever happens."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.refusals import refused
from tests.waiting import gone, until

from wattstep.record.hosts.emulation import tree
from wattstep.record.hosts.emulation.settings import make_settings
from wattstep.train.environment.keeper import CPUFREQ, ORIGINALS, Keeper
from wattstep.train.governor.clocks import find_clocks, offered_shares
from wattstep.train.governor.governor import check_governor, governed_part

GPU = "sys/devices/platform/17000000.gpu/devfreq/17000000.gpu"


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """Two clusters, the second capped by its owner, and a GPU behind a link, as /sys/class has it."""
    root = tmp_path / "board"
    for number, cap in ((0, 2_000_000), (4, 1_500_000)):
        write(root / CPUFREQ / f"policy{number}/cpuinfo_min_freq", 300_000)
        write(root / CPUFREQ / f"policy{number}/cpuinfo_max_freq", 2_000_000)
        write(root / CPUFREQ / f"policy{number}/scaling_max_freq", cap)
    listed = root / CPUFREQ / "policy4/scaling_available_frequencies"
    listed.write_text("300000 900000 1200000 1500000 2000000 \n")
    write(root / GPU / "min_freq", 114_750_000)
    write(root / GPU / "max_freq", 1_300_500_000)
    (root / GPU / "available_frequencies").write_text("114750000 675000000 1300500000\n")
    (root / "sys/class/devfreq").mkdir(parents=True)
    (root / "sys/class/devfreq/17000000.gpu").symlink_to(root / GPU)
    return root


def write(path: Path, value: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")


def caps(root: Path) -> dict[str, str]:
    return {
        path.parent.name: path.read_text().strip()
        for path in (*sorted((root / CPUFREQ).glob("policy*/scaling_max_freq")), root / GPU / "max_freq")
    }  # fmt: skip


def test_every_cluster_is_capped_at_a_share_of_what_its_owner_allows(board: Path) -> None:
    first, second = find_clocks(board, "cpu")
    assert (first.lowest, first.cap, first.offered) == (300_000, 2_000_000, ())
    assert (first.at(0.75), first.at(0.1)) == (1_500_000, 300_000)
    # The next below on offer: 0.75 of 1.5 GHz is 1.125 GHz.
    assert (second.at(0.75), second.at(0.8), second.at(1.0)) == (900_000, 1_200_000, 1_500_000)


def test_the_gpus_clock_is_found_behind_its_link(board: Path) -> None:
    (clock,) = find_clocks(board, "gpu")
    assert clock.path == board.resolve() / GPU / "max_freq"
    assert clock.unit_hz == 1
    assert offered_shares([clock]) == (675_000_000 / 1_300_500_000, 1.0)


def test_shares_are_a_hundredth_apart_where_the_driver_takes_any(board: Path) -> None:
    shares = offered_shares(find_clocks(board, "cpu"))  # the highest clock's: that of 2 GHz
    assert len(shares) == 81
    assert (shares[0], shares[-1]) == (0.2, 1.0)


def test_emulated_boards_have_clocks_that_can_be_capped(tmp_path: Path) -> None:
    for name in ("jetson-tx2", "jetson-agx-orin", "raspberry-pi-4"):
        tree.build(tmp_path / name, make_settings(name, {}))
        assert find_clocks(tmp_path / name, "cpu"), name
    assert len(offered_shares(find_clocks(tmp_path / "jetson-tx2", "gpu"))) > 8


def test_what_cannot_be_set_is_refused_with_the_reason_and_a_way(
    board: Path, tmp_path: Path
) -> None:
    with refused("no-clock-control", f"/{CPUFREQ}/policy*", "--target emulate:"):
        find_clocks(tmp_path / "nothing", "cpu")
    with refused("no-clock-control", "devfreq", "--target emulate:"):
        find_clocks(tmp_path / "nothing", "gpu")
    cap = board / CPUFREQ / "policy4/scaling_max_freq"
    cap.chmod(0o444)  # as of a driver that takes none; root could write a plain file all the same
    with refused("clock-not-writable", "policy4/scaling_max_freq", "--target emulate:"):
        find_clocks(board, "cpu")
    before = caps(board)
    cap.rename(tmp_path / "victim")
    cap.symlink_to(tmp_path / "victim")
    with refused("clock-is-a-link", "policy4/scaling_max_freq"):
        find_clocks(board, "cpu")
    assert caps(board) == before


def test_a_cap_that_became_a_link_is_not_written(board: Path, tmp_path: Path) -> None:
    first, _ = find_clocks(board, "cpu")
    first.path.rename(tmp_path / "victim")
    first.path.symlink_to(tmp_path / "victim")
    with (
        refused("recording", "scaling_max_freq"),
        Keeper(tmp_path, root=board, warn=list) as keeper,
    ):
        keeper.cap({first.path: 1})
    assert (tmp_path / "victim").read_text() == "2000000\n"


def test_the_processor_that_trains_is_governed() -> None:
    assert governed_part("cpu", None) == "cpu"
    assert governed_part("cuda", None) == "gpu"
    assert governed_part("cpu", "emulate:jetson-tx2,processor=gpu") == "gpu"
    with refused("governor-elsewhere", "replay:"):
        check_governor("cpu", "replay:tx2.log")


def test_caps_are_put_back(board: Path, tmp_path: Path) -> None:
    before, first = caps(board), find_clocks(board, "cpu")[0]
    with Keeper(tmp_path, root=board, warn=pytest.fail, detached=True) as keeper:
        for share in (0.5, 0.9):
            keeper.cap({first.path: first.at(share)})
        assert keeper.says(first.path) == 1_800_000
        keeper.cap({clock.path: clock.at(0.6) for clock in find_clocks(board, "gpu")})
        assert caps(board) == {**before, "policy0": "1800000", "17000000.gpu": "675000000"}
    assert caps(board) == before
    assert not (tmp_path / ORIGINALS).exists()


HOLDER = """
import sys, time
from pathlib import Path
from wattstep.train.environment.keeper import Keeper
from wattstep.train.governor.clocks import find_clocks
root = Path(sys.argv[2])
keeper = Keeper(Path(sys.argv[1]), root=root, warn=print, detached=True)
for part in ("cpu", "gpu"):
    keeper.cap({clock.path: clock.at(0.6) for clock in find_clocks(root, part)})
print("capped", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_caps_are_put_back_however_the_training_ends(
    board: Path, tmp_path: Path, number: signal.Signals
) -> None:
    before = caps(board)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path), str(board)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as training:  # fmt: skip
        assert training.stdout is not None
        assert training.stdout.readline() == "capped\n"
        assert caps(board) == {
            "policy0": "1200000", "policy4": "900000", "17000000.gpu": "675000000"
        }  # fmt: skip
        children = Path(f"/proc/{training.pid}/task/{training.pid}/children").read_text().split()
        # The guardian is none of them, as its memory is not the training's: what began it ends at once.
        until(lambda: all(gone(int(pid)) for pid in children))
        training.send_signal(number)
    deadline = time.monotonic() + 20
    while (tmp_path / ORIGINALS).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert caps(board) == before
    assert not (tmp_path / ORIGINALS).exists()


def test_what_even_the_guardian_left_is_put_back_by_the_next_run(
    board: Path, tmp_path: Path
) -> None:
    gpu = board / GPU / "max_freq"
    (tmp_path / ORIGINALS).write_text(json.dumps({str(gpu): "1300500000"}))
    gpu.write_text("675000000\n")
    said: list[str] = []
    Keeper(tmp_path, root=board, warn=said.append)
    assert caps(board)["17000000.gpu"] == "1300500000"
    assert len(said) == 1


def test_a_cap_that_heat_holds_down_counts_as_put_back(
    board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = find_clocks(board, "cpu")
    hot = {
        "2000000": "1600000"
    }  # the kernel shows the lower of what was written and what heat allows
    from wattstep.train.environment import keeper as module

    written = module._write

    def by_heat(path: Path, value: str) -> None:
        written(path, hot.get(value, value))

    said: list[str] = []
    with Keeper(tmp_path, root=board, warn=said.append) as keeper:
        keeper.cap({first.path: 1_000_000})
        monkeypatch.setattr(module, "_write", by_heat)
    assert said == []
