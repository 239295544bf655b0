from __future__ import annotations

import pytest

from wattstep.record.sensors.fan import Fans
from wattstep.schema.channel import Absent, Present

HWMON = "sys/class/hwmon"


def roles(found):
    assert isinstance(found, Present), found
    return {c.name: c.role for read in found.reads for c in read.channels}


def test_the_fan_of_a_recorded_board_turns_18_times_a_second(node_exporter, measure):
    found = Fans().probe(node_exporter, 1)
    # 1098 turns a minute are 18.3 a second.
    assert measure(found) == pytest.approx({"fan.nct6779.fan2.speed": 18.3})
    assert roles(found) == {"fan.nct6779.fan2.speed": "fan_speed"}


def test_the_fan_of_an_old_jetson_tells_turns_and_drive(tree, measure):
    root = tree(
        {
            "sys/devices/pwm-fan/rpm_measured": "4500\n",
            "sys/devices/pwm-fan/cur_pwm": "51\n",
            "sys/devices/pwm-fan/target_pwm": "255\n",
        }
    )
    found = Fans().probe(root, 1)
    assert measure(found) == pytest.approx({"fan.jetson.speed": 75, "fan.jetson.duty": 0.2})
    assert set(roles(found).values()) == {"fan_speed", "fan_duty"}


def test_the_fan_of_a_newer_jetson_is_two_chips(tree, measure):
    root = tree(
        {
            f"{HWMON}/hwmon0/name": "pwmfan\n",
            f"{HWMON}/hwmon0/pwm1": "255\n",
            f"{HWMON}/hwmon0/pwm1_enable": "1\n",
            f"{HWMON}/hwmon2/name": "generic_pwm_tachometer\n",
            f"{HWMON}/hwmon2/rpm": "1200\n",
        }
    )
    assert measure(Fans().probe(root, 1)) == pytest.approx(
        {"fan.pwmfan.pwm1.duty": 1, "fan.generic_pwm_tachometer.fan1.speed": 20}
    )


def test_chips_of_one_name_carry_their_numbers(tree, measure):
    files = {}
    for number in (1, 10):
        files[f"{HWMON}/hwmon{number}/name"] = "asus\n"
        files[f"{HWMON}/hwmon{number}/fan1_input"] = f"{number * 60}\n"
    assert measure(Fans().probe(tree(files), 1)) == {
        "fan.asus.1.fan1.speed": 1,
        "fan.asus.10.fan1.speed": 10,
    }


def test_a_fan_that_fails_does_not_hide_the_others(tree, measure):
    root = tree({f"{HWMON}/hwmon0/name": "a\n", f"{HWMON}/hwmon0/fan2_input": "60\n"})
    (root / HWMON / "hwmon0/fan1_input").mkdir()
    assert measure(Fans().probe(root, 1)) == {"fan.a.fan2.speed": 1}


def test_a_machine_without_a_fan_is_told_so(tmp_path):
    found = Fans().probe(tmp_path, 1)
    assert isinstance(found, Absent)
    assert "without a fan" in found.reason
