"""Strategies against running out of memory on this machine: what they take, measured beside predicted.

    python benchmarks/memory_strategies.py CACHE [WORKLOAD:BATCH ...] [--measure] [--write docs/memory-strategies.md]
    python benchmarks/memory_strategies.py CACHE [WORKLOAD:BATCH ...] --extra

`--measure` trains each workload with each strategy in a process of its own, with one thread, and keeps what it
found in CACHE (one file each: what is there is not measured again). Measured are the peak of the process's
resident memory (VmHWM over three steady steps) and the least time of a step, of the clock of the one thread that
works. Predicted is from the file that `wattstep calibrate-device` wrote for this machine; predictions are kept in
CACHE, too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from wattstep import devices, engines, workloads
from wattstep.errors import WattstepError
from wattstep.predict import predictor_for
from wattstep.schema.workload import Preparation
from wattstep.store import this_device
from wattstep.train.memory.resident import ResidentMemory
from wattstep.train.strategies import MemoryStrategies

CASES: Final = ("vit-tiny:8", "resnet8:64", "squeezenet-224:8", "mobilenetv2:16", "seq2seq:16")
WAYS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "checkpointing": {"checkpointing": True},
    "accumulate 4": {"accumulate": 4},
    "train-last 2": {"train_last": 2},
    "lora 4": {"lora": 4},
    "offload": {"offload": True},
}
STEADY: Final = 3
TURNS: Final = 8
BEGIN, END = "<!-- memory_strategies: begin -->", "<!-- memory_strategies: end -->"


def main() -> None:
    """Measures, predicts, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cache", type=Path)
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--write", type=Path)
    parser.add_argument(
        "--extra", action="store_true", help="time of checkpointing beside a forward pass, by turns"
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        name, batch = given.cases[0].split(":")
        print(json.dumps(measured(name, int(batch), WAYS[given.one])))
        return
    if given.extra:
        print("\n".join(extra(given.cases)))
        return
    given.cache.mkdir(parents=True, exist_ok=True)
    for case in given.cases if given.measure else ():
        for way in WAYS:
            _keep(given.cache / f"{case}-{way}.measured".replace(" ", "-"), case, way)
    text = "\n".join(table(given.cache, given.cases))
    print(text)
    if given.write:
        head, rest = given.write.read_text(encoding="utf-8").split(BEGIN)
        _, tail = rest.split(END)
        given.write.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")


def _keep(path: Path, case: str, way: str) -> None:
    if path.exists():
        return
    done = subprocess.run(
        [sys.executable, __file__, str(path.parent), case, "--one", way],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    if done.returncode and "Error: " not in lines[-1]:
        raise SystemExit(f"{case}, {way}: {lines[-1]}")
    refused = {"refused": lines[-1].partition(": ")[2]}
    path.write_text(lines[-1] if done.returncode == 0 else json.dumps(refused), encoding="utf-8")


def measured(name: str, batch: int, way: dict[str, Any]) -> dict[str, float]:
    """Peak in B and time of a step in s, of a training in this process."""
    resident = ResidentMemory()
    engine, workload = engines.find(engines.DEFAULT), workloads.find(name)
    engine.load()
    trainer = engine.prepare(workload, _preparation(batch, way), threads=1)
    trainer.step()
    resident.reset()
    seconds = []
    for _ in range(STEADY):
        begin = time.thread_time()
        trainer.step()
        seconds.append(time.thread_time() - begin)
    peak = resident.read().peak
    resident.close()
    return {"memory": peak, "seconds": min(seconds)}


def predicted(name: str, batch: int, way: dict[str, Any]) -> dict[str, float]:
    """Peak in B and time of a step in s, as `wattstep predict --on this` says."""
    device = devices.find(this_device.find(this_device.THIS))
    family = engines.find(engines.DEFAULT).capture(
        workloads.find(name), _preparation(batch, way), "fp32"
    )
    one = predictor_for(family, device).at(batch)
    return {"memory": one.memory.used, "seconds": one.time.total}


def _preparation(batch: int, way: dict[str, Any]) -> Preparation:
    strategies = {name: value for name, value in way.items() if name != "accumulate"}
    return Preparation(
        batch_size=batch,
        accumulate=way.get("accumulate", 1),
        **MemoryStrategies(**strategies).prepared,
    )


def _predicted(path: Path, case: str, way: str) -> dict[str, Any]:
    if not path.exists():
        name, batch = case.split(":")
        try:
            document: dict[str, Any] = predicted(name, int(batch), WAYS[way])
        except WattstepError as error:
            document = {"refused": str(error)}
        path.write_text(json.dumps(document), encoding="utf-8")
    read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return read


def table(cache: Path, cases: list[str]) -> Iterator[str]:
    """A row a training; memory and time are also told by what plain training took."""
    yield (
        "| workload | batch | strategy | memory measured | of plain | predicted | off "
        "| step measured | of plain, a sample | predicted | off |"
    )
    yield "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for case in cases:
        name, batch = case.split(":")
        plain: dict[str, Any] = {}
        for way in WAYS:
            path = cache / f"{case}-{way}.measured".replace(" ", "-")
            if not path.exists():
                continue
            real = json.loads(path.read_text(encoding="utf-8"))
            if "refused" in real:
                yield f"| {name} | {batch} | {way} | refused: {real['refused']} | | | | | | | |"
                continue
            plain = plain or real
            said = _predicted(path.with_suffix(".predicted"), case, way)
            cells = [name, batch, way]
            for key, unit, size in (("memory", "MB", 1e6), ("seconds", "ms", 1e-3)):
                batches = WAYS[way].get("accumulate", 1) if key == "seconds" else 1
                cells += [
                    f"{real[key] / size:,.0f} {unit}",
                    f"{real[key] / plain[key] / batches:.2f}",
                ]
                cells += (
                    ["refused", "—"]
                    if "refused" in said
                    else [
                        f"{said[key] / size:,.0f} {unit}",
                        f"{100 * (said[key] / real[key] - 1):+.0f} %",
                    ]
                )
            yield f"| {' | '.join(cells)} |"


def extra(cases: list[str]) -> Iterator[str]:
    """Time of a plain step, of a forward pass within it and of a step with checkpointing, the least of some by turns."""
    yield "| workload | batch | plain step | its forward pass | with checkpointing | more, in forward passes |"
    yield "|---|---:|---:|---:|---:|---:|"
    engine = engines.find(engines.DEFAULT)
    engine.load()
    for case in cases:
        name, batch = case.split(":")
        plain, again = (
            engine.prepare(workloads.find(name), _preparation(int(batch), WAYS[way]), threads=1)
            for way in ("plain", "checkpointing")
        )
        steps, forwards, others = [], [], []
        for _ in range(TURNS):
            marks: dict[str, float] = {}
            begin = time.thread_time()
            plain.step(lambda phase, marks=marks: marks.update({phase: time.thread_time()}))
            steps.append(time.thread_time() - begin)
            forwards.append(marks["backward"] - marks["forward"])
            begin = time.thread_time()
            again.step()
            others.append(time.thread_time() - begin)
        step, forward, other = min(steps), min(forwards), min(others)
        yield (
            f"| {name} | {batch} | {step * 1e3:,.0f} ms | {forward * 1e3:,.0f} ms "
            f"| {other * 1e3:,.0f} ms | {(other - step) / forward:.2f} |"
        )


if __name__ == "__main__":
    main()
