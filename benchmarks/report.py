"""`wattstep report` of a run of a million operation instances and a million samples: seconds, memory, size, and how the page answers in Chromium.

    python benchmarks/report.py [--steps 10000] [--instances 1000000] [--samples 1000000] [--repetitions 3]
        [--json] [--keep FOLDER] [--no-browser]

The run is made up and written as any run is: steps of 50 ms, 200 of them traced, operations three
deep in 200 layers and four phases; a power sensor with two rails, four cores (busy time and clock),
a GPU, two temperatures, memory and the CPU time of the process. Each command is a process of its own;
its memory is the high-water mark of that process. The page is opened in a fresh Chromium window of
1280 x 900 at a pixel ratio of 1, rendered without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import compare
from wattstep.schema.channel import Channel
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.store.writing import write_run

MS = 1_000_000
WINDOWS, STEP_NS = 200, 50 * MS
CHROMIUM = "/usr/bin/chromium"
# Prints the high-water mark of its own memory at the end: that of `wait4` counts what was inherited.
COMMAND = """
import sys
from wattstep.cli import run_command_line
code = run_command_line()
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(peak.split()[1], file=sys.stderr)
sys.exit(code)
"""


def channels() -> list[Channel]:
    """What a board of four cores with a GPU and three rails gives."""

    def gauge(name: str, unit: str, domain: Any, role: str, **more: Any) -> Channel:
        return Channel(
            name=name, unit=unit, kind="gauge", domain=domain, role=role, source="made", **more
        )

    def counter(name: str, domain: Any, role: str, **more: Any) -> Channel:
        return Channel(
            name=name, unit="s", kind="counter", domain=domain, role=role, source="made", **more
        )

    found = [
        gauge("board.power", "W", "soc", "power_total", scale=1e-3),
        gauge("rail.cpu", "W", "cpu", "power_part", scale=1e-3),
        gauge("rail.gpu", "W", "gpu", "power_part", scale=1e-3),
        gauge("gpu.utilization", "ratio", "gpu", "gpu_utilization", scale=1e-3),
        gauge("zone0.temperature", "°C", "thermal", "temperature", scale=1e-3, limit=95.0),
        gauge("zone1.temperature", "°C", "thermal", "temperature", scale=1e-3),
        gauge("process.resident", "B", "process", "resident_memory"),
        counter("process.cpu_time", "process", "process_cpu_time"),
        counter("system.busy_time", "system", "system_busy_time"),
        counter("system.steal_time", "system", "system_steal_time"),
    ]
    for core in range(4):
        found.append(counter(f"cpu{core}.busy_time", "cpu", "busy_time", core=core))
        found.append(gauge(f"cpu{core}.frequency", "Hz", "cpu", "frequency", core=core, limit=2e9))
    return found


def write(path: Path, steps: int, instances: int, samples: int, seed: int = 1) -> None:
    """A run of so many steps, operation instances and samples."""
    random = np.random.default_rng(seed)
    traced = np.zeros(steps, bool)
    traced[10 :: steps // WINDOWS] = True
    length = STEP_NS * (1 + 0.01 * random.standard_normal(steps))
    length = np.where(traced, compare.INFLATED, 1.0) * length
    end = np.cumsum(length + 20_000).astype(np.int64) + 10**12
    start = end - length.astype(np.int64)
    read = PlannedRead(
        number=0, sensor="made", path="-", parser="-", every=1, channels=tuple(channels())
    )
    info = RunInfo(
        state="closed", created="2026-11-20T12:00:00+0000", workload="made", title="made",
        engine="torch", batch_size=4, threads=4, precision="fp32", processor="cpu", seed=seed,
        interval_s=0.01, warmup=3, trace="auto", device={"cores": 4}, reads=(read,),
        options={"accumulate": 1},
    )  # fmt: skip
    count = int(traced.sum())
    tables: dict[str, Any] = {
        "steps": [compare._steps(start, end, traced)],
        "operations": compare._operations(
            start[traced], end[traced], np.flatnonzero(traced), instances // count, random
        ),
        "samples": _samples(int(start[0]), int(end[-1]), samples, random),
        "spans": [
            {
                "start_ns": start[traced] - 5000,
                "end_ns": end[traced] + 5000,
                "kind": ["window"] * count,
                "name": ["tracing"] * count,
            }
        ],
        "memory": [{"t_ns": [int(end[-1])], "category": ["peak_resident"], "bytes": [10**9]}],
    }
    write_run(path, info, tables)


def _samples(
    begin: int, end: int, samples: int, random: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Each channel at its own instants, the same number of each."""
    count = samples // len(channels())
    spacing = (end - begin + 200 * MS) // count
    for channel in channels():
        t_ns = begin - 100 * MS + spacing * np.arange(count, dtype=np.int64)
        t_ns += random.integers(0, spacing // 20, count)
        yield {
            "t_ns": t_ns,
            "channel": [channel.name] * count,
            "value": _values(channel, (t_ns - t_ns[0]) * 1e-9, random),
            "errno": np.zeros(count, np.int16),
        }


def _values(channel: Channel, seconds: Any, random: np.random.Generator) -> Any:
    noise = random.standard_normal(len(seconds))
    if channel.kind == "counter":
        cores = {"process_cpu_time": 3.6, "system_busy_time": 3.6, "system_steal_time": 0.0}
        share = cores.get(channel.role, 0.9)
        jitter = 0.2 * random.random(len(seconds)) * np.diff(seconds, append=seconds[-1])
        return np.round(share * seconds + share * jitter, 9)
    if channel.role == "temperature":
        return np.round(70 - 30 * np.exp(-seconds / 120) + 0.2 * noise, 1)
    if channel.role == "frequency":
        return np.where(np.abs(noise) > 3, 1.9e9, 2e9)
    if channel.role == "resident_memory":
        return np.round(1e9 + 4096 * np.cumsum(random.integers(0, 3, len(seconds))))
    if channel.unit == "ratio":
        return np.round(np.clip(0.6 + 0.2 * noise, 0, 1), 3)
    return np.round({"power_total": 8.0}.get(channel.role, 3.0) + 0.4 * noise, 3)


def report(run: Path, page: Path) -> dict[str, float]:
    """One `wattstep report` in a process of its own: wall time, processor time, high-water mark."""
    begin = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "report", str(run), "-o", str(page), "--quiet"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"wattstep report failed: {said}")
    return {
        "s": seconds,
        "processor_s": usage.ru_utime + usage.ru_stime,
        "peak_B": int(said.split()[-1]) * 1024,
        "page_B": page.stat().st_size,
    }


