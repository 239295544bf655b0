"""The file tree of an emulated board: written once, with every file that moves as wide as it will ever be."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final

from wattstep.boards import COMPATIBLE, MODEL
from wattstep.boards.table import Board, Cluster, Rail
from wattstep.record.hosts.emulation.heat import LEVELS, trip_c
from wattstep.record.hosts.emulation.power import (
    Clocks,
    capped,
    clock_range,
    core_count,
    current_step_ma,
    gpu_range,
    rail_volts,
)
from wattstep.record.hosts.emulation.settings import Settings

WIDTH: Final = 12  # of a moving number, with its end of line
GPU_STEPS: Final = 12  # between its lowest and its highest clock
MEMORY: Final = 8 << 30  # of a board whose memory is not known
THERMAL: Final = "sys/class/thermal"
CPU: Final = "sys/devices/system/cpu"
NVPMODEL: Final = "var/lib/nvpmodel/status"
STAT: Final = "proc/stat"
MEMINFO: Final = "proc/meminfo"
EMC: Final = "sys/kernel/debug/bpmp/debug/clk/emc"
EMC_ACTIVITY: Final = "sys/kernel/actmon_avg_activity/mc_all"
COOLING: Final = f"{THERMAL}/cooling_device0"
OLD_FAN: Final = "sys/devices/pwm-fan"
NEW_FAN: Final = "sys/class/hwmon/hwmon9"
FIRMWARE: Final = "sys/devices/platform/soc/soc:firmware/get_throttled"
THROTTLED_NOW: Final = 0x4  # bits of a Raspberry Pi's firmware (boards.md 3)
THROTTLED_ONCE: Final = 0x40000


def number_line(value: int) -> bytes:
    """A number as its file holds it: blanks before the end of line, so that it is written in place."""
    return b"%-*d\n" % (WIDTH - 1, value)


def hex_line(value: int) -> bytes:
    """Line of a file with an integer in hexadecimal digits, as a Raspberry Pi's firmware gives its throttle bits."""
    return b"%-*x\n" % (WIDTH - 1, value)


def has_firmware(board: Board) -> bool:
    """True if its firmware tells that it throttles."""
    return board.name.startswith("raspberry")


def build(root: Path, settings: Settings) -> None:
    """Writes all files and links below a folder.

    Raises:
        OSError: It cannot be written.
    """
    for name, content in files(settings).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for name, target in links(settings).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(root / target, path.parent))
    for name in unreadable(settings):
        (root / name).unlink()
        (root / name).mkdir()  # a folder reads as an error


def files(settings: Settings) -> dict[str, str | bytes]:
    """Path to what it holds before anything runs."""
    board = settings.board
    contents: dict[str, str | bytes] = {
        **_identity(board),
        **_cores(board),
        STAT: stat_text((0.0,) * core_count(board), (0.0,) * core_count(board)),
        MEMINFO: meminfo_text(board, 0),
    }
    for rail in settings.rails:
        contents.update(_rail(settings, rail))
    for chip, rails in chips(settings).items():
        contents.update(_chip(settings, chip, rails))
    contents.update(_gpu(board))
    contents.update(_zones(settings))
    contents.update(_modes(board))
    contents.update(_memory_controller(board))
    contents.update(_fan(settings))
    if has_firmware(board):
        contents[FIRMWARE] = hex_line(0)
    return contents


def links(settings: Settings) -> dict[str, str]:
    """Path to what it leads to, both below the root."""
    board = settings.board
    targets = {
        f"{CPU}/cpu{core}/cpufreq": policy_folder(cluster)
        for cluster in board.clusters
        for core in cluster.cores
    }
    for chip in chips(settings):
        targets.update(_chip_links(settings, chip))
    if board.gpu:
        real = gpu_folder(board)
        targets[f"sys/class/devfreq/{Path(real).name}"] = gpu_devfreq(board)
        targets[f"{gpu_devfreq(board)}/device"] = real
        targets.update({path: real for path in board.gpu.get("paths", ()) if path != real})
    return targets


def unreadable(settings: Settings) -> Iterator[str]:
    """Files in whose place there is a folder."""
    broken = settings.with_quirk("eio")
    for rail in settings.rails:
        if rail.label in broken:
            yield from rail_files(settings, rail).values()
    for place, zone in enumerate(settings.board.zones):
        if zone.type in broken:
            yield zone_file(place)


# --- who it is --------------------------------------------------------------------------------


