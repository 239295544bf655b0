"""What reading ten sensors of a Jetson costs: ms a tick and resident memory of the sampler's child.

    python benchmarks/jetson_tick.py [--seconds 10] [--interval 10ms] [--json]

A TX2's file tree in memory (twelve rails in the old driver's layout, GPU, memory controller,
thermal zones, clocks of six cores, cooling, fan), with this machine's own /proc. The real sensors
find their files, the real child reads them: once as planned, and once with every file at every
tick. The peer opens, reads and closes the same files at every tick, as most tools do.

Files in memory answer in a microsecond. Those of a real board that wait for a bus take longer,
which no reader can change; what is measured here is what reading itself adds.
Targets: 0.5 ms a tick, 15 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from wattstep.record.sampling.plan import Plan, make_plan
from wattstep.record.sampling.sampler import Sampler
from wattstep.record.sensors import SENSORS, load, probe
from wattstep.schema.channel import Absent, Present
from wattstep.schema.settings import parse_duration

TARGET_MS, TARGET_MB = 0.5, 15.0
TEN = (
    "ina3221", "tegra_gpu", "tegra_memory", "thermal", "frequency", "throttling", "fan",
    "cpu", "system_memory", "process_memory",
)  # fmt: skip
CORES, ZONES = range(6), ("BCPU-therm", "MCPU-therm", "GPU-therm", "PLL-therm", "Tboard_tegra")
RAILS = {
    "0-0040": ("VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_4V0_WIFI"),
    "0-0041": ("VDD_IN", "VDD_SYS_CPU", "VDD_SYS_DDR"),
    "0-0042": ("VDD_MUX", "VDD_5V0_IO_SYS", "VDD_3V3_SYS"),
    "0-0043": ("VDD_3V3_IO_SLP", "VDD_1V8_IO", "VDD_3V3_SYS_M2"),
}
CPUS = "sys/devices/system/cpu"


def board_files() -> dict[str, str]:
    """The files of an idle TX2, besides its rails."""
    files = {
        "proc/device-tree/compatible": "nvidia,p2597-0000+p3310-1000\0nvidia,tegra186\0",
        "sys/devices/gpu.0/load": "0",
        "sys/class/devfreq/17000000.gp10b/cur_freq": "114750000",
        "sys/class/devfreq/17000000.gp10b/max_freq": "1300500000",
        "sys/kernel/debug/bpmp/debug/clk/emc/rate": "102000000",
        "sys/kernel/debug/bpmp/debug/clk/emc/max_rate": "1866000000",
        "sys/kernel/actmon_avg_activity/mc_all": "16320",
        "sys/devices/pwm-fan/rpm_measured": "1500",
        "sys/devices/pwm-fan/cur_pwm": "60",
        "sys/class/thermal/cooling_device0/type": "thermal-cpufreq-0",
        "sys/class/thermal/cooling_device0/cur_state": "0",
    }
    for number, kind in enumerate(ZONES):
        files[f"sys/class/thermal/thermal_zone{number}/type"] = kind
        files[f"sys/class/thermal/thermal_zone{number}/temp"] = "41500"
    for core in CORES:
        for name, value in (("scaling_cur", 345600), ("scaling_max", 2035200)):
            files[f"{CPUS}/cpu{core}/cpufreq/{name}_freq"] = str(value)
    return files


def rail_files() -> dict[str, str]:
    """The twelve rails of module and carrier, as the old driver shows them."""
    files = {}
    for number, (chip, rails) in enumerate(RAILS.items()):
        folder = f"sys/bus/i2c/drivers/ina3221x/{chip}/iio:device{number}"
        files[f"{folder}/name"] = "ina3221x"
        for place, rail in enumerate(rails):
            files[f"{folder}/rail_name_{place}"] = rail
            files[f"{folder}/in_voltage{place}_input"] = "19064"
            files[f"{folder}/in_current{place}_input"] = "96"
            files[f"{folder}/in_power{place}_input"] = "1830"
    return files


def write_tree(root: Path, files: Mapping[str, str]) -> None:
    """The files, and beside them what the sensors read of this machine's /proc."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    for name in ("stat", "meminfo", "cpuinfo", str(os.getpid())):
        (root / "proc" / name).symlink_to(f"/proc/{name}")


def find_sensors(root: Path) -> dict[str, Present | Absent]:
    """The ten, as far as this version has them."""
    return {
        name: probe(load(name), root, os.getpid())
        for name in TEN
        if name in SENSORS
    }  # fmt: skip


def at_every_tick(found: Mapping[str, Present | Absent]) -> dict[str, Present | Absent]:
    """The same sensors, every file read at every tick whatever it says about its period."""
    return {
        name: Present(reads=tuple(replace(read, least_period_s=0.0) for read in part.reads))
        for name, part in found.items()
        if isinstance(part, Present)
    }


def sample(plan: Plan, seconds: float) -> dict[str, float]:
    """The child over this plan: what a tick takes, and what is resident."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        sampler = Sampler(plan, Path(folder))
        sampler.start()
        time.sleep(seconds)
        resident = resident_bytes(sampler.pid)
        if reason := sampler.stop():
            raise RuntimeError(reason)
        ticks = np.fromfile(Path(folder) / "ticks.bin", "<i8").reshape(-1, 4)[20:]
    busy_ms = ticks[:, 2] * 1e-6
    return {
        "files": sum(1 + len(read["arguments"]) * (read["parser"] in ("product", "ratio", "sum"))
                     for read in plan.entries),
        "reads": len(plan.entries),
        "ticks": len(ticks),
        "median_ms": float(np.median(busy_ms)),
        "mean_ms": float(busy_ms.mean()),
        "p99_ms": float(np.percentile(busy_ms, 99)),
        "resident_MB": resident / 1e6,
    }  # fmt: skip


def open_and_read(plan: Plan, seconds: float) -> dict[str, float]:
    """The peer: opens, reads, parses and closes each file anew, without a child."""
    paths = [read["path"] for read in plan.entries if read["parser"] not in ("self", "perf")]
    spent = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = time.perf_counter()
        for path in paths:
            with open(path) as file:  # noqa: PTH123 - as others do it
                file.read().split()
        spent.append((time.perf_counter() - before) * 1e3)
        time.sleep(plan.period_s)
    return {
        "files": len(paths),
        "median_ms": float(np.median(spent)),
        "p99_ms": float(np.percentile(spent, 99)),
    }


def resident_bytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1]) * 1024
    raise RuntimeError("no VmRSS")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--interval", default="10ms")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    interval = parse_duration(options.interval)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        write_tree(Path(folder), board_files() | rail_files())
        found = find_sensors(Path(folder))
        for name, part in found.items():
            if isinstance(part, Absent):
                raise SystemExit(f"{name}: {part.reason}")
        everything = make_plan(at_every_tick(found), interval)
        rows = {
            "as planned": sample(make_plan(found, interval), options.seconds),
            "every file at every tick": sample(everything, options.seconds),
            "peer: open, read, close": open_and_read(everything, options.seconds / 2),
        }
    if options.json:
        print(json.dumps({"sensors": list(found), **rows}, indent=1))
        return
    print(f"{len(found)} sensors: {', '.join(found)}")
    for name, row in rows.items():
        print(f"\n{name}")
        for key, value in row.items():
            print(f"  {key:12} {value:10.4f}" if "_" in key else f"  {key:12} {value:5.0f}")
    print(f"\ntargets: {TARGET_MS} ms a tick, {TARGET_MB} MB")


if __name__ == "__main__":
    main()
