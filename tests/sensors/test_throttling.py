from __future__ import annotations

import pytest

from wattstep.record.sensors.throttling import Throttling, throttling_parts
from wattstep.schema.channel import Absent, Present, SensorRead

HWMON = "sys/class/hwmon"
COOLING = "sys/class/thermal/cooling_device"
CPUS = "sys/devices/system/cpu"
FIRMWARE = "sys/devices/platform/soc/soc:firmware/get_throttled"


def channels(found):
    assert isinstance(found, Present), found
    return {channel.name: channel for read in found.reads for channel in read.channels}


def cooling(number, kind, state):
    return {f"{COOLING}{number}/type": f"{kind}\n", f"{COOLING}{number}/cur_state": f"{state}\n"}


def test_over_currents_of_an_orin_are_counted(tree, measure):
    folder = f"{HWMON}/hwmon3"
    # As one Orin was seen after 3605 s: nothing but instantaneous over-current.
    root = tree(
        {f"{folder}/name": "soctherm_oc\n"}
        | {f"{folder}/oc{n}_event_cnt": f"{value}\n" for n, value in ((1, 0), (2, 0), (3, 27390))}
        | {f"{folder}/oc{n}_throt_en": "1\n" for n in (1, 2, 3)}
    )
    found = Throttling().probe(root, 1)
    assert measure(found) == {"throttling.oc1": 0, "throttling.oc2": 0, "throttling.oc3": 27390}
    assert {(c.role, c.kind) for c in channels(found).values()} == {("throttle_events", "counter")}


def test_only_alarms_that_slow_a_board_down_are_flags(tree, measure):
    root = tree(
        {
            f"{HWMON}/hwmon1/name": "ina3221\n",
            f"{HWMON}/hwmon1/curr1_crit_alarm": "1\n",
            f"{HWMON}/hwmon1/curr2_max_alarm": "0\n",
            f"{HWMON}/hwmon1/in1_alarm": "0\n",
            f"{HWMON}/hwmon2/name": "rpi_volt\n",
            f"{HWMON}/hwmon2/in0_lcrit_alarm": "1\n",
            f"{HWMON}/hwmon3/name": "nct6779\n",
            f"{HWMON}/hwmon3/curr1_crit_alarm": "1\n",
        }
    )
    found = Throttling().probe(root, 1)
    assert measure(found) == {
        "throttling.ina3221.1.curr1_crit": 1,
        "throttling.ina3221.1.curr2_max": 0,
        "throttling.rpi_volt.2.in0_lcrit": 1,
    }
    assert {(c.role, c.kind) for c in channels(found).values()} == {("throttle_flag", "gauge")}


def test_cooling_that_slows_a_processor_is_a_flag_and_a_fan_is_none(tree, measure):
    root = tree(
        cooling(0, "pwm-fan", 3)
        | cooling(1, "Fan", 1)
        | cooling(2, "thermal-cpufreq-0", 2)
        | cooling(3, "Processor", 0)
        | cooling(4, "Processor", 1)
        | cooling(10, "gpu-balanced", 0)
    )
    found = Throttling().probe(root, 1)
    assert measure(found) == {
        "throttling.cooling.thermal_cpufreq_0": 2,
        "throttling.cooling.processor.3": 0,
        "throttling.cooling.processor.4": 1,
        "throttling.cooling.gpu_balanced": 0,
    }
    assert {c.role for c in channels(found).values()} == {"throttle_flag"}


def test_recorded_cooling_devices_idle_injection_that_is_off_is_no_throttling(procfs, measure):
    found = Throttling().probe(procfs, 1)
    # Processor says 0, intel_powerclamp -1: it injects nothing. TFN1 is a fan of ACPI.
    assert measure(found) == {
        "throttling.cooling.processor": 0,
        "throttling.cooling.intel_powerclamp": 0,
    }
    reasons = [part.reason for part in throttling_parts(procfs) if isinstance(part, Absent)]
    assert len(reasons) == 1
    assert "TFN1" in reasons[0]