def _identity(board: Board) -> dict[str, str | bytes]:
    model = next((board.title for text in board.models if text in board.title), None)
    # A pattern of the table stands for several numbers of a part: the first such number.
    entries = [entry.replace("*", "0000") for entry in board.compatible]
    contents: dict[str, str | bytes] = {
        MODEL: (model or next(iter(board.models), board.title)).encode() + b"\0",
        "etc/os-release": f'PRETTY_NAME="emulated {board.title}"\n',
    }
    if entries:
        contents[COMPATIBLE] = b"".join(entry.encode() + b"\0" for entry in entries)
    return contents


def _cores(board: Board) -> dict[str, str | bytes]:
    count = core_count(board)
    contents: dict[str, str | bytes] = {
        "proc/cpuinfo": "".join(
            f"processor\t: {core}\nmodel name\t: {_kind(board, core)}\n\n" for core in range(count)
        )
    }
    for name in ("online", "possible", "present"):
        contents[f"{CPU}/{name}"] = f"0-{count - 1}\n"
    for core in range(count):
        contents[f"{CPU}/cpu{core}/online"] = "1\n"
    for number, cluster in enumerate(board.clusters):
        contents.update(_policy(cluster))
        for core in cluster.cores:
            contents[f"{CPU}/cpu{core}/topology/cluster_id"] = f"{number}\n"
            if cluster.capacity is not None:
                contents[f"{CPU}/cpu{core}/cpu_capacity"] = f"{round(1024 * cluster.capacity)}\n"
    return contents


def _kind(board: Board, core: int) -> str:
    cluster = board.cluster_of(core)
    return cluster.kind if cluster else "unknown"


def policy_folder(cluster: Cluster) -> str:
    """Of a cluster's clock."""
    number = cluster.cores[0] if cluster.policy is None else cluster.policy
    return f"{CPU}/cpufreq/policy{number}"


def _policy(cluster: Cluster) -> dict[str, str | bytes]:
    folder, (low, high) = policy_folder(cluster), clock_range(cluster)
    least, most = number_line(round(low / 1e3)), number_line(round(high / 1e3))
    cores = " ".join(map(str, cluster.cores)) + "\n"
    return {
        f"{folder}/cpuinfo_min_freq": least,
        f"{folder}/cpuinfo_max_freq": most,
        f"{folder}/cpuinfo_cur_freq": least,
        f"{folder}/scaling_min_freq": least,
        f"{folder}/scaling_max_freq": most,
        f"{folder}/scaling_cur_freq": least,
        f"{folder}/scaling_governor": "schedutil\n",
        f"{folder}/related_cpus": cores,
        f"{folder}/affected_cpus": cores,
    }


def stat_text(busy_s: tuple[float, ...], idle_s: tuple[float, ...]) -> bytes:
    """/proc/stat, whose ticks are USER_HZ to the second; always of the same length."""
    per_second = os.sysconf("SC_CLK_TCK")
    rows = [(round(b * per_second), round(i * per_second)) for b, i in zip(busy_s, idle_s)]  # noqa: B905
    total = tuple(map(sum, zip(*rows)))  # noqa: B905
    lines = [_stat_line(b"cpu ", *total)]
    lines += [_stat_line(b"cpu%d" % core, *row) for core, row in enumerate(rows)]
    return b"".join(lines)


def _stat_line(name: bytes, busy: int, idle: int) -> bytes:
    return b"%s %-12d 0 0 %-12d 0 0 0 0 0 0\n" % (name, busy, idle)


def meminfo_text(board: Board, used: int) -> bytes:
    """/proc/meminfo of a board of which so many bytes are in use; always of the same length."""
    total = (board.memory or MEMORY) >> 10
    free = max(total - (used >> 10), 0)
    rows = {
        "MemTotal": total, "MemFree": free, "MemAvailable": free,
        "Buffers": 0, "Cached": 0, "SwapTotal": 0, "SwapFree": 0,
    }  # fmt: skip
    return "".join(f"{name + ':':<16}{value:>12} kB\n" for name, value in rows.items()).encode()


# --- power ------------------------------------------------------------------------------------


def chips(settings: Settings) -> dict[str, tuple[Rail, ...]]:
    """The rails of each chip, by its bus address."""
    rails = sorted(settings.rails, key=attrgetter("chip", "channel"))
    return {chip: tuple(group) for chip, group in groupby(rails, key=attrgetter("chip"))}


def chip_folder(settings: Settings, chip: str) -> str:
    """Folder of the files of a chip's channels."""
    number = list(chips(settings)).index(chip)
    device = f"sys/devices/platform/i2c/i2c-{chip.partition('-')[0]}/{chip}"
    part = f"hwmon/hwmon{number}" if settings.layout == "hwmon" else f"iio:device{number}"
    return f"{device}/{part}"


