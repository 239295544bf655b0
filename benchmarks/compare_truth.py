"""Whether `wattstep compare` tells the truth: campaigns with a known answer, and identical runs of a real training.

    python benchmarks/compare_truth.py synthetic [--campaigns 500] [--json]
    python benchmarks/compare_truth.py busy [--campaigns 200] [--json]
    python benchmarks/compare_truth.py operations [--campaigns 200] [--json]
    python benchmarks/compare_truth.py real --runs 6 --seconds 4 [--keep FOLDER] [--json]

`synthetic`: processes whose means spread around their configuration's, steps within each that are
alike to their neighbours (AR(1) of 0.6), B slower by nothing or by 5 %. Told is how often the stated
95 % interval of the ratio holds the truth, how often a difference is claimed, and whether that is
within what a binomial count allows (two standard deviations of so many campaigns). One process of
each is in the table as it is: its interval knows nothing of other processes.

`busy`: one program on both sides, while other work makes the steps of B wait: they take 1.3 to 3 times
the time and as much CPU time (half a per cent of spread). Told is how often a difference is claimed of
the programs, how often it is said to be one of these runs with the reason, and what CPU time shows.

`operations`: 200 operations, a fifth of which truly differ by 10 to 40 %, three processes of each side,
with a factor that all operations of a process share; told is the rate of false discoveries. Then none
differs: told is how often anything is claimed.

`real`: identical runs of LeNet in turns with runs of twice the batch. Told is how often single pairs
of identical runs are found to differ, how often halves of them are, and whether the batch is.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from wattstep.insight.compare.answer import sentence
from wattstep.insight.compare.configuration import configuration_of
from wattstep.insight.compare.drift import Drift, drift_between
from wattstep.insight.compare.metrics import Compared, compare_metric
from wattstep.insight.compare.operations import compare_operations
from wattstep.insight.compare.process import UNITS, Process, read_process
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.report_rows import CostRow
from wattstep.schema.run_info import RunInfo
from wattstep.stats.statistics import mean_figure

STEPS, ALIKE, STEP_SPREAD = 300, 0.6, 0.10
BETWEEN = 0.03  # standard deviation of process means, relative
SLOWER = 1.05
STILL = Drift(parts={})
INFO = RunInfo(
    state="closed", created="2026-11-20T12:00:00+0000", workload="made", title="made",
    engine="torch", batch_size=4, threads=1, precision="fp32", processor="cpu", seed=0,
    interval_s=0.01, warmup=3, trace="auto",
)  # fmt: skip


def process(
    step_time: Figure,
    operations: Sequence[CostRow] = (),
    *,
    cpu_time: Figure | None = None,
    disturbed: float = 0.0,
) -> Process:
    figures = {name: missing(unit, "not made") for name, unit in UNITS.items()}
    figures |= {"step_time": step_time} | ({"cpu_time_per_step": cpu_time} if cpu_time else {})
    return Process(
        path=Path("made"), info=INFO, configuration=configuration_of(INFO), figures=figures,
        samples=4.0, sensors="", rounding=0.0, temperature=None, canary=None, operations=operations,
        no_operations=None, data_movement=missing("ratio", "not made"), marred={"disturbed": disturbed}, warnings=(),
    )  # fmt: skip


# --- synthetic ----------------------------------------------------------------------------------


def steps(means: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Times of the steps of processes, each alike to the one before, shape (processes, steps)."""
    fresh = random.standard_normal((STEPS, len(means)))
    values = np.empty((STEPS, len(means)))
    values[0] = fresh[0]
    for at in range(1, STEPS):
        values[at] = ALIKE * values[at - 1] + math.sqrt(1 - ALIKE**2) * fresh[at]
    return means[:, None] * (1 + STEP_SPREAD * values.T)


def side(count: int, mean: float, between: float, random: np.random.Generator) -> list[Process]:
    """Processes of a side. A process alone has the interval that a run has, of a bootstrap."""
    times = steps(mean * np.exp(between * random.standard_normal(count)), random)
    if count == 1:
        return [process(mean_figure(times[0], "s", "made", Status.MEASURED))]
    return [process(_by_batches(each)) for each in times]


def _by_batches(times: np.ndarray) -> Figure:
    """The same with an interval from the means of 15 batches, a hundred times as fast."""
    batches = times.reshape(15, -1).mean(axis=1)
    value, reach = float(times.mean()), 2.14 * float(batches.std(ddof=1)) / math.sqrt(15)
    return Figure(
        value=value, unit="s", low=value - reach, high=value + reach, n=len(times),
        confidence=0.95, status=Status.MEASURED,
    )  # fmt: skip


