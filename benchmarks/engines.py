"""What recording costs of a training on an engine, against the bare calls of that engine; and what its operations add up to.

    python benchmarks/engines.py NAME|all [--workload lenet] [--batch 32] [--threads 1] [--from DIR]
                                 [--quadruples 4] [--seconds 0.4] [--by clock|cpu] [--write docs/engines.md]

In one process an engine, blocks of steps in the order A B B A (`pairs.py`): A calls the engine alone, on
batches that lie in memory (torch-compile: its own step, whose batch is drawn); B is what `wattstep run`
does, once without operation times and once with them, after the first windows, which are many. Beside each
the same of A against A, which shows the noise of the machine. By the clock, or by the CPU time of the
process, which other programs on the machine move less.

Then `wattstep run` records one, of the exported folder: what share of a step its operations add up to (`operations_share`), by name what
they do not, and over the clean step the sum of operations' times as they were stamped in traced steps, and
what operations and rests came to without the cost of tracing, before they were scaled. Peak memory is that of
this run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from pairs import abandon, compare, shown
from wattstep import engines, workloads
from wattstep.engines.exported.trainer import ExportedTrainer
from wattstep.record.recorder import Recorder
from wattstep.record.tracing.schedule import WANTED
from wattstep.schema.engine import ignore_phase
from wattstep.schema.workload import Preparation

ALL: Final = ("mnn", "onnxruntime", "executorch", "mlx", "torch-compile")
BEGIN, END = "<!-- recording: begin -->", "<!-- recording: end -->"
RECORDED_S: Final = 5.0
WATTSTEP: Final = (sys.executable, "-m", "wattstep")
MODES: Final = {"none": "without operation times", "auto": "with operation times"}


class Trained:
    """A training and blocks of its steps.

    Args:
        trainer: Ready to train.
        seconds: Of a block, about.
        now: The clock of the blocks, in seconds.
    """

    def __init__(self, trainer: Any, seconds: float, now: Callable[[], float]) -> None:
        self.trainer = trainer
        self._now = now
        self._batches: list[dict[str, Any]] = []
        if isinstance(trainer, ExportedTrainer):
            trainer.checked = 0  # its steps are taken in two ways: losses are not the export's
            self._batches = [
                {name: np.array(array[at]) for name, array in trainer.folder.arrays.items()}
                for at in range(trainer.training.batches)
            ]
            trainer.keep_batches()
        self._at = 0
        for _ in range(5):
            trainer.step()
        begin, steps = now(), 0
        while now() - begin < 1.0:
            self.bare_step()
            steps += 1
        self.steps = max(3, round(seconds * steps / (now() - begin)))

    def bare_step(self) -> None:
        if not self._batches:
            self.trainer.step(ignore_phase)
            return
        self._at = (self._at + 1) % len(self._batches)
        self.trainer.take(self._batches[self._at], ignore_phase)

    def block(self, step: Callable[[], object]) -> float:
        now = self._now
        for _ in range(max(3, self.steps // 5)):
            step()
        begin = now()
        for _ in range(self.steps):
            step()
        return (now() - begin) / self.steps

    def _recorder(self, place: Path, trace: str) -> tuple[Recorder, Callable[[], None]]:
        """A recorder that has begun, and a step under it."""
        trainer = self.trainer
        recorder = Recorder(place, trace=trace, model=trainer.model, engine=trainer.engine).start()
        marked = recorder.steps

        def step() -> None:
            begun = marked.begin()
            marked.end(begun, trainer.step(marked.mark))

        return recorder, step

    def recorded(self, trace: str, quadruples: int) -> dict[str, list[float]]:
        """Blocks with a recorder against bare ones."""
        folder = Path(tempfile.mkdtemp())
        recorder, step = self._recorder(folder / "run", trace)
        traces = trace != "none" and self.trainer.engine.tracer(recorder.steps.code) is not None
        while traces and recorder.steps.traced_steps < WANTED:
            step()
        ratios = compare(lambda: self.block(self.bare_step), lambda: self.block(step), quadruples)
        abandon(recorder)
        shutil.rmtree(folder)
        return ratios


def run_of(options: argparse.Namespace, exported: Path | None, folder: Path) -> dict[str, Any]:
    """What `wattstep run` records: shares of the step by name, the sum of what was stamped, peak memory."""
    of = [options.workload, "--engine", options.engine, "--batch", str(options.batch)]
    command = [
        *WATTSTEP, "run", *(of if exported is None else ["--from", str(exported)]),
        "--threads", str(options.threads), "--seconds", str(RECORDED_S), "--out", str(folder), "--quiet",
    ]  # fmt: skip
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    from wattstep.run import load  # which takes memory that is no training's

    (path,) = (each.parent for each in folder.glob("*/run.json"))
    run = load(path)
    metrics = run.metrics()
    found: dict[str, Any] = {"peak": metrics["peak_memory"].value}
    share = metrics["operations_share"]
    if share.value is None:
        return {**found, "reason": share.reason}
    rows, own = run.breakdown.rows, run.breakdown.outermost
    seconds = np.bincount(rows.window[own], (rows.end_ns - rows.start_ns)[own] * 1e-9)
    clean = float(np.median(run.breakdown.steps.seconds[run.breakdown.clean]))
    rests = run.document()["rests"].items()
    return {
        **found,
        "share": share.value,
        "rests": {name: float(row["share"]["value"] or 0.0) for name, row in rests},
        "stamped": float(np.median(seconds)) / clean,
        "unscaled": run.breakdown.compensated.correction.added_up,
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Everything of one engine, in this process but the run."""
    engine = engines.find(options.engine)
    engine.load()
    with tempfile.TemporaryDirectory() as folder:
        exported = options.exported
        if exported is None and engine.exports:
            exported = Path(folder, "export")
            of = [options.workload, "--engine", engine.name, "--batch", str(options.batch)]
            subprocess.run(
                [*WATTSTEP, "engines", "export", *of, "-o", str(exported), "--quiet"],
                stdout=subprocess.DEVNULL, check=True,
            )  # fmt: skip
        preparation = Preparation(batch_size=options.batch, exported=exported)
        trainer = engine.prepare(
            workloads.find(options.workload), preparation, threads=options.threads
        )
        now = time.perf_counter if options.by == "clock" else time.process_time
        trained = Trained(trainer, options.seconds, now)
        found: dict[str, Any] = {
            "engine": options.engine, "version": engine.version(),
            "bare": trained.block(trained.bare_step),
        }  # fmt: skip
        for trace in MODES:
            found[trace] = trained.recorded(trace, options.quadruples)
        return {**found, **run_of(options, exported, Path(folder, "runs"))}