# Runs before the page's own scripts: when the first figure was painted, when a click was answered,
# and which tasks kept the page from answering.
WATCH = """
window.watched = { tasks: [] };
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) watched.tasks.push([task.startTime, task.duration]);
}).observe({ type: "longtask", buffered: true });
new MutationObserver((_, observer) => {
  if (!document.querySelector(".cards .card .big")) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { watched.readable = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
document.addEventListener("toggle", () => { watched.answered ??= performance.now(); }, true);
"""
# Zooms from the whole run into one step and out again about `share` of the width, then pans, one
# movement a frame; gives the time of each redraw and of each frame in ms.
MOVE = """
async (canvas) => {
  const section = canvas.closest(".lanes");
  const redraws = [], frames = [];
  section.addEventListener("lanes-drawn", (event) => redraws.push(event.detail.ms));
  const frame = () => new Promise(requestAnimationFrame);
  const box = canvas.getBoundingClientRect();
  const wheel = (deltaX, deltaY, share) => canvas.dispatchEvent(new WheelEvent("wheel", {
    deltaX, deltaY, clientX: box.left + share * box.width, clientY: box.top + 100, ctrlKey: true,
    bubbles: true, cancelable: true,
  }));
  let before = await frame();
  const moves = [];
  for (const share of [0.1, 0.5, 0.8]) {
    for (let n = 0; n < 30; n += 1) moves.push([0, -200, share]);
    for (let n = 0; n < 10; n += 1) moves.push([100, 0, share]);
    for (let n = 0; n < 30; n += 1) moves.push([0, 200, share]);
    for (let n = 0; n < 5; n += 1) moves.push([0, -80, share]);
    for (let n = 0; n < 10; n += 1) moves.push([100, 0, share]);
    for (let n = 0; n < 5; n += 1) moves.push([0, 80, share]);
  }
  for (const [x, y, share] of moves) {
    wheel(x, y, share);
    const now = await frame();
    frames.push(now - before);
    before = now;
  }
  return { redraws, frames };
}
"""


def browse(page: Path) -> dict[str, float]:
    """How one opening of the page went, in s and ms."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        tab = chromium.new_page(viewport={"width": 1280, "height": 900})
        tab.add_init_script(WATCH)
        tab.goto(page.as_uri(), wait_until="commit")
        tab.locator(".cards .card .big").first.wait_for(state="attached")
        box = tab.locator("details > summary").first.bounding_box()
        assert box is not None
        tab.mouse.click(box["x"] + 5, box["y"] + 5)
        tab.wait_for_load_state("load")
        tab.locator(".lanes").scroll_into_view_if_needed()
        tab.locator(".lanes[data-state=ready]").wait_for(timeout=60_000)
        ready = tab.evaluate("performance.now()")
        tab.wait_for_timeout(2000)  # charts that are near are drawn
        watched = tab.evaluate("watched")
        moved = tab.locator(".lanes-canvas").evaluate(MOVE)
        chromium.close()
    return {
        "readable_s": watched["readable"] / 1e3,
        "answered_s": watched["answered"] / 1e3,
        "longest_task_ms": max((length for _, length in watched["tasks"]), default=0.0),
        "timeline_ready_s": ready / 1e3,
        "redraws": len(moved["redraws"]),
        "redraw_median_ms": statistics.median(moved["redraws"]),
        "redraw_most_ms": max(moved["redraws"]),
        "frame_median_ms": statistics.median(moved["frames"]),
        "frame_most_ms": max(moved["frames"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--instances", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="a folder in which run and page are left")
    parser.add_argument("--no-browser", action="store_true", help="only write the page")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = (given.keep or Path(folder)).resolve()
        run, page = place / "run", place / "report.html"
        if not run.exists():
            write(run, given.steps, given.instances, given.samples)
        written = [report(run, page) for _ in range(given.repetitions)]
        opened = [] if given.no_browser else [browse(page) for _ in range(given.repetitions)]
    if given.json:
        print(json.dumps({"written": written, "opened": opened, "load": os.getloadavg()[0]}))
        return
    print(
        f"{given.steps:,} steps, {given.instances:,} operation instances, {given.samples:,} samples; "
        f"{given.repetitions} repetitions; load of the machine {os.getloadavg()[0]:.1f}"
    )
    for name, unit, factor in (
        ("s", "s", 1), ("processor_s", "s", 1), ("peak_B", "MB", 1e-6), ("page_B", "MB", 1e-6),
    ):  # fmt: skip
        said(f"report: {name}", [factor * one[name] for one in written], unit)
    for name in opened[0] if opened else ():
        said(f"page: {name}", [one[name] for one in opened], "")


def said(name: str, values: list[float], unit: str) -> None:
    median, most = statistics.median(values), max(values)
    print(f"{name}: median {median:.4g}, most {most:.4g} {unit}".rstrip())


if __name__ == "__main__":
    main()
