"""How long `wattstep serve` takes to list a thousand runs, and to open one: medians, one thread.

The runs are copies of one of 300 steps with a sensor of power; each is listed from its own
`run.json`. Figures of the list are worked out beside it and are not waited for.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "runs"
        make(store, options.runs)
        environment = {**os.environ, "XDG_CACHE_HOME": f"{folder}/cache"}
        child = subprocess.Popen(
            [sys.executable, "-m", "wattstep", "serve", str(store), "--port", "0", "--json"],
            stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        try:
            measure(child, options.repeats)
        finally:
            child.terminate()
            child.communicate()


def make(store: Path, count: int) -> None:
    """One run, and copies of it with a date of their own."""
    sys.path.insert(0, str(ROOT))
    from tests.run.made import Sampled, make_run, power

    model = store / "run-0000"
    make_run(model, [Sampled(channel=power(), raw=lambda t_ns: 5000)], steps=300)
    document = json.loads((model / "run.json").read_text())
    for number in range(1, count):
        copy = store / f"run-{number:04d}"
        shutil.copytree(model, copy)
        created = f"2026-11-{1 + number % 28:02d}T{number % 24:02d}:00:00+0000"
        (copy / "run.json").write_text(json.dumps({**document, "created": created}))


def measure(child: subprocess.Popen[str], repeats: int) -> None:
    """Prints what a client waits for."""
    assert child.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        text += child.stdout.readline()
    host, port = urlsplit(json.loads(text)["url"]).netloc.split(":")

    def ask(path: str) -> tuple[float, bytes, int]:
        connection = http.client.HTTPConnection(host, int(port), timeout=600)
        began = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        return time.perf_counter() - began, body, answer.status

    first, page, _ = ask("/")
    print(f"the list, first time: {first:.2f} s, {len(page) / 1e6:.2f} MB")
    id = json.loads(ask("/api/runs")[1])["runs"][0]["id"]
    began = time.perf_counter()
    while (answer := ask(f"/runs/{id}"))[2] == 202:
        time.sleep(0.05)
    print(
        f"a report, first time: {time.perf_counter() - began:.2f} s, {len(answer[1]) / 1e6:.1f} MB"
    )
    for name, path in (("the list", "/"), ("what changed", "/changes?since=1"),
                       ("a report that is kept", f"/runs/{id}")):  # fmt: skip
        took = [ask(path)[0] for _ in range(repeats)]
        print(
            f"{name}, again: {statistics.median(took):.3f} s ({min(took):.3f} to {max(took):.3f})"
        )
    status = Path(f"/proc/{child.pid}/status").read_text()
    resident = int(status.partition("VmRSS:")[2].split()[0]) * 1024
    print(f"memory of the server: {resident / 1e6:.0f} MB")
    began = time.perf_counter()
    while json.loads(ask("/changes?since=1")[1])["pending"] and time.perf_counter() - began < 900:
        time.sleep(1)
    print(f"the figures of all: {time.perf_counter() - began:.0f} s more")


if __name__ == "__main__":
    main()
