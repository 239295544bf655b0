"""What recording costs of a training on an engine, against the bare calls of that engine.

    python benchmarks/engines.py NAME [--workload lenet] [--batch 32] [--threads 1] [--from DIR]
                                 [--quadruples 12] [--seconds 1.0] [--by clock|cpu]

In one process, blocks of steps in the order A B B A (`pairs.py`): A calls the engine alone, on batches that
lie in memory; B is what `wattstep run` does, once without operation times and once with them, after the
first windows, which are many. Beside each the same of A against A, which shows the noise of the machine.
By the clock, or by the CPU time of the thread that trains, which other programs on the machine move less;
that is all of the training where one thread computes.
The process's peak of resident memory before anything is recorded is printed as well.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pairs import abandon, compare, shown
from wattstep import engines, workloads
from wattstep.record.recorder import Recorder
from wattstep.record.tracing.schedule import WANTED
from wattstep.schema.engine import ignore_phase
from wattstep.schema.workload import Preparation


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
        trainer.checked = (
            0  # its steps are taken in two ways, and their losses are not the export's
        )
        count = trainer.training.batches
        self._batches = [
            {name: np.array(array[at]) for name, array in trainer.folder.arrays.items()}
            for at in range(count)
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

    def recorded(self, trace: str, quadruples: int) -> dict[str, list[float]]:
        """Blocks with a recorder against bare ones."""
        trainer, folder = self.trainer, Path(tempfile.mkdtemp())
        recorder = Recorder(
            folder / "run", trace=trace, model=trainer.model, engine=trainer.engine
        ).start()
        marked = recorder.steps

        def step() -> None:
            marked.samples = float(trainer.training.batch_size)
            begun = marked.begin()
            marked.end(begun, trainer.step(marked.mark))

        while trace != "none" and marked.traced_steps < WANTED:
            step()
        ratios = compare(lambda: self.block(self.bare_step), lambda: self.block(step), quadruples)
        abandon(recorder)
        shutil.rmtree(folder)
        return ratios


def main() -> None:
    """Prints a line for each way of recording."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("engine")
    parser.add_argument("--workload", default="lenet")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--from", dest="exported", type=Path)
    parser.add_argument("--quadruples", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--by", choices=("clock", "cpu"), default="clock")
    options = parser.parse_args()
    engine = engines.find(options.engine)
    engine.load()
    preparation = Preparation(batch_size=options.batch, exported=options.exported)
    trainer = engine.prepare(workloads.find(options.workload), preparation, threads=options.threads)
    trained = Trained(
        trainer, options.seconds, time.perf_counter if options.by == "clock" else time.thread_time
    )
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    print(f"peak resident memory before recording: {int(peak) / 1000:.1f} MB")
    print(f"bare step: {1e3 * trained.block(trained.bare_step):.3f} ms, {trained.steps} a block")
    for trace, what in (("none", "without operation times"), ("auto", "with operation times")):
        ratios = trained.recorded(trace, options.quadruples)
        print(f"{what:25} {shown(ratios['recorded'])}   control {shown(ratios['control'])}")


if __name__ == "__main__":
    main()
