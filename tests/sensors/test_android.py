from __future__ import annotations

import contextlib
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.run.made import Sampled, make_run
from tests.wording import assert_says

from wattstep.formats.recording import FormatError
from wattstep.record.sensors.android import probe
from wattstep.record.sensors.android.clock import BURST, DRIFT, ClockMap, Eras, Point, between
from wattstep.record.sensors.android.decode import DECODERS, decode
from wattstep.record.sensors.android.loop import Echo, Sample, Stream
from wattstep.record.sensors.android.source import PhoneSource, open_source
from wattstep.run import load
from wattstep.schema.channel import Absent, Channel, Present
from wattstep.schema.journal import MISSING

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 200
SERIAL = "R58M12ABCDE"
PATIENCE_S = 30.0  # until a test gives up waiting for rows; nothing is asserted of it
MALI = "sys/devices/platform/28000000.mali/utilization"

# A phone put together from public lines: clusters of a Pixel 6 (boards.md 4.3), the rails of its
# meter, MemTotal and SwapTotal of an S24, the names of a Mi 8's battery.
BATTERY = """\
POWER_SUPPLY_NAME=battery
POWER_SUPPLY_TYPE=Battery
POWER_SUPPLY_STATUS=Discharging
POWER_SUPPLY_CURRENT_NOW=326171
POWER_SUPPLY_VOLTAGE_NOW=3888173
POWER_SUPPLY_CHARGE_COUNTER=1528169
POWER_SUPPLY_TEMP=290
"""
USB = "POWER_SUPPLY_NAME=usb\nPOWER_SUPPLY_TYPE=USB\nPOWER_SUPPLY_ONLINE=0\n"
ENERGY = """\
t=251741617
CH0(T=251741617)[S4M_VDD_CPUCL0], 192612469095
CH1(T=251741617)[VSYS_PWR_MODEM], 1393792850
"""
PHONE: Mapping[str, str] = {
    "sys/class/power_supply/battery/uevent": BATTERY,
    "sys/class/power_supply/usb/uevent": USB,
    "sys/class/power_supply/usb/online": "0\n",
    "sys/class/thermal/thermal_zone0/type": "BIG\n",
    "sys/class/thermal/thermal_zone0/temp": "48250\n",
    "sys/class/thermal/thermal_zone2/type": "pa-therm\n",
    "sys/class/thermal/thermal_zone2/temp": "-274000\n",
    "sys/class/thermal/thermal_zone10/type": "old style\n",
    "sys/class/thermal/thermal_zone10/temp": "35\n",
    "sys/devices/system/cpu/cpu0/cpu_capacity": "250\n",
    "sys/devices/system/cpu/cpu2/cpu_capacity": "1024\n",
    "sys/devices/system/cpu/cpufreq/policy0/related_cpus": "0 1\n",
    "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq": "1803000\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq": "738000\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq": "1803000\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "sched_pixel\n",
    "sys/devices/system/cpu/cpufreq/policy2/related_cpus": "2\n",
    "sys/devices/system/cpu/cpufreq/policy2/cpuinfo_max_freq": "2802000\n",
    "sys/devices/system/cpu/cpufreq/policy2/scaling_cur_freq": "2802000\n",
    "sys/devices/system/cpu/cpufreq/policy2/scaling_max_freq": "2048000\n",
    MALI: "13\n",
    "sys/bus/iio/devices/iio:device0/energy_value": ENERGY,
    "proc/stat": "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 1 20 300 4 5 6 7 0 0\n"
    "cpu2 1 0 2 30 0 0 0 0 0 0\nintr 1\n",
    "proc/meminfo": "MemTotal:       11350704 kB\nMemAvailable:    5000000 kB\n"
    "SwapTotal:       8388604 kB\nSwapFree:        8000000 kB\n",
    "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=123\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=45\n",
}
THERMAL = """\
IsStatusOverride: false
Thermal Status: 2
Cached temperatures:
	Temperature{mValue=36.0, mType=3, mName=VIRTUAL SKIN, mStatus=0}
HAL Ready: true
Current temperatures from HAL:
	Temperature{mValue=41.25, mType=3, mName=VIRTUAL SKIN, mStatus=2}
	Temperature{mValue=0.0, mType=4, mName=usb, mStatus=0}
Temperature static thresholds from HAL:
	TemperatureThreshold{mType=3, mName=VIRTUAL SKIN, mHotThrottlingThresholds=[NaN, 39.0, 43.0, 45.0, 46.5, 52.0, 55.0], mColdThrottlingThresholds=[NaN]}
"""
UNPLUGGED = (
    "Current Battery Service state:\n  AC powered: false\n  USB powered: false\n  status: 3\n"
    "  voltage: 3888\n  temperature: 290\n"
)