def table(measured: list[dict[str, Any]], options: argparse.Namespace) -> Iterator[str]:
    """As Markdown."""
    heads = (
        "engine", "bare step", "recording costs", "of nothing", "with operation times", "of nothing",
        "operations add up to", "the rest", "as stamped, over the step", "without the cost of tracing", "peak memory",
    )  # fmt: skip
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for each in measured:
        if "failed" in each:
            yield f"| {each['engine']} | {each['failed']} |" + " |" * (len(heads) - 2)
            continue
        costs = [shown(each[trace][kind]) for trace in MODES for kind in ("recorded", "control")]
        if "share" in each:
            rests = ", ".join(f"{name} {share:.1%}" for name, share in each["rests"].items())
            adds = (
                f"{each['share']:.1%}", rests, f"{each['stamped']:.1%}", f"{each['unscaled']:.1%}",
            )  # fmt: skip
        else:
            adds = ("—", each["reason"], "—", "—")
        cells = (
            each["version"] if each["engine"] != "torch-compile" else f"torch-compile, {each['version']}",
            f"{1e3 * each['bare']:.3f} ms", *costs, *adds,
            f"{each['peak'] / 1e6:.0f} MB",
        )  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield (
        f"{options.workload}, batch {options.batch}, {options.threads} thread, by the {options.by}: "
        f"{options.quadruples} quadruples of blocks of {options.seconds} s."
    )


def in_children() -> list[dict[str, Any]]:
    """Each engine in a process of its own, with the options of this one."""
    measured = []
    for name in ALL:
        given = [name if each == "all" else each for each in sys.argv[1:]]
        done = subprocess.run(
            [sys.executable, __file__, *given, "--json"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        lines = done.stdout.strip().splitlines()
        failed = {"engine": name, "failed": f"ended with {done.returncode}"}
        measured.append(json.loads(lines[-1]) if done.returncode == 0 and lines else failed)
        print(name, "done", file=sys.stderr)
    return measured


def main() -> None:
    """Prints a row for each engine."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("engine")
    parser.add_argument("--workload", default="lenet")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--from", dest="exported", type=Path)
    parser.add_argument("--quadruples", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--by", choices=("clock", "cpu"), default="clock")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.json:
        print(json.dumps(measure(options)))
        return
    measured = in_children() if options.engine == "all" else [measure(options)]
    text = "\n".join(table(measured, options))
    print(text)
    if options.write:
        document = options.write.read_text(encoding="utf-8")
        head, rest = document.split(BEGIN)
        _, tail = rest.split(END)
        options.write.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