SCENARIOS = {
    "2 and 2": (2, 2, BETWEEN, BETWEEN),
    "3 and 3": (3, 3, BETWEEN, BETWEEN),
    "5 and 5": (5, 5, BETWEEN, BETWEEN),
    "8 and 8": (8, 8, BETWEEN, BETWEEN),
    "2 and 6": (2, 6, BETWEEN, BETWEEN),
    "3 and 3, B spreads three times as far": (3, 3, BETWEEN, 3 * BETWEEN),
    "3 and 6, B spreads three times as far": (3, 6, BETWEEN, 3 * BETWEEN),
    "1 against 4": (4, 1, BETWEEN, BETWEEN),
    "1 against 4, B spreads three times as far": (4, 1, BETWEEN, 3 * BETWEEN),
    "1 and 1": (1, 1, BETWEEN, BETWEEN),
    "1 and 1, processes do not spread": (1, 1, 0.0, 0.0),
}


def synthetic(campaigns: int) -> list[dict[str, Any]]:
    rows = []
    least = 0.95 - 2 * math.sqrt(0.95 * 0.05 / campaigns)
    for number, (name, (m, n, spread_a, spread_b)) in enumerate(SCENARIOS.items()):
        row: dict[str, Any] = {"processes": name, "least_coverage": least}
        for kind, truth in (("null", 1.0), ("slower", SLOWER)):
            random = np.random.default_rng([number, int(truth * 100)])
            found = [
                compare_metric(
                    "step_time", side(m, 0.1, spread_a, random),
                    side(n, 0.1 * truth, spread_b, random), STILL,
                )
                for _ in range(campaigns)
            ]  # fmt: skip
            row[f"coverage_{kind}"] = float(np.mean([holds(one, truth) for one in found]))
            row[f"claimed_{kind}"] = float(
                np.mean([one.verdict in ("lower", "higher") for one in found])
            )
            row[f"of_these_{kind}"] = float(np.mean([one.of_these != "not shown" for one in found]))
            row["width"] = float(np.median([one.ratio.high - one.ratio.low for one in found]))  # type: ignore[operator]
        row["held"] = row["coverage_null"] >= least and row["coverage_slower"] >= least
        rows.append(row)
        print(f"{name}: {row['coverage_null']:.1%}", file=sys.stderr)
    return rows


def holds(compared: Compared, truth: float) -> bool:
    ratio = compared.ratio
    assert ratio.low is not None
    assert ratio.high is not None
    return ratio.low <= truth <= ratio.high


# --- other work -----------------------------------------------------------------------------------

BUSY = {  # processes of each side, share of the steps of A and B that other work disturbed
    "1 and 1, nothing noticed": (1, 0.0, 0.0),
    "1 and 1, B disturbed": (1, 0.0, 0.8),
    "3 and 3, B disturbed": (3, 0.0, 0.8),
    "5 and 5, B disturbed": (5, 0.1, 0.6),
}


def busy(campaigns: int) -> list[dict[str, Any]]:
    rows = []
    for number, (name, (count, *disturbed)) in enumerate(BUSY.items()):
        random = np.random.default_rng([7, number])
        claimed = cpu_claimed = reasoned = 0
        for _ in range(campaigns):
            a, b = (
                waiting(count, waits, share, random)
                for waits, share in zip(
                    (1.0, float(random.uniform(1.3, 3.0))), disturbed, strict=True
                )
            )
            time, cpu = (compare_metric(n, a, b, STILL) for n in ("step_time", "cpu_time_per_step"))
            claimed += time.verdict in ("lower", "higher")
            cpu_claimed += cpu.verdict in ("lower", "higher")
            words = sentence(time, (count, count))
            reasoned += time.verdict == "differs here" and "not shown to be the program's" in words
        rows.append({
            "processes": name, "claimed": claimed / campaigns, "cpu_claimed": cpu_claimed / campaigns,
            "said_of_these_runs_with_the_reason": reasoned / campaigns, "held": claimed <= 0.05 * campaigns,
        })  # fmt: skip
    return rows


def waiting(
    count: int, waits: float, disturbed: float, random: np.random.Generator
) -> list[Process]:
    """Processes whose steps take so many times their CPU time."""
    cpu = steps(0.1 * np.exp(0.005 * random.standard_normal(count)), random)
    return [
        process(_by_batches(each * waits), cpu_time=_by_batches(each), disturbed=disturbed)
        for each in cpu
    ]


