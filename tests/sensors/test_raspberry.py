from __future__ import annotations

import re
import threading
from decimal import Decimal
from pathlib import Path

import pytest

from wattstep.record.sensors.raspberry import RaspberryClock, RaspberryPower, open_source
from wattstep.schema.channel import Absent, Present
from wattstep.schema.journal import MISSING

PMIC = (Path(__file__).parents[1] / "fixtures/rpi/pmic_read_adc.txt").read_text()
# µW, by decimal arithmetic on the text: 0.1024727 A x 3.710912 V, and so on.
VOLT = dict(re.findall(r"(\w+)_V volt\(\d+\)=([0-9.]+)V", PMIC))
AMPERE = dict(re.findall(r"(\w+)_A current\(\d+\)=([0-9.]+)A", PMIC))
POWER = {r: round(Decimal(a) * Decimal(VOLT[r]) * 10**6) for r, a in AMPERE.items()}
SUM = 2_947_977  # of the twelve pairs (boards.md 3: 2.95 W)
LASER = " LASER_A current(30)=1.00000000A\n LASER_V volt(31)=5.00000000V\n"
BITS = "sys/devices/platform/soc/soc:firmware/get_throttled"


def make_pi(root: Path, answers: dict[str, str], model: str = "Raspberry Pi 5 Model B") -> Path:
    """A tree with a vcgencmd that answers these questions, and fails at others."""
    (root / "proc/device-tree").mkdir(parents=True)
    (root / "proc/device-tree/model").write_text(f"{model} Rev 1.0\0")
    (root / "usr/bin").mkdir(parents=True)
    for question, text in answers.items():
        (root / f"{question}.txt").write_text(text)
    command = root / "usr/bin/vcgencmd"
    command.write_text(f'#!/bin/sh\nexec cat "{root}/$1.txt" 2>/dev/null\n')
    command.chmod(0o755)
    return root


ALL = {
    "pmic_read_adc": PMIC,
    "measure_clock": "frequency(0)=600000000\n",
    "get_throttled": "throttled=0x50005\n",
}


def rows_of(found: Present, number: int, count: int = 1) -> list[tuple[int, list[int] | None]]:
    """The first rows that the feed of a read gives: errno and values."""
    read, stop, rows = found.reads[number], threading.Event(), []

    def emit(place, t_ns, errno, values):
        rows.append((errno, values))
        assert place == 0
        if len(rows) == count:
            stop.set()

    open_source(**read.push_settings, period_s=0.01).run(emit, stop)
    return rows


def values_of(found: Present) -> dict[str, int]:
    """The first row of the PMIC, by channel."""
    (read,) = found.reads
    ((errno, values),) = rows_of(found, 0)
    assert errno == 0
    return {c.name: v for c, v in zip(read.channels, values, strict=True)}


def test_the_pi_5s_total_is_the_sum_of_its_rails(tmp_path):
    found = RaspberryPower().probe(make_pi(tmp_path, ALL), 1)
    assert isinstance(found, Present)
    (read,) = found.reads
    by_name = values_of(found)
    assert len(POWER) == 12
    assert by_name["raspberry.power"] == pytest.approx(SUM, abs=2)
    assert by_name == {
        "raspberry.power": pytest.approx(sum(POWER.values()), abs=2),
        **{f"raspberry.{rail}.power": power for rail, power in POWER.items()},
        "raspberry.EXT5V.voltage": 5_057_160,
    }
    total = read.channels[0]
    assert (total.role, total.scale, total.unit) == ("power_total", 1e-6, "W")
    assert "USB" in total.note
    assert {c.role for c in read.channels[1:-1]} == {"power_part"}
    assert read.least_period_s == 1.0


def test_a_rail_nobody_has_seen_is_of_an_unknown_domain_and_not_in_the_total(tmp_path):
    root = make_pi(tmp_path, {**ALL, "pmic_read_adc": PMIC + LASER})
    found = RaspberryPower().probe(root, 1)
    channels = {c.name: c for c in found.reads[0].channels}
    laser = channels["raspberry.LASER.power"]
    assert (laser.domain, laser.role) == ("unknown", "power_part")
    assert "no such rail" in laser.note
    assert channels["raspberry.VDD_CORE.power"].domain == "soc"
    assert channels["raspberry.DDR_VDD2.power"].domain == "memory"
    assert channels["raspberry.HDMI.power"].domain == "system"
    values = values_of(found)
    assert values["raspberry.power"] == pytest.approx(SUM, abs=2)
    assert values["raspberry.LASER.power"] == 5_000_000
    (root / "pmic_read_adc.txt").write_text(PMIC)  # it is missed by the total no more than seen
    values = values_of(found)
    assert values["raspberry.power"] == pytest.approx(SUM, abs=2)
    assert values["raspberry.LASER.power"] == MISSING


