"""Which workload trains on which engine as torch does, and why not: every export, held against torch in float64.

    python benchmarks/engines_trained.py [--engines mnn,onnxruntime] [--only lenet,...] [--batch 4]
        [--seconds 900]

All engines of a workload share torch's course, in a process of their own with a limit on its time. What came of it is written into
`src/wattstep/engines/trained.toml`, from which `wattstep engines` and docs/engines.md tell it; what is
not asked for stays as it was.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from wattstep import engines, workloads
from wattstep.engines.trained import PLACE, UNKNOWN, read_trained
from wattstep.errors import InvalidValueError, WattstepError
from wattstep.schema.workload import Preparation, Specification
from wattstep.train.doctor import frameworks

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
    parser.add_argument("--seconds", type=float, default=1800.0, help="of a workload, at most")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.engines.split(",")
    if arguments.child:
        for name, reason in tried(arguments.only, names, arguments.batch):
            print(json.dumps({"engine": name, "reason": reason}), flush=True)
        return
    for workload in arguments.only.split(","):
        for name, reason in outcomes(workload, names, arguments.batch, arguments.seconds):
            keep(name, workload, reason)
            print(f"{name} {workload}: {reason or 'as torch'}", flush=True)


def outcomes(
    workload: str, names: Sequence[str], batch: int, seconds: float
) -> Iterator[tuple[str, str]]:
    """Why each engine does not train a workload, "" where it does; one process for all, as far as they let it live."""
    left = list(names)
    while left:
        command = [
            sys.executable, __file__, "--child", "--only", workload, "--engines", ",".join(left),
            "--batch", str(batch),
        ]  # fmt: skip
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        try:
            out, _ = child.communicate(timeout=seconds)
            how = f"the export ended with code {child.returncode}"
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # with the processes that it started
            out, _ = child.communicate()
            how = f"{UNKNOWN}: to try it took more than {seconds:g} s"
        for line in out.splitlines():
            if line.startswith('{"engine"'):
                row = json.loads(line)
                left.remove(row["engine"])
                yield row["engine"], row["reason"]
        if left:  # it ended in this one
            yield left.pop(0), how


def tried(workload: str, names: Sequence[str], batch: int) -> Iterator[tuple[str, str]]:
    """As `outcomes`, in this process."""
    import torch

    from wattstep.engines.torch.export.exporting import export
    from wattstep.engines.torch.export.source import Source

    torch.set_num_threads(1)
    specification, preparation = workloads.find(workload), Preparation(batch_size=batch)
    source: Source | None = None
    refused = ""
    try:
        source = Source(specification, preparation)
    except InvalidValueError as error:
        refused = str(error)
    for name in names:
        if name == COMPILED:
            yield name, of_compiled(specification, preparation, source)
            continue
        if source is None:
            yield name, refused
            continue
        engine: Any = engines.find(name)
        with tempfile.TemporaryDirectory() as folder:
            try:
                engine.check(specification, preparation, "fp32")
                export(
                    engine,
                    specification,
                    preparation,
                    Path(folder, "export"),
                    lambda stage: None,
                    source,
                )
                yield name, ""
            except WattstepError as error:
                yield name, str(error)


def of_compiled(specification: Specification, preparation: Preparation, source: Any) -> str:
    """Why torch does not train a workload compiled as it does plain; "" where it does.

    What is one loss of labelled samples is held against float64 as exports are; other trainings go
    beside the plain one, from the same weights on the same draws, by their losses of ten steps.
    """
    import torch

    from wattstep.engines.exported.conformance import STEPS, judge

    try:
        if source is not None:
            course = source.course(torch.float32, compiled=True)
            return "; ".join(judge(COMPILED, source.reference(), course).problems)
        losses = []
        for name in ("torch", COMPILED):
            trainer = engines.find(name).prepare(specification, preparation, threads=1)
            torch.manual_seed(0)
            losses.append([trainer.step() for _ in range(STEPS)])
    except Exception as error:  # the compiler raises whatever it likes
        return f"torch cannot compile it: {str(error).strip().splitlines()[0][:200]}"
    worst = max(abs(a - b) / max(abs(a), 1.0) for a, b in zip(*losses, strict=True))
    return "" if worst < BESIDE else f"losses of ten steps differ by {worst:.2g}"


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