def test_an_x86_processor_counts_by_core_and_once_a_package(tree, measure):
    files = {}
    for core, package in ((0, 0), (1, 0), (2, 1), (10, 1)):
        folder = f"{CPUS}/cpu{core}"
        files[f"{folder}/thermal_throttle/core_throttle_count"] = f"{core}\n"
        files[f"{folder}/thermal_throttle/package_throttle_count"] = f"{100 + package}\n"
        files[f"{folder}/topology/physical_package_id"] = f"{package}\n"
    found = Throttling().probe(tree(files), 1)
    assert measure(found) == {
        "cpu0.throttle_events": 0,
        "throttling.package0.events": 100,
        "cpu1.throttle_events": 1,
        "cpu2.throttle_events": 2,
        "throttling.package1.events": 101,
        "cpu10.throttle_events": 10,
    }
    assert channels(found)["cpu10.throttle_events"].core == 10


@pytest.mark.parametrize(
    ("text", "now", "since"),
    [
        ("0\n", 0, 0),
        # A 3B+ with too little voltage: throttled and under-voltage now, and since the start.
        ("50005\n", 5, 5),
        ("0x50000\n", 0, 5),
        ("80008\n", 8, 8),
    ],
)
def test_a_raspberry_pi_s_bits_are_those_of_now_and_those_since_its_start(
    tree, measure, text, now, since
):
    found = Throttling().probe(tree({FIRMWARE: text}), 1)
    assert measure(found) == {
        "throttling.firmware.now": now,
        "throttling.firmware.since_start": since,
    }
    by_name = channels(found)
    assert by_name["throttling.firmware.now"].role == "throttle_reasons"
    assert by_name["throttling.firmware.since_start"].role == "throttle_history"
    assert "under-voltage" in by_name["throttling.firmware.now"].note


def test_the_cap_of_the_clock_is_read_once_for_cores_that_share_it(tree, measure):
    root = tree(
        {
            f"{CPUS}/cpufreq/policy0/scaling_max_freq": "1200000\n",
            f"{CPUS}/cpufreq/policy0/cpuinfo_max_freq": "2035200\n",
            f"{CPUS}/cpufreq/policy1/scaling_max_freq": "2035200\n",
        }
    )
    for core, policy in ((0, 0), (1, 1), (2, 1), (3, 0)):
        folder = root / CPUS / f"cpu{core}"
        folder.mkdir()
        (folder / "cpufreq").symlink_to(f"../cpufreq/policy{policy}")
    found = Throttling().probe(root, 1)
    assert measure(found) == pytest.approx(
        {"cpu0.frequency_cap": 1.2e9, "cpu1.frequency_cap": 2.0352e9}
    )
    by_name = channels(found)
    assert [(c.core, c.limit) for c in by_name.values()] == [(0, 2.0352e9), (1, None)]


def test_one_sign_that_fails_does_not_hide_the_others(tree, measure):
    root = tree(cooling(0, "Processor", 1) | {f"{COOLING}1/type": "Processor\n"})
    (root / f"{COOLING}1/cur_state").mkdir()
    assert measure(Throttling().probe(root, 1)) == {"throttling.cooling.processor.0": 1}


def test_a_sign_that_may_not_be_read_says_so(open_folder, unprivileged):
    for number in (0, 1):
        for name, text in cooling(number, "Processor", 1).items():
            path = open_folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    (open_folder / f"{COOLING}1/cur_state").chmod(0)
    with unprivileged():
        parts = list(throttling_parts(open_folder))
    assert [type(part) for part in parts] == [SensorRead, Absent]
    assert isinstance(parts[1], Absent)
    assert "permission denied" in parts[1].reason


def test_a_virtual_machine_is_told_why(tmp_path):
    found = Throttling().probe(tmp_path, 1)
    assert isinstance(found, Absent)
    assert "virtual machines" in found.reason