def rail_files(settings: Settings, rail: Rail) -> dict[str, str]:
    """The files that move: "mV", "mA", and "mW" and "pair" in the old layouts."""
    folder, channel = chip_folder(settings, rail.chip), rail.channel
    if settings.layout == "hwmon":
        return {
            "mV": f"{folder}/in{channel + 1}_input", "mA": f"{folder}/curr{channel + 1}_input"
        }  # fmt: skip
    return {
        "mV": f"{folder}/in_voltage{channel}_input", "mA": f"{folder}/in_current{channel}_input",
        "mW": f"{folder}/in_power{channel}_input", "pair": f"{folder}/ui_input_{channel}",
    }  # fmt: skip


def pair_line(millivolts: int, milliamperes: int) -> bytes:
    """Voltage and current as the old driver gives them together."""
    return b"%-*s\n" % (2 * WIDTH - 1, b"%d %d" % (millivolts, milliamperes))


def _rail(settings: Settings, rail: Rail) -> dict[str, str | bytes]:
    names, channel = rail_files(settings, rail), rail.channel
    folder = chip_folder(settings, rail.chip)
    volts = round(rail_volts(settings, rail) * 1e3)
    contents: dict[str, str | bytes] = {
        names["mV"]: number_line(volts),
        names["mA"]: number_line(0),
    }
    if settings.layout == "hwmon":
        number = channel + 1
        step_v = current_step_ma(settings, rail) * 1e-3
        contents[f"{folder}/in{number}_label"] = f"{rail.label}\n"
        contents[f"{folder}/in{number}_enable"] = "1\n"
        contents[f"{folder}/shunt{number}_resistor"] = f"{round(40.0 / step_v)}\n"  # µΩ
        return contents
    contents[names["mW"]] = number_line(0)
    contents[names["pair"]] = pair_line(volts, 0)
    contents[f"{folder}/rail_name_{channel}"] = f"{rail.label}\n"
    contents[f"{folder}/crit_current_limit_{channel}"] = "32760 ma\n"
    contents[f"{folder}/warn_current_limit_{channel}"] = "32760 ma\n"
    contents[f"{folder}/polling_delay_{channel}"] = "0 ms\n"
    return contents


def _chip(settings: Settings, chip: str, rails: tuple[Rail, ...]) -> dict[str, str | bytes]:
    folder = chip_folder(settings, chip)
    free = sorted({0, 1, 2} - {rail.channel for rail in rails})
    if settings.layout != "hwmon":
        return {
            f"{folder}/name": "ina3221x\n",
            f"{folder}/running_mode": "1\n",
            **{f"{folder}/rail_name_{channel}": "NC\n" for channel in free},
        }
    contents: dict[str, str | bytes] = {
        f"{folder}/name": "ina3221\n",
        f"{folder}/samples": "1\n",
        f"{folder}/update_interval": f"{round(settings.averaging_s * 1e3)}\n",
        f"{folder}/in7_label": "sum of shunt voltages\n",
    }
    for channel in free:
        contents[f"{folder}/in{channel + 1}_label"] = "NC\n"
        contents[f"{folder}/in{channel + 1}_input"] = number_line(0)
        contents[f"{folder}/curr{channel + 1}_input"] = number_line(0)
    return contents


def _chip_links(settings: Settings, chip: str) -> dict[str, str]:
    folder = Path(chip_folder(settings, chip))
    if settings.layout == "hwmon":
        return {
            f"sys/class/hwmon/{folder.name}": str(folder),
            f"sys/bus/i2c/drivers/ina3221/{chip}": str(folder.parents[1]),
        }
    targets = {f"sys/bus/iio/devices/{folder.name}": str(folder)}
    if settings.layout == "ina3221x":
        targets[f"sys/bus/i2c/drivers/ina3221x/{chip}"] = str(folder.parent)
    return targets


# --- GPU, heat, modes -------------------------------------------------------------------------


def gpu_folder(board: Board) -> str:
    """Of the GPU's device; the table's other paths lead there."""
    paths = board.gpu.get("paths") or [f"sys/devices/platform/{board.gpu['name']}"]
    return str(paths[-1])


def gpu_devfreq(board: Board) -> str:
    """Of the GPU's clock."""
    folder = gpu_folder(board)
    return f"{folder}/devfreq/{Path(folder).name}"


