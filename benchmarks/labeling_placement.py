"""What labeling takes on the CPU alone and shared among processors: processor time, wall time, the same labels.

    POCL_DEVICES="pthread basic" python benchmarks/labeling_placement.py [--on cpu,opencl:0,opencl:1] [--samples 500,5000]
        [--features 64] [--rounds 20] [--power cpu:0=1,cpu:1=3 [--latency 20]]

Both label the same pieces in turns; nothing is learned from them. CPU time is that of the process, so that of
PoCL's threads is in it. NumPy's threads are as OMP_NUM_THREADS says. --power and --latency are those of
`wattstep label`.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from wattstep.labeling import AutoLabeler
from wattstep.labeling.placed import placement_report
from wattstep.labeling.power import parse_watts
from wattstep.labeling.processors import Processors, placement_on
from wattstep.report.labeling_tables import processors

CLASSES, LABELED, RECENT = 10, 400, 1500


def main() -> None:
    """Prints medians over the rounds, with quartiles, and what each processor did."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--on", default="cpu,opencl:0,opencl:1")
    parser.add_argument("--samples", default="500,5000")
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--power")
    parser.add_argument("--latency", type=float)
    asked = parser.parse_args()
    wanted = Processors(
        names=asked.on.split(","),
        watts={} if asked.power is None else parse_watts(asked.power),
        latency_s=None if asked.latency is None else asked.latency * 1e-3,
    )
    sizes = [int(size) for size in asked.samples.split(",")]
    random = np.random.default_rng(0)
    count = LABELED + RECENT + max(sizes)
    centers = 2 * random.normal(size=(CLASSES, asked.features))
    y = random.integers(0, CLASSES, count)
    x = centers[y] + 2 * random.normal(size=(count, asked.features))
    labeler = AutoLabeler().fit(x[:LABELED], y[:LABELED])
    labeler.partial_label(x[LABELED : LABELED + RECENT])
    alone = labeler.engine_.look
    print(
        f"{asked.features} features, {len(labeler.engine_.graph.nodes)} nodes; NumPy {np.__version__}"
    )
    for size in sizes:
        shared = placement_on(wanted)
        piece = x[-size:]
        taken: dict[str, list[tuple[float, float]]] = {"cpu alone": [], asked.on: []}
        labels = {}
        for number in range(asked.rounds + 1):
            for name, look in (("cpu alone", alone), (asked.on, shared)):
                labeler.engine_.look = look
                begun = time.process_time(), time.perf_counter()
                labels[name] = labeler.label(piece)
                if number:  # in the first one costs are measured
                    taken[name].append(
                        (time.process_time() - begun[0], time.perf_counter() - begun[1])
                    )
        one, other = labels.values()
        same = (one.probability == other.probability).all() and (one.status == other.status).all()
        for name, times in taken.items():
            cpu, wall = (" / ".join(f"{1e3 * q:.2f}" for q in np.quantile(each, [0.25, 0.5, 0.75])) for each in zip(*times, strict=True))  # fmt: skip
            print(
                f"{size} samples, {name}: CPU {cpu} ms, wall {wall} ms (quartiles of {asked.rounds})"
            )
        print(f"labels {'the same, bit for bit' if same else 'DIFFER'}")
        print(*processors(placement_report(shared)), sep="\n")


if __name__ == "__main__":
    main()