def show_busy(rows: Sequence[dict[str, Any]]) -> None:
    print(
        f"{'processes of A and B':30}{'claims':>9}{'CPU time claims':>18}{'said of these runs':>21}"
    )
    for row in rows:
        print(
            f"{row['processes']:30}{row['claimed']:9.1%}{row['cpu_claimed']:18.1%}"
            f"{row['said_of_these_runs_with_the_reason']:21.1%}"
        )


# --- operations -----------------------------------------------------------------------------------

OPERATIONS, WINDOWS = 200, 30


def operation_rows(means: np.ndarray, random: np.random.Generator) -> list[CostRow]:
    """Rows of a process, each the mean of its traced steps with the interval of their bootstrap."""
    common = math.exp(0.02 * random.standard_normal())
    own = means * common * np.exp(BETWEEN * random.standard_normal(len(means)))
    windows = own[:, None] * (1 + 0.2 * random.standard_normal((len(means), WINDOWS)))
    draws = windows[:, random.integers(0, WINDOWS, (300, WINDOWS))].mean(axis=2)
    low, high = np.percentile(draws, [2.5, 97.5], axis=1)
    return [
        CostRow.from_dict({
            "name": f"op{at}", "layer": "l", "phase": "forward",
            "time": Figure(
                value=float(windows[at].mean()), unit="s", low=float(low[at]), high=float(high[at]),
                confidence=0.95, n=WINDOWS, status=Status.ATTRIBUTED,
            ),
            "energy": missing("J", "not made"),
        })
        for at in range(len(means))
    ]  # fmt: skip


def operations(campaigns: int) -> list[dict[str, Any]]:
    rows = []
    for count in (2, 3, 5):
        for share in (0.0, 0.2):
            random = np.random.default_rng([count, int(10 * share)])
            rates, powers, some = [], [], 0
            for _ in range(campaigns):
                means = np.exp(random.uniform(-9, -5, OPERATIONS))
                changed = random.random(OPERATIONS) < share
                change = np.where(changed, random.uniform(1.1, 1.4, OPERATIONS), 1.0)
                a = [process(_STEP, operation_rows(means, random)) for _ in range(count)]
                b = [process(_STEP, operation_rows(means * change, random)) for _ in range(count)]
                found = compare_operations(a, b, STILL).differing("time")
                at = np.array([int(row.key["name"][2:]) for row in found], int)
                rates.append(float((~changed[at]).mean()) if len(at) else 0.0)
                some += len(at) > 0
                powers.append(
                    float(changed[at].sum() / changed.sum()) if changed.any() else math.nan
                )
            error = float(np.std(rates) / math.sqrt(campaigns))
            rows.append({
                "processes": count, "truly_different": share, "false_discovery_rate": float(np.mean(rates)),
                "standard_error": error, "found": float(np.mean(powers)), "any_claimed": some / campaigns,
                "held": float(np.mean(rates)) <= 0.05 + 2 * max(error, math.sqrt(0.05 * 0.95 / campaigns)),
            })  # fmt: skip
            print(rows[-1], file=sys.stderr)
    return rows


_STEP = Figure(
    value=0.1, unit="s", low=0.09, high=0.11, confidence=0.95, n=300, status=Status.MEASURED
)


# --- real -----------------------------------------------------------------------------------------


def real(runs: int, seconds: float, folder: Path) -> dict[str, Any]:
    for number in range(runs):
        for batch in (4, 8):
            name = f"batch{batch}-{number}"
            if not (folder / name).exists():
                train(folder, name, batch, seconds)
                print(name, file=sys.stderr)
    same = [read_process(folder / f"batch4-{n}", operations=True) for n in range(runs)]
    other = [read_process(folder / f"batch8-{n}", operations=True) for n in range(runs)]
    return {
        "runs": runs,
        "seconds": seconds,
        "single_pairs": claims([[a] for a in same], [[b] for b in same], list(combinations(range(runs), 2))),
        "halves": halves(same),
        "twice_the_batch": told(same, other),
        "between_runs": {
            name: float(np.std(np.log(values), ddof=1))
            for name in ("step_time", "energy_per_step", "peak_memory")
            if all(values := [p.figures[name].value or math.nan for p in same])
        },
    }  # fmt: skip