def _gpu(board: Board) -> dict[str, str | bytes]:
    if not board.gpu:
        return {}
    folder, clock, (low, high) = gpu_folder(board), gpu_devfreq(board), gpu_range(board)
    return {
        f"{folder}/load": number_line(0),
        f"{folder}/of_node/name": str(board.gpu["name"]).encode() + b"\0",
        f"{clock}/cur_freq": number_line(round(low)),
        f"{clock}/min_freq": number_line(round(low)),
        f"{clock}/max_freq": number_line(round(high)),
        f"{clock}/available_frequencies": " ".join(map(str, _gpu_steps(low, high))) + "\n",
        f"{clock}/governor": "nvhost_podgov\n",
    }


def _gpu_steps(low: float, high: float) -> list[int]:
    """Clocks of the GPU, in equal steps in whole kHz: which ones a board has, its table does not say."""
    return [
        round((low + (high - low) * n / GPU_STEPS) / 1e3) * 1000 if 0 < n < GPU_STEPS
        else round(low if n == 0 else high)
        for n in range(GPU_STEPS + 1)
    ]  # fmt: skip


def zone_file(place: int) -> str:
    """The temperature of a zone, in m°C."""
    return f"{THERMAL}/thermal_zone{place}/temp"


def _zones(settings: Settings) -> dict[str, str | bytes]:
    contents: dict[str, str | bytes] = {
        f"{COOLING}/type": "cpu-balanced\n",
        f"{COOLING}/max_state": f"{LEVELS}\n",
        f"{COOLING}/cur_state": number_line(0),
    }
    for place, zone in enumerate(settings.board.zones):
        folder = f"{THERMAL}/thermal_zone{place}"
        contents[f"{folder}/type"] = f"{zone.type}\n"
        contents[f"{folder}/temp"] = number_line(round(settings.ambient_c * 1e3))
        trips = (("passive", trip_c(settings, zone)), ("critical", zone.critical_c))
        limits = [(kind, limit) for kind, limit in trips if limit is not None]
        for number, (kind, limit) in enumerate(limits):
            contents[f"{folder}/trip_point_{number}_type"] = f"{kind}\n"
            contents[f"{folder}/trip_point_{number}_temp"] = f"{round(limit * 1e3)}\n"
    return contents


def _modes(board: Board) -> dict[str, str | bytes]:
    if not board.modes:
        return {}
    numbered = [
        (place if mode.id is None else mode.id, mode) for place, mode in enumerate(board.modes)
    ]
    lines = (f"< POWER_MODEL ID={number} NAME={mode.name} >\n" for number, mode in numbered)
    return {NVPMODEL: f"pmode:{numbered[0][0]:04d}\n", "etc/nvpmodel.conf": "".join(lines)}


def has_memory_controller(board: Board) -> bool:
    """True if the board's kernel tells the load of its memory controller."""
    return board.name.startswith("jetson") and bool(board.memory_controller.get("max_hz"))


def fan_file(settings: Settings) -> str:
    """The drive of a Jetson's fan, from 0 to 255; "" where the board has none that tells."""
    if not settings.board.name.startswith("jetson"):
        return ""
    return f"{NEW_FAN}/pwm1" if settings.layout == "hwmon" else f"{OLD_FAN}/cur_pwm"


def _fan(settings: Settings) -> dict[str, str | bytes]:
    path = fan_file(settings)
    contents: dict[str, str | bytes] = {path: number_line(0)} if path else {}
    if path.startswith(NEW_FAN):
        contents[f"{NEW_FAN}/name"] = "pwmfan\n"
    return contents


def _memory_controller(board: Board) -> dict[str, str | bytes]:
    if not has_memory_controller(board):
        return {}
    rate = number_line(round(board.memory_controller["max_hz"]))
    return {
        **{f"{EMC}/{name}": rate for name in ("rate", "max_rate", "min_rate")},
        EMC_ACTIVITY: number_line(0),
    }


def cap_files(settings: Settings, cap: float) -> Mapping[str, int]:
    """Values that a cap of the clocks writes: the highest that is allowed, by file."""
    board = settings.board
    limits = {
        f"{policy_folder(c)}/scaling_max_freq": round(capped(*clock_range(c), cap) / 1e3)
        for c in board.clusters
    }
    if board.gpu:
        limits[f"{gpu_devfreq(board)}/max_freq"] = round(capped(*gpu_range(board), cap))
    return limits


def allowed(settings: Settings, caps: Mapping[str, int]) -> Clocks:
    """The highest clocks that values of the files of `cap_files` allow."""
    board = settings.board
    return Clocks(
        clusters=tuple(
            caps[f"{policy_folder(cluster)}/scaling_max_freq"] * 1e3 for cluster in board.clusters
        ),
        gpu=float(caps[f"{gpu_devfreq(board)}/max_freq"]) if board.gpu else math.inf,
    )