class Device:
    """A phone made of files, and the adb that leads to it."""

    def __init__(self, root: Path, shell: str = "sh") -> None:
        self.root, self.bin = root / "root", root / "bin"
        self.bin.mkdir()
        for name, text in PHONE.items():
            self.write(name, text)
        self.say("dumpsys-battery", UNPLUGGED)
        self.say("dumpsys-thermalservice", THERMAL)
        self.say("dumpsys-power", "  mWakefulness=Awake\n")
        self.say("getprop-ro.product.model", "Pixel 6\n")
        self.command("dumpsys", f'exec cat "{self.root}/dumpsys-$1"')
        self.command("getprop", f'exec cat "{self.root}/getprop-$1"')
        self.adb = self.command(
            "adb",
            f'[ "$1 $2 $3" = "-s {SERIAL} shell" ] || '
            "{ echo \"error: device '$2' not found\" >&2; exit 1; }\n"
            f'PATH="{self.bin}:$PATH" exec {shell} -c "$4"',
        )

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def say(self, name: str, text: str) -> None:
        self.write(name, text)

    def command(self, name: str, script: str) -> str:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    def probe(self) -> dict[str, Present | Absent]:
        return probe(SERIAL, self.adb, str(self.root)).sensors


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path)


Row = tuple[int, int, int, "list[int] | None"]