def train(folder: Path, name: str, batch: int, seconds: float) -> None:
    command = [
        sys.executable, "-m", "wattstep", "run", "lenet", "--seconds", str(seconds), "--batch", str(batch),
        "--threads", "1", "--power-model", "vcpu", "--out", str(folder), "--name", name, "--quiet",
    ]  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def claims(
    a: Sequence[list[Process]], b: Sequence[list[Process]], pairs: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """How often a difference between identical sides is claimed, of configurations and of these runs."""
    counts: dict[str, Any] = {"pairs": len(pairs)}
    for name in ("step_time", "energy_per_step", "peak_memory"):
        found = [one(name, a[i], b[j]) for i, j in pairs]
        counts[name] = {
            "claimed": sum(c.verdict in ("lower", "higher") for c in found),
            "of_these_runs": sum(c.of_these in ("lower", "higher") for c in found),
        }
    tables = [compare_operations(a[i], b[j], drift(a[i], b[j])) for i, j in pairs]
    counts["operations"] = {
        "tested": sum(table.tested.get("time", 0) for table in tables),
        "differing": sum(len(table.differing("time")) for table in tables),
        "pairs_with_some": sum(bool(table.differing("time")) for table in tables),
    }
    counts["machine_changed"] = sum(drift(a[i], b[j]).shown for i, j in pairs)
    return counts


def halves(same: Sequence[Process]) -> dict[str, Any]:
    """Every way to part identical runs into two halves."""
    parts = list(_halves(len(same)))
    a = [[same[at] for at in first] for first, _ in parts]
    b = [[same[at] for at in second] for _, second in parts]
    return claims(a, b, [(n, n) for n in range(len(parts))])


def _halves(count: int) -> Iterator[tuple[list[int], list[int]]]:
    for chosen in combinations(range(count), count // 2):
        if 0 in chosen:
            yield list(chosen), [at for at in range(count) if at not in chosen]


def drift(a: Sequence[Process], b: Sequence[Process]) -> Drift:
    return drift_between([p.canary for p in a], [p.canary for p in b])


def one(name: str, a: Sequence[Process], b: Sequence[Process]) -> Compared:
    return compare_metric(name, a, b, drift(a, b))


def told(a: Sequence[Process], b: Sequence[Process]) -> dict[str, Any]:
    found = one("throughput", a, b)
    return {
        "ratio": found.ratio.value, "low": found.ratio.low, "high": found.ratio.high,
        "verdict": found.verdict, "machine_changed": drift(a, b).shown,
    }  # fmt: skip


# --- what is printed ----------------------------------------------------------------------------


def show_synthetic(rows: Sequence[dict[str, Any]]) -> None:
    print(
        f"{'processes of A and B':44}{'holds, null':>12}{'holds, 5 %':>12}{'claims, null':>14}{'claims, 5 %':>13}{'width':>8}"
    )
    for row in rows:
        print(
            f"{row['processes']:44}{row['coverage_null']:12.1%}{row['coverage_slower']:12.1%}"
            f"{row['claimed_null']:14.1%}{row['claimed_slower']:13.1%}{row['width']:8.3f}"
            f"{'' if row['held'] else '   below ' + format(row['least_coverage'], '.1%')}"
        )


def show_operations(rows: Sequence[dict[str, Any]]) -> None:
    print(
        f"{'processes':>9}{'different':>11}{'false':>9}{'error':>9}{'found':>9}{'any claimed':>13}"
    )
    for row in rows:
        print(
            f"{row['processes']:9}{row['truly_different']:11.0%}{row['false_discovery_rate']:9.1%}"
            f"{row['standard_error']:9.1%}{row['found']:9.1%}{row['any_claimed']:13.1%}"
            f"{'' if row['held'] else '   above 5 %'}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["synthetic", "busy", "operations", "real"])
    parser.add_argument("--campaigns", type=int)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument(
        "--keep", type=Path, help="a folder in which the runs are left, and looked for"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    given = parser.parse_args()
    if given.part == "real":
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(real(given.runs, given.seconds, given.keep or Path(folder)), indent=2))
        return
    make, show, default = {
        "synthetic": (synthetic, show_synthetic, 500),
        "busy": (busy, show_busy, 200),
        "operations": (operations, show_operations, 200),
    }[given.part]
    rows = make(given.campaigns or default)
    if given.json:
        print(json.dumps(rows))
    else:
        show(rows)


if __name__ == "__main__":
    main()
