"""What a long recording takes of the disk and of memory while it goes on, and whether its tables are those of one in a single file.

    python benchmarks/long_recording.py [--steps 5000000] [--keep raw=10min,steps=10min] [--json]
    python benchmarks/long_recording.py --hours 168 [--keep raw=1h,steps=1h] [--batch-size 32]

Made steps of 1.7 ms (5 % of noise, a loss each, phases of some) pass through the marker of steps, and
what eight reads give a hundred times a second through the sampler's own journals, as fast as they can be
written; the process that packs is kept up with as it would be at the real pace (`long_made.py`). The same is then
recorded once more without segments, and all tables of both are compared, value by value; and once with
samples and steps that are thinned, whose totals are compared. What `show` and `report` take of each is told, too.

With `--hours` there is one recording, thinned, of that length, a week for instance. Whoever makes it adds up what is
true of it meanwhile: the number of steps, their times, the gaps between them and their losses; of each channel the
number of reads, the least and the most, their sum and the integral over the time. The run's totals are
compared with these. How far it is, is told each minute. SIGTERM and Ctrl-C leave nothing behind; what
a killed one left is removed by the next.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from long_made import OF_TICKS, STEP_NS, WARMUP, Truth, described, record, taken
from wattstep.recorded.reading import Tables
from wattstep.recorded.series import Series
from wattstep.recorded.steps import Steps
from wattstep.schema.processes import tidied_at_sigterm
from wattstep.store.held import HeldFolder
from wattstep.store.segments import segment_bytes
from wattstep.store.tables import TABLE

KEEP, KEEP_OF_HOURS = "raw=10min,steps=10min", "raw=1h,steps=1h"


def told(run: Path, command: str, *options: str) -> dict[str, float]:
    """CPU time and memory that a command about a run takes."""
    cpu_s, mib = taken([sys.executable, "-m", "wattstep", command, str(run), *options])
    return {f"{command}_cpu_s": cpu_s, f"{command}_mib": mib}


def compared_with_truth(run: Path, truth: Truth) -> dict[str, Any]:
    """How far totals of a run are from what is true of it, at most, relative to that.

    Raises:
        SystemExit: It has another number of steps, or of reads of a channel, or another value is the
            least or the most.
    """
    series, steps = Series(Tables(run)), truth.steps
    own = series.steps
    counted, thinned = own.counted, own.thinned
    losses = float(own.loss.sum()) + (0.0 if thinned is None else float(thinned.loss_sum.sum()))
    true = (steps.made, steps.made - WARMUP, steps.stretches)
    if (own.recorded, counted.count, len(own.stretches())) != true:
        raise SystemExit(f"steps differ: {own.recorded}, {counted.count} clean")
    apart = {"sums": 0.0, "integrals": 0.0}
    channels = 0
    for journal in truth.journals.values():
        assert journal.least is not None
        assert journal.most is not None
        for at, (name, scale) in enumerate(zip(journal.names, journal.scale, strict=True)):
            totals = series.totals(name)
            assert totals is not None
            ends = (journal.least[at] * scale, journal.most[at] * scale)
            if (totals.reads, totals.least, totals.most) != (journal.reads, *ends):
                raise SystemExit(f"{name} differs: {totals}")
            apart["sums"] = max(apart["sums"], _apart(totals.total, journal.sums[at] * scale))
            channels += 1
            if name not in OF_TICKS:
                energy = float(series.curve(series.channels[name]).total[-1])
                true_energy = journal.twice[at] / 2e9 * scale
                apart["integrals"] = max(apart["integrals"], _apart(energy, true_energy))
    return {
        "steps": own.recorded,
        "steps_that_stay": len(own.index),
        "stretches_of_clean_time": steps.stretches,
        "channels": channels,
        "reads": sum(each.reads * len(each.names) for each in truth.journals.values()),
        "of_times_of_steps": _apart(float(counted.seconds.sum()), steps.lasting_ns * 1e-9),
        "of_gaps": _apart(float(counted.gap_s.sum()), steps.gap_ns * 1e-9),
        "of_losses": _apart(losses, steps.losses),
        "of_sums": apart["sums"],
        "of_integrals": apart["integrals"],
    }


def _apart(value: float, true: float) -> float:
    return abs(value / true - 1) if true else abs(value)


def compared_totals(one: Path, other: Path) -> dict[str, float]:
    """How far totals of samples of the second run are from those of the first, at most, relative to them.

    Raises:
        SystemExit: They had another number of reads, least or most value, or steps.
    """
    whole, thinned = (Series(Tables(run)) for run in (one, other))
    integrals, sums = 0.0, 0.0
    for name, channel in whole.channels.items():
        a, b = whole.totals(name), thinned.totals(name)
        assert a is not None
        assert b is not None
        if (a.reads, a.least, a.most) != (b.reads, b.least, b.most):
            raise SystemExit(f"{name} differs")
        sums = max(sums, abs(b.total / a.total - 1))
        energies = [float(series.curve(channel).total[-1]) for series in (whole, thinned)]
        integrals = max(integrals, abs(energies[1] / energies[0] - 1))
    return {
        "channels": len(whole.channels),
        "of_integrals": integrals,
        "of_sums": sums,
        **compared_steps(whole.steps, thinned.steps),
    }


def compared_steps(whole: Steps, thinned: Steps) -> dict[str, float]:
    """How far totals of thinned steps are from those of all of them, at most, relative to them.

    Raises:
        SystemExit: They are other steps, or clean time is another.
    """
    if whole.recorded != thinned.recorded or whole.counted.count != thinned.counted.count:
        raise SystemExit("steps differ")
    if not np.array_equal(whole.stretches(), thinned.stretches()):
        raise SystemExit("clean time differs")
    off = 0.0
    for name in ("seconds", "gap_s"):
        a, b = (float(getattr(steps.counted, name).sum()) for steps in (whole, thinned))
        off = max(off, abs(b / a - 1))
    losses = float(whole.loss.sum())
    others = float(thinned.loss.sum())
    if (stretches := thinned.thinned) is not None:
        others += float(stretches.loss_sum.sum())
    return {
        "steps": whole.recorded,
        "steps_that_stay": len(thinned.index),
        "of_times_of_steps": off,
        "of_losses": abs(others / losses - 1),
    }


def compared(one: Path, other: Path) -> dict[str, int]:
    """Rows of each table, all of which are the same in both; samples channel by channel.

    Raises:
        SystemExit: They differ.
    """
    rows = {}
    for path in sorted(one.glob(f"*{TABLE}")):
        if path.stem == "samples":
            names = sorted(channel.name for read in described().reads for channel in read.channels)
            pairs: Iterator[Any] = (
                tuple(
                    pq.read_table(run / path.name, columns=["t_ns", "value", "errno"],
                                  filters=pc.field("channel") == name)
                    for run in (one, other)
                )
                for name in [*names, "sampler.lateness", "sampler.busy_time", "sampler.lost_ticks"]
            )  # fmt: skip
        else:
            pairs = zip(
                *(pq.ParquetFile(run / path.name).iter_batches(1 << 16) for run in (one, other)),
                strict=True,
            )
        rows[path.stem] = 0
        for a, b in pairs:
            if not a.equals(b):
                raise SystemExit(f"{path.stem} differs")
            rows[path.stem] += len(a)
    return rows


def all_ways(folder: Path, steps: int, keep: str) -> dict[str, Any]:
    """One recording in segments, in one file and thinned, compared with each other and with what is true."""
    segments, truth = record(folder / "segments", steps, segment_bytes())
    one, _ = record(folder / "one", steps, 0)
    results: dict[str, Any] = {"segments": segments, "one file": one}
    results["equal rows"] = compared(folder / "segments", folder / "one")
    shutil.rmtree(folder / "one")
    results[f"thinned, {keep}"], _ = record(folder / "thinned", steps, segment_bytes(), keep)
    results["totals apart"] = compared_totals(folder / "segments", folder / "thinned")
    results["apart from what was made"] = compared_with_truth(folder / "thinned", truth)
    for name in ("segments", "thinned"):
        results[f"told of {name}"] = told_of(folder / name)
    return results


def thinned_alone(folder: Path, hours: float, keep: str, batch_size: int | None) -> dict[str, Any]:
    """One thinned recording of at least so many hours, compared with what is true."""
    steps, run = round(hours * 3.6e12 / STEP_NS), folder / "run"
    facts, truth = record(run, steps, segment_bytes(), keep, batch_size)
    return {
        f"thinned, {keep}": facts,
        "apart from what was made": compared_with_truth(run, truth),
        "told": told_of(run),
    }


def told_of(run: Path) -> dict[str, float]:
    """What `show` and `report` of a run take."""
    page = str(run.with_suffix(".html"))
    return {**told(run, "show"), **told(run, "report", "--output", page)}


def main() -> None:
    """Records, compares, and says what each took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=5_000_000)
    parser.add_argument("--hours", type=float, help="one thinned recording of that length")
    parser.add_argument("--batch-size", type=int, help="samples of each step, with --hours")
    parser.add_argument("--keep", help=f"{KEEP}; with --hours {KEEP_OF_HOURS}")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with (
        tidied_at_sigterm(),
        HeldFolder(Path(tempfile.gettempdir()), "wattstep-long-") as folder,
    ):
        if given.hours is None:
            results = all_ways(folder, given.steps, given.keep or KEEP)
        else:
            keep = given.keep or KEEP_OF_HOURS
            results = thinned_alone(folder, given.hours, keep, given.batch_size)
    if given.json:
        print(json.dumps(results))
        return
    for name, facts in results.items():
        print(name)
        for key, value in facts.items():
            print(
                f"  {key.replace('_', ' '):20} {f'{value:,.1f}' if abs(value) >= 0.05 or not value else f'{value:.1e}'}"
                if isinstance(value, float)
                else f"  {key.replace('_', ' '):20} {value if isinstance(value, str) else f'{value:,}'}"
            )


if __name__ == "__main__":
    main()
