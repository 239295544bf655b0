"""Makes the README's picture of the live view: python docs/live_picture.py PICTURE.svg [SECONDS] [wattstep run's ARGS...].

A real training runs for so long (25 s) in a process of its own; what the console shows of it
before its end becomes the picture, through rich's own export.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from wattstep.live.monitor import LiveMonitor
from wattstep.live.snapshot import RECORDING
from wattstep.report.terminal.live import Screen, draw

WIDTH, HEIGHT = 100, 18
LOOK_AT = 0.7  # of the run
TRAINING = ("lenet", "--batch", "32", "--threads", "2", "--target", "emulate:jetson-tx2")
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def main() -> None:
    """Draws the picture that the command line asks for."""
    picture = Path(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 25.0
    with tempfile.TemporaryDirectory() as folder:
        snapshot = watched(Path(folder), seconds, sys.argv[3:] or TRAINING)
    shown = replace(snapshot, run="runs/mine")
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(draw(shown, Screen(width=WIDTH, height=HEIGHT)))
    picture.write_text(offline(console.export_svg(title="wattstep live")), encoding="utf-8")


def watched(folder: Path, seconds: float, arguments: object):
    """A moment of a run: that at which so much of it is done."""
    training = subprocess.Popen(
        [sys.executable, "-m", "wattstep", "run", *arguments, "--seconds", str(seconds), "--out",
         str(folder), "--name", "mine", "--quiet"], stdout=subprocess.DEVNULL,
    )  # fmt: skip
    monitor = LiveMonitor(folder / "mine")
    snapshot = monitor.look()
    while training.poll() is None and not ((snapshot.share or 0.0) >= LOOK_AT):
        time.sleep(0.25)
        snapshot = monitor.look()
    training.wait()
    assert snapshot.state == RECORDING, snapshot.problems
    return snapshot


def offline(svg: str) -> str:
    """Without the fonts that rich's template takes from the network."""
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code, monospace", FONT).replace("Fira Code", "monospace")
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", ""), "it refers to the network"
    return svg


if __name__ == "__main__":
    main()