def test_a_sum_without_one_of_its_rails_is_no_sum(tmp_path):
    root = make_pi(tmp_path, ALL)
    found = RaspberryPower().probe(root, 1)
    (root / "pmic_read_adc.txt").write_text(re.sub(r".*VDD_CORE_A.*\n", "", PMIC))
    values = values_of(found)
    assert values["raspberry.power"] == MISSING
    assert values["raspberry.VDD_CORE.power"] == MISSING
    assert values["raspberry.HDMI.power"] == POWER["HDMI"]


def test_a_board_without_one_of_the_totals_rails_has_parts_and_no_total(tmp_path):
    text = re.sub(r".*VDD_CORE_A.*\n", "", PMIC)
    found = RaspberryPower().probe(make_pi(tmp_path, {**ALL, "pmic_read_adc": text}), 1)
    channels = found.reads[0].channels
    assert {c.role for c in channels} == {"power_part", "input_voltage"}
    assert "needs VDD_CORE, too" in channels[0].note
    assert values_of(found)["raspberry.HDMI.power"] == POWER["HDMI"]


def test_a_pi_without_a_table_has_parts_and_no_total(tmp_path):
    root = make_pi(tmp_path, ALL, "Raspberry Pi 9")
    channels = RaspberryPower().probe(root, 1).reads[0].channels
    assert {c.role for c in channels} == {"power_part", "input_voltage"}
    assert "no table for" in channels[0].note


def test_an_answer_that_is_garbage_or_fails_is_a_gap_with_a_reason(tmp_path):
    root = make_pi(tmp_path, ALL)
    found = RaspberryPower().probe(root, 1)
    (root / "pmic_read_adc.txt").write_text("VCHI initialization failed\n")
    assert rows_of(found, 0) == [(22, None)]
    (root / "pmic_read_adc.txt").unlink()
    assert rows_of(found, 0) == [(5, None)]
    (root / "usr/bin/vcgencmd").unlink()
    assert rows_of(found, 0) == [(2, None)]


def test_the_clock_is_the_firmwares_and_the_bits_are_those_of_now(tmp_path):
    found = RaspberryClock().probe(make_pi(tmp_path, ALL), 1)
    assert [read.channels[0].role for read in found.reads] == ["frequency", "throttle_reasons"]
    assert rows_of(found, 0) == [(0, [600_000_000])]
    assert rows_of(found, 1) == [(0, [0b0101])]  # 0x50005: bits 16 and 18 are of the past


def test_bits_that_the_kernel_has_in_a_file_are_not_asked_for_again(tmp_path):
    root = make_pi(tmp_path, ALL)
    (root / BITS).parent.mkdir(parents=True)
    (root / BITS).write_text("0\n")
    found = RaspberryClock().probe(root, 1)
    assert [read.channels[0].name for read in found.reads] == ["raspberry.arm_clock"]


def test_every_absence_says_why(tmp_path):
    other = RaspberryPower().probe(tmp_path, 1)
    assert other == Absent(reason="this is no Raspberry Pi")
    answers = {key: text for key, text in ALL.items() if key != "pmic_read_adc"}
    pi4 = make_pi(tmp_path / "pi4", answers, "Raspberry Pi 4 Model B")
    assert "Pi 4" in RaspberryPower().probe(pi4, 1).reason
    assert "no power sensor" in RaspberryPower().probe(pi4, 1).reason
    silent = make_pi(tmp_path / "silent", {})
    for sensor in (RaspberryPower(), RaspberryClock()):
        assert "group video" in sensor.probe(silent, 1).reason
    (pi4 / "usr/bin/vcgencmd").unlink()
    assert "raspi-utils" in RaspberryClock().probe(pi4, 1).reason