@contextlib.contextmanager
def running(feed: PhoneSource) -> Iterator[tuple[list[Row], Callable[[Callable[[], bool]], None]]]:
    """The rows that a feed gives meanwhile, and a function that waits until something holds."""
    rows: list[Row] = []
    stop = threading.Event()

    def wait(until: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not until():
            assert time.monotonic() < end, rows[-5:]
            time.sleep(0.01)

    thread = threading.Thread(
        target=feed.run, args=(lambda *row: rows.append(row), stop), daemon=True
    )
    thread.start()
    try:
        yield rows, wait
    finally:
        stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def first_values(found: Present) -> dict[str, float]:
    """One row of every read of a phone, in the channels' units."""
    feed = open_source(**found.reads[0].push_settings, period_s=0.1)
    with running(feed) as (rows, wait):
        wait(lambda: {row[0] for row in rows} == set(range(len(found.reads))))
    first: dict[int, Row] = {}
    for row in rows:
        first.setdefault(row[0], row)
    return {
        channel.name: raw * channel.scale
        for place, read in enumerate(found.reads)
        for channel, raw in zip(read.channels, first[place][3] or (), strict=True)
        if raw != MISSING
    }


def channels_of(found: Present) -> dict[str, Channel]:
    return {channel.name: channel for read in found.reads for channel in read.channels}


def test_every_number_of_the_phone_comes_out_in_si_units(device):
    found = device.probe()["phone"]
    values = first_values(found)
    assert values.pop("phone.clock_uncertainty") > 0
    assert values.pop("phone.read_time") >= 0
    tick = 0.01
    assert values == pytest.approx(
        {
            "phone.battery.power": 0.326171 * 3.888173,  # this gauge says + while it gives
            "phone.battery.current": 0.326171,
            "phone.battery.voltage": 3.888173,
            "phone.battery.charge": 1.528169 * 3600,
            "phone.battery.temperature": 29.0,
            "thermal.big": 48.25,
            "thermal.old_style": 35.0,  # and pa-therm's -274 °C is no value
            "phone.thermal_status": 2,
            "phone.thermal.virtual_skin": 41.25,  # and usb's 0.0 is none
            "cpu0.frequency": 738e6,
            "cpu1.frequency": 738e6,
            "cpu2.frequency": 2802e6,
            "cpu0.frequency_cap": 1803e6,
            "cpu1.frequency_cap": 1803e6,
            "cpu2.frequency_cap": 2048e6,
            "cpu0.busy_time": (10 + 1 + 20 + 5 + 6) * tick,
            "cpu0.idle_time": 304 * tick,
            "cpu0.steal_time": 7 * tick,
            "cpu2.busy_time": 3 * tick,
            "cpu2.idle_time": 30 * tick,
            "cpu2.steal_time": 0,
            "gpu.utilization": 0.13,
            "system.total_memory": 11350704 * 1024,
            "system.available_memory": 5000000 * 1024,
            "system.swap_total": 8388604 * 1024,
            "system.swap_free": 8000000 * 1024,
            "pressure.memory.some": 123e-6,
            "pressure.memory.full": 45e-6,
            "phone.S4M_VDD_CPUCL0.energy": 192612.469095,
            "phone.VSYS_PWR_MODEM.energy": 1393.79285,
        },
        rel=1e-6,
    )


def test_what_channels_say_of_themselves(device):
    found = device.probe()
    channels = channels_of(found["phone"])
    power = channels["phone.battery.power"]
    assert power.role == "power_total"
    assert "positive means drawn" in power.note
    assert [c for c in channels.values() if c.role in ("power_total", "energy_total")] == [power]
    assert channels["phone.thermal.virtual_skin"].limit == 39.0
    assert channels["cpu2.frequency"].limit == 2802e6
    assert channels["cpu2.frequency"].core == 2
    assert channels["phone.S4M_VDD_CPUCL0.energy"].domain == "cpu"
    assert channels["phone.VSYS_PWR_MODEM.energy"].domain == "unknown"
    assert "taken for °C" in channels["thermal.old_style"].note
    assert all("±" in c.note for n, c in channels.items() if n != "phone.read_time")
    assert isinstance(found["phone_usb"], Absent)
    assert len(channels) == sum(len(read.channels) for read in found["phone"].reads)


def test_the_serial_number_is_in_nothing_that_is_recorded(device):
    phone = probe(SERIAL, device.adb, str(device.root))
    assert SERIAL not in str((phone.device, phone.notes))
    for read in phone.sensors["phone"].reads:
        assert SERIAL not in str((read.path, read.channels))
        assert SERIAL in str(read.push_settings)
    assert SERIAL not in str([v for v in phone.sensors.values() if isinstance(v, Absent)])
    nobody = probe("XYZ", device.adb).sensors["phone"]
    assert nobody == Absent(reason="no such phone is connected: adb devices lists those that are")


def test_what_machine_the_phone_is(device):
    machine = probe(SERIAL, device.adb, str(device.root)).device
    assert machine["model"] == "Pixel 6"
    assert machine["cores"] == 3
    assert machine["memory"] == 11350704 * 1024
    assert machine["clusters"] == [
        {"kind": "capacity 250", "cores": [0, 1], "max_hz": 1803e6},
        {"kind": "capacity 1024", "cores": [2], "max_hz": 2802e6},
    ]
    assert machine["governors"] == {"policy0": "sched_pixel"}


def test_a_tethered_phone_has_no_total_but_its_cable_is_shown(device):
    device.write(
        "sys/class/power_supply/usb/uevent",
        "POWER_SUPPLY_TYPE=USB\nPOWER_SUPPLY_ONLINE=1\nPOWER_SUPPLY_VOLTAGE_NOW=5000000\n"
        "POWER_SUPPLY_INPUT_CURRENT_NOW=450000\n",
    )
    found = device.probe()["phone"]
    channels = channels_of(found)
    assert not [c for c in channels.values() if c.role in ("power_total", "battery_current")]
    assert channels["phone.battery.current"].role == "battery_current_unclear"
    assert "tethered" in channels["phone.battery.current"].note
    assert channels["phone.usb.power"].role == "power_outside"
    assert first_values(found)["phone.usb.power"] == pytest.approx(2.25)


def energy_of(path: Path, found: Present) -> object:
    """The energy of a run in which the phone's battery says all the time what it says now."""
    values = first_values(found)
    sampled = [
        Sampled(channel=c, raw=lambda t_ns, value=values[name], scale=c.scale: round(value / scale))
        for name, c in channels_of(found).items()
        if name.startswith("phone.battery.")
    ]
    return load(make_run(path, sampled).path).series.energy


def test_the_battery_of_a_tethered_phone_is_not_its_energy(device, tmp_path):
    alone = energy_of(tmp_path / "alone", device.probe()["phone"])
    assert "phone.battery.power" in alone.source
    cable = USB.replace("ONLINE=0", "ONLINE=1")
    device.write("sys/class/power_supply/usb/uevent", cable)
    assert isinstance(energy_of(tmp_path / "tethered", device.probe()["phone"]), str)


@pytest.mark.parametrize("state", [1, 2])  # a fixed, a programmable voltage
def test_a_weak_port_that_leaves_the_battery_discharging_is_a_cable(device, state):
    device.write("sys/class/power_supply/usb/uevent", USB.replace("ONLINE=0", f"ONLINE={state}"))
    channels = channels_of(device.probe()["phone"])
    assert "phone.battery.power" not in channels
    assert channels["phone.battery.current"].role == "battery_current_unclear"


def test_nobody_knows_of_a_cable_where_no_charger_tells_and_the_service_is_set_by_hand(device):
    for name in ("uevent", "online"):
        (device.root / f"sys/class/power_supply/usb/{name}").unlink()
    channels = channels_of(device.probe()["phone"])
    assert "is not noticed" in channels["phone.battery.power"].note
    stopped = "state:\n  (UPDATES STOPPED -- use 'reset' to restart)\n"
    device.say("dumpsys-battery", UNPLUGGED.replace("state:\n", stopped))
    channels = channels_of(device.probe()["phone"])
    assert "phone.battery.power" not in channels
    assert "nothing tells" in channels["phone.battery.current"].note


def test_what_a_battery_keeps_in_its_online_is_no_charger(device):
    device.write("sys/class/power_supply/battery/online", "1\n")
    values = first_values(device.probe()["phone"])
    assert values["phone.battery.power"] == pytest.approx(0.326171 * 3.888173)


def test_a_cable_plugged_in_meanwhile_makes_a_gap_in_power_and_current():
    settings_of_power = [1, 10**6, 2, "CURRENT_NOW", "VOLTAGE_NOW"]
    alone = [1_268_209, 326_171, 3_888_173]
    gap = [MISSING, MISSING, 3_888_173]
    assert decode("drawn", settings_of_power, f"0\n0\n{BATTERY}") == alone
    charging = BATTERY.replace("Discharging", "Charging")
    assert decode("drawn", settings_of_power, f"0\n0\n{charging}") == gap
    for online in ("0\n1\n", "1\n0\n", "2\n0\n", "0\n\n"):
        assert decode("drawn", settings_of_power, f"{online}{BATTERY}") == gap
    assert decode("drawn", settings_of_power, BATTERY) == gap  # no charger told


def test_a_charger_that_comes_online_is_seen_in_the_same_read(device):
    found = device.probe()["phone"]
    names = [read.channels[0].name for read in found.reads]
    battery = names.index("phone.battery.power")
    feed = open_source(**found.reads[0].push_settings, period_s=0.1)
    with running(feed) as (rows, wait):
        wait(lambda: any(row[0] == battery and row[3] and row[3][0] == 1_268_209 for row in rows))
        device.write("sys/class/power_supply/usb/online", "1\n")  # "Discharging" as before
        wait(
            lambda: any(
                row[0] == battery and row[3] and row[3][:2] == [MISSING] * 2 for row in rows
            )
        )
        device.write("sys/class/power_supply/usb/online", "0\n")
        seen = len(rows)
        wait(
            lambda: any(
                row[0] == battery and row[3] and row[3][0] == 1_268_209 for row in rows[seen:]
            )
        )
    assert "(usb)" in channels_of(found)["phone.battery.power"].note


def test_a_battery_whose_files_are_closed_is_asked_for_by_its_service(device):
    for name in ("battery", "usb"):
        (device.root / f"sys/class/power_supply/{name}/uevent").unlink()
    found = device.probe()["phone"]
    assert first_values(found)["phone.battery.voltage"] == pytest.approx(3.888)
    assert "no power" in channels_of(found)["phone.battery.voltage"].note
    stopped = "state:\n  (UPDATES STOPPED -- use 'reset' to restart)\n"
    device.say("dumpsys-battery", UNPLUGGED.replace("state:\n", stopped))
    assert "by hand" in device.probe()["phone_battery"].reason


def test_parts_that_are_closed_or_missing_have_a_reason_and_hide_no_others(device):
    (device.root / MALI).unlink()
    device.write("sys/class/kgsl/kgsl-3d0/gpubusy", "")
    device.command("cat", 'case $1 in *gpubusy) echo "cat: $1: Permission denied"; exit 1;; esac\n'
                          'exec /bin/cat "$@"')  # fmt: skip
    found = device.probe()
    assert_says(found["phone_gpu"].reason, "/sys/class/kgsl/kgsl-3d0/gpubusy", "SELinux")
    assert "cpu0.frequency" in channels_of(found["phone"])


def test_a_file_that_goes_away_or_turns_to_garbage_is_a_gap_in_its_channel_alone(device):
    found = device.probe()["phone"]
    names = [read.channels[0].name for read in found.reads]
    gpu, zone = names.index("gpu.utilization"), names.index("thermal.big")
    feed = open_source(**found.reads[0].push_settings, period_s=0.1)
    with running(feed) as (rows, wait):
        wait(lambda: any(row[0] == gpu and row[2] == 0 for row in rows))
        (device.root / MALI).unlink()
        device.write("sys/class/thermal/thermal_zone0/temp", "4825Q\n")
        wait(lambda: {(gpu, 2), (zone, 22)} <= {(row[0], row[2]) for row in rows})
        device.write(MALI, "14\n")
        wait(lambda: any(row[0] == gpu and row[3] == [14] for row in rows))
    others = [row for row in rows if row[0] not in (gpu, zone)]
    assert {row[2] for row in others} == {0}


# A fake phone with a clock of its own: 1000 s ahead and 300 ppm fast. It answers "now" with our
# monotonic clock, so a row tells how far its time is off. The cable may take its time either way,
# and the clock may be set back while it runs.
FAKE = """\
import random, re, sys, threading, time
delay, set_back = {delay}, {set_back}
start = time.monotonic()
def clock(jump=True):
    t = time.monotonic()
    since = (t - start) * 1.0003
    wall = 5000.0 + since - (3600.0 if jump and since > set_back else 0.0)
    return wall, 1000.0 + since
lock = threading.Lock()
def put(text):
    def later():
        with lock:
            sys.stdout.write(text)
            sys.stdout.flush()
    threading.Timer(delay, later).start()
period = float(sys.stdin.readline())
while sys.stdin.readline().strip() != ".":
    pass
def echoes():
    for line in sys.stdin:
        time.sleep(0.0)
        def answer(n=line.strip()):
            wall, uptime = clock()
            put("\\x1e%s %.6f %.2f %.6f epoch\\x1f" % (n, wall, uptime, clock()[0]))
        threading.Timer(delay, answer).start()
    end.set()
end = threading.Event()
threading.Thread(target=echoes, daemon=True).start()
while not end.wait(period):
    wall, uptime = clock()
    now = time.monotonic_ns()
    put("\\x010 %.6f %.2f %.6f 0\\x02%d\\x03" % (wall, uptime, clock()[0], now))
"""
NOW = {"kind": "line", "argument": "now", "every_s": 0.1, "decoder": "number", "arguments": [1]}


def fake_shell(tmp_path: Path, delay: float, set_back: float = 1e9) -> tuple[str, ...]:
    script = tmp_path / "fake.py"
    script.write_text(FAKE.format(delay=delay, set_back=set_back))
    return (sys.executable, "-S", str(script))


def errors_of(rows: list[Row]) -> list[float]:
    """How far the times of rows are from the time that stands in them, in s."""
    return [(t_ns - values[0]) * 1e-9 for place, t_ns, _, values in rows if place and values]


def stated(rows: list[Row]) -> float:
    """The largest uncertainty that was stated, with half of the longest read, in s."""
    own = [values for place, _, _, values in rows if place == 0 and values]
    return max(v[0] for v in own) * 1e-9 + max(v[1] for v in own) * 0.5e-9


def test_a_cable_that_takes_its_time_does_not_shift_the_rows(tmp_path):
    delay = 0.3
    feed = PhoneSource(fake_shell(tmp_path, delay), [NOW], 0.1)
    with running(feed) as (rows, wait):
        wait(lambda: sum(row[0] == 1 for row in rows) >= 15)
    errors = errors_of(rows)
    assert len(errors) > 10
    assert stated(rows) >= delay  # half of there and back
    assert max(abs(error) for error in errors) <= stated(rows)
    assert abs(statistics.median(errors)) < delay / 3  # as they came, all would be late by 0.3


def test_a_phone_whose_clock_is_set_keeps_its_times(tmp_path):
    feed = PhoneSource(fake_shell(tmp_path, 0.0, set_back=1.0), [NOW], 0.1)
    with running(feed) as (rows, wait):
        wait(lambda: sum(row[0] == 1 for row in rows) >= 20)
    assert max(abs(error) for error in errors_of(rows)) <= stated(rows)
    times = [row[1] for row in rows if row[0] == 1]
    assert times == sorted(times)


@pytest.mark.parametrize("shell", ["sh", "bash", "env KSH_VERSION=mksh bash"])
def test_the_loop_stamps_its_reads_within_what_it_states(tmp_path, shell):
    device = Device(tmp_path, shell)
    device.command("print", 'printf %s "$3"')  # mksh has it in itself
    now = device.command("now", "exec date +%s%6N")
    read = {**NOW, "kind": "run", "argument": now}
    ahead = time.time_ns() - time.monotonic_ns()
    feed = PhoneSource((device.adb, "-s", SERIAL, "shell"), [read], 0.1)
    with running(feed) as (rows, wait):
        wait(lambda: sum(row[0] == 1 for row in rows) >= 8)
    errors = [(row[1] + ahead) * 1e-9 - row[3][0] * 1e-6 for row in rows if row[0] and row[3]]
    assert len(errors) > 5
    assert max(abs(error) for error in errors) <= stated(rows) + 1e-3  # as the wall clock drifts
    resolution = 0.01 if shell == "sh" else 1e-6  # dash has no clock of its own
    assert min(v[0] for place, _, _, v in rows if place == 0) * 1e-9 >= resolution


# An adb that tells its number and that of the loop on the phone, and can be killed.
RELAY = """\
import subprocess, sys
child = subprocess.Popen(["sh", "-c", sys.argv[4]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
with open({pids!r}, "a") as file:
    file.write("%d %d\\n" % (__import__("os").getpid(), child.pid))
import threading
def out():
    while data := child.stdout.read1(65536):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
threading.Thread(target=out, daemon=True).start()
while data := sys.stdin.buffer.read1(65536):
    child.stdin.write(data)
    child.stdin.flush()
child.stdin.close()
child.wait()
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_adb_leaves_a_gap_no_loop_on_the_phone_and_a_new_connection(tmp_path):
    pids, script, value = tmp_path / "pids", tmp_path / "relay.py", tmp_path / "value"
    script.write_text(RELAY.format(pids=str(pids)))
    value.write_text("7\n")
    shell = (sys.executable, str(script), "-s", SERIAL, "shell")
    feed = PhoneSource(shell, [{**NOW, "argument": str(value)}], 0.1)
    with running(feed) as (rows, wait):
        wait(lambda: any(row[3] == [7] for row in rows))
        adb, loop = (int(word) for word in pids.read_text().split())
        os.kill(adb, signal.SIGKILL)
        wait(lambda: not is_alive(loop))
        value.write_text("8\n")
        wait(lambda: any(row[3] == [8] for row in rows))
        _, second = (int(word) for word in pids.read_text().splitlines()[1].split())
    assert [row[2] for row in rows if row[0] == 1 and row[3] is None] == [104]
    times = [row[1] for row in rows if row[0] == 1]
    assert times == sorted(times)
    wait(lambda: not is_alive(second))  # a stopped feed leaves no loop either


def test_an_adb_that_ends_at_once_is_tried_again_and_one_that_is_missing_is_an_error(tmp_path):
    feed = PhoneSource(("false",), [NOW], 0.1)
    with running(feed) as (rows, wait):
        wait(lambda: len(rows) >= 4)
    assert {row[2] for row in rows} == {104}
    with pytest.raises(FileNotFoundError):
        PhoneSource((str(tmp_path / "no-adb"),), [NOW], 0.1).run(print, threading.Event())
    assert "not installed" in probe(SERIAL, str(tmp_path / "no-adb")).sensors["phone"].reason


def test_garbage_on_the_cable_gives_no_row_but_gaps(tmp_path):
    script = tmp_path / "garbage"
    script.write_text(
        "#!/bin/sh\nhead -c 200000 /dev/urandom\nprintf '\\0010 1 1 1 0\\0025\\003'\n"
    )
    script.chmod(0o755)
    with running(PhoneSource((str(script),), [NOW], 0.1)) as (rows, wait):
        wait(lambda: len(rows) >= 2)
    assert all(row[3] is None for row in rows)


# --- the stream and the clock, by themselves -----------------------------------------------------

_NUMBER = st.integers(0, 10**9)
_TEXT = st.text(st.characters(min_codepoint=4, blacklist_characters="\x1e\x1f"), max_size=30)


@settings(max_examples=EXAMPLES)
@given(
    samples=st.lists(st.tuples(st.integers(0, 99), _NUMBER, _TEXT), max_size=6),
    echoes=st.lists(st.tuples(_NUMBER, st.integers(0, 400)), max_size=4),
    cuts=st.lists(st.integers(0, 400), max_size=6),
)
def test_echoes_in_the_middle_and_any_cuts_leave_every_record_whole(samples, echoes, cuts):
    data = b"".join(
        f"\x01{read} {t}.25 7.00 {t}.75 0\x02{text}\x03".encode(errors="surrogatepass")
        for read, t, text in samples
        if not any("\ud800" <= c <= "\udfff" for c in text)
    )
    kept = [s for s in samples if not any("\ud800" <= c <= "\udfff" for c in s[2])]
    plain = data
    places = sorted({(min(at, len(plain)), number) for number, at in echoes}, reverse=True)
    for at, number in places:
        data = data[:at] + f"\x1e{number} 1.5 1.00 1.5 epoch\x1f".encode() + data[at:]
    stream, got = Stream(), []
    for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        got += stream.take(data[a:b])
    found = [r for r in got if isinstance(r, Sample)]
    assert [(s.read, s.text) for s in found] == [(read, text) for read, _, text in kept]
    assert [s.stamp.before_us for s in found] == [t * 10**6 + 250_000 for _, t, _ in kept]
    numbers = [r.number for r in got if isinstance(r, Echo)]
    assert sorted(numbers) == sorted(number for _, number in places)


@settings(max_examples=EXAMPLES)
@given(parts=st.lists(st.binary(max_size=80), max_size=5))
def test_any_bytes_on_the_cable_give_records_or_nothing(parts):
    stream = Stream()
    for part in parts:
        for record in stream.take(part):
            assert record.stamp.before_us >= 0


@pytest.mark.parametrize("name", sorted(DECODERS))
@settings(max_examples=max(EXAMPLES // len(DECODERS), 50))  # each format has a test of its own
@given(data=st.data())
def test_any_text_gives_integers_that_can_be_kept_or_a_clear_error(name, data):
    source = st.sampled_from([*PHONE.values(), THERMAL, UNPLUGGED, "1 2 3", "9" * 18])
    text = data.draw(source)
    at = data.draw(st.integers(0, len(text)))
    text = text[:at] + data.draw(st.text(max_size=4)) + text[at + data.draw(st.integers(0, 3)) :]
    arguments = {
        "number": [2], "zone": [-100], "ticks": [0, 2], "memory": ["MemTotal:", "SwapFree:"],
        "pressure": ["some"], "supply": ["TEMP"], "drawn": [-1, 1000, 1, "TEMP"],
        "fed": ["CURRENT_NOW"], "thermal": ["VIRTUAL SKIN"], "energy": ["S4M_VDD_CPUCL0"],
    }.get(name, [])  # fmt: skip
    try:
        values = decode(name, arguments, text)
    except FormatError:
        return
    assert all(-(2**63) <= value < 2**63 for value in values)


@settings(max_examples=EXAMPLES)
@given(
    rate=st.floats(0.999, 1.001),
    ways=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=8, max_size=24),
    share=st.floats(0, 1),
)
def test_a_time_is_within_the_stated_uncertainty_whichever_way_the_cable_is_slow(rate, ways, share):
    clocks = ClockMap(resolution_ns=1000)
    last_ns = first_ns = 0
    for number, (there, back) in enumerate(ways):
        burst, place = divmod(number, BURST)
        sent = burst * 2_000_000_000 + place * 1_000_000
        at = sent + there * 1_000_000
        clocks.echo(number, 7_000_000 + int(at * rate / 1000), sent, at + back * 1_000_000)
        first_ns = at if number == 0 else first_ns
        last_ns = at
    clocks.finish()
    true_ns = first_ns + (last_ns - first_ns) * share
    answer = clocks.host_ns(7_000_000 + int(true_ns * rate / 1000))
    worst = max(point.uncertainty_ns for point in clocks.points)
    beyond = 1 + 2 * 0.3 / 1.4  # at the ends up to a burst's length lies outside of the points
    assert answer is not None
    assert abs(answer - true_ns) <= worst * beyond + 2000


def test_beyond_two_points_the_better_known_rate_counts():
    def points(apart_s, half_ns):
        """A clock 100 ppm slow: the second echo came back late by all that it may."""
        device_us = round(apart_s * 1e6)
        host_ns = round(apart_s * 1e9 * 1.0001) + half_ns
        return (
            (0, Point(device_us=0, host_ns=0, uncertainty_ns=half_ns)),
            (device_us, Point(device_us=device_us, host_ns=host_ns, uncertainty_ns=half_ns)),
        )

    for apart_s, half_ns in ((0.5, 10_000_000), (100.0, 1_000_000)):
        a, b = points(apart_s, half_ns)
        later_s = apart_s + 10
        found = between(a, b, round(later_s * 1e6))
        true_ns = later_s * 1e9 * 1.0001
        # Half a second apart, 10 ms say 2 % of the rate: 200 ms in ten seconds, where any clock
        # is known to 5 ms. A hundred seconds apart, 1 ms says 20 ppm of it.
        told = 2 * half_ns / (apart_s * 1e9)
        assert found.uncertainty_ns == half_ns + round(10e9 * min(told, DRIFT))
        assert abs(found.host_ns - true_ns) <= found.uncertainty_ns


def test_a_wall_clock_that_is_set_begins_an_era_and_a_slow_one_does_not():
    eras = Eras()
    for second in range(600):  # 50 ppm slow: 30 ms in ten minutes
        wall = 10**12 + second * 1_000_000 - second * 50
        uptime = second * 1_000_000 // 10_000 * 10_000
        assert eras.place(wall, uptime, wall + 200) == 0
    assert eras.place(wall + 1_000_000, uptime + 1_000_000, wall + 1_900_000) == 0  # a long read
    assert eras.place(wall + 3_600_000_000, uptime + 3_000_000, wall + 3_600_000_100) == 1
    assert eras.place(5, 0, 6) == 1  # this one tells no uptime
