"""Which workload trains on which engine as torch does, and why not: every export, held against torch in float64.

    python benchmarks/engines_trained.py [--engines mnn,onnxruntime] [--only lenet,...] [--batch 4]

Each export runs in a process of its own, with a limit on its time. What came of it is written into
`src/wattstep/engines/trained.toml`, from which `wattstep engines` and docs/engines.md tell it; what is
not asked for stays as it was.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from wattstep import workloads
from wattstep.engines.trained import PLACE, read_trained
from wattstep.errors import InvalidValueError
from wattstep.schema.workload import Preparation
from wattstep.train.doctor import frameworks

SECONDS: Final = 900.0
COMPILED: Final = "torch-compile"
BESIDE: Final = 1e-3  # losses of a compiled training beside those of the plain one


def main() -> None:
    """Runs all that is asked for, a line each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    there = [row["engine"] for row in frameworks() if row["version"] and row["engine"] != "torch"]
    parser.add_argument("--engines", default=",".join(there))
    parser.add_argument("--only", default=",".join(workloads.names()))
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--compiled", help=argparse.SUPPRESS)  # of a child: the workload
    arguments = parser.parse_args()
    if arguments.compiled:
        print(json.dumps({"error": of_compiled(arguments.compiled, arguments.batch)}))
        return
    for engine in arguments.engines.split(","):
        for workload in arguments.only.split(","):
            reason = outcome(engine, workload, arguments.batch)
            keep(engine, workload, reason)
            print(f"{engine} {workload}: {reason or 'as torch'}", flush=True)


def outcome(engine: str, workload: str, batch: int) -> str:
    """Why an engine does not train a workload; "" where it does."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "wattstep", "engines", "export", workload, "--engine", engine,
            "--batch", str(batch), "-o", str(Path(folder, "export")), "--json",
        ]  # fmt: skip
        if engine == COMPILED:
            command = [sys.executable, __file__, "--compiled", workload, "--batch", str(batch)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f"to try it takes longer than {SECONDS:g} s"
    if done.returncode == 0 and engine != COMPILED:
        return ""
    try:
        return str(json.loads(done.stdout)["error"])
    except (ValueError, KeyError):
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"code {done.returncode}"
        return f"the export ended with {how}"


def of_compiled(workload: str, batch: int) -> str:
    """Why torch does not train a workload compiled as it does plain; "" where it does.

    What is one loss of labelled samples is held against float64 as exports are; other trainings go
    beside the plain one, from the same weights on the same draws, by their losses of ten steps.
    """
    import torch

    from wattstep import engines
    from wattstep.engines.exported.conformance import STEPS, judge
    from wattstep.engines.torch.export.source import Source

    torch.set_num_threads(1)
    specification, preparation = workloads.find(workload), Preparation(batch_size=batch)
    try:
        source = Source(specification, preparation)
    except InvalidValueError:
        losses = []
        for name in ("torch", COMPILED):
            trainer = engines.find(name).prepare(specification, preparation, threads=1)
            torch.manual_seed(0)
            losses.append([trainer.step() for _ in range(STEPS)])
        worst = max(abs(a - b) / max(abs(a), 1.0) for a, b in zip(*losses, strict=True))
        return "" if worst < BESIDE else f"losses of ten steps differ by {worst:.2g}"
    try:
        course = source.course(torch.float32, compiled=True)
    except Exception as error:  # the compiler raises whatever it likes
        return f"torch cannot compile it: {str(error).strip().splitlines()[0][:200]}"
    return "; ".join(judge(COMPILED, source.reference(), course).problems)


def keep(engine: str, workload: str, reason: str) -> None:
    """Writes it beside what is known."""
    known = {name: dict(rows) for name, rows in read_trained().items()}
    known.setdefault(engine, {})[workload] = reason
    lines = [
        "# Written by benchmarks/engines_trained.py: by engine and workload why it does not train it as torch\n"
        "# does, held against torch in float64 over ten steps; an empty text where it does.\n"
    ]
    for name in sorted(known):
        lines.append(f"\n[{json.dumps(name)}]\n")
        order = [each for each in workloads.names() if each in known[name]]
        lines += [
            f"{each} = {json.dumps(known[name][each], ensure_ascii=False)}\n" for each in order
        ]
    PLACE.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
