"""How often a verdict of `wattstep observe` is wrong, on figures whose truth lies just beside the margin.

Every claim is made as hard as it can be: the truth lies exactly on the margin, where "holds" is
wrong if it lies a hair outside and "does not hold" is wrong if it lies a hair inside. Each of the
two may be said in at most 5 % of the trials; beside it stands how often the right answer is given
where the truth is clear. Last come nulls: identical models, flat loads, trainings that gain nothing,
one process or three of each, processes that spread as identical runs were measured to.

    python benchmarks/observations.py --trials 4000
    python benchmarks/observations.py --only null
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wattstep.insight.observe import observe
from wattstep.insight.observe.evidence import DailyCourse, Evidence, Observed
from wattstep.insight.observe.measuring import correlation
from wattstep.recorded.repeatability import repeatability
from wattstep.schema.figure import Figure, Status, counted
from wattstep.schema.figures import Figures
from wattstep.schema.run_info import RunInfo
from wattstep.stats.statistics import change_figure, mean_figure, ratio_figure

ALLOWED = 0.05
Generator = np.random.Generator
SLICES = 60  # of 0.2 s, in a run of 12 s
BETWEEN = 0.03  # relative spread of processes
FOLLOWING = 0.6  # correlation of neighbouring slices
BATCHES = (4, 64)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A setting of the campaign.

    Attributes:
        observation: Its number.
        words: The setting.
        evidence: Makes one trial.
        truth: "holds", "does not hold", "margin", or "neither".
        null: Whether nothing is there to be found.
    """

    observation: int
    words: str
    evidence: Callable[[Generator], Evidence]
    truth: str
    null: bool = False


def info(workload: str, batch: int, **changes: Any) -> RunInfo:
    """Of a run on a GPU."""
    known: dict[str, Any] = {
        "state": "closed", "created": "", "workload": workload, "title": workload, "engine": "made",
        "batch_size": batch, "threads": 1, "precision": "fp32", "processor": "cuda", "seed": 0,
        "interval_s": 0.01, "warmup": 3, "trace": "none",
    }  # fmt: skip
    return RunInfo(**{**known, **changes})


def following(rng: Generator, n: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Standard normal values, each like the one before (AR(1))."""
    noise = rng.standard_normal(n)
    values = np.empty(n)
    values[0] = noise[0]
    scale = math.sqrt(1 - FOLLOWING**2)
    for k in range(1, n):
        values[k] = FOLLOWING * values[k - 1] + scale * noise[k]
    return values


def of_slices(rng: Generator, mean: float, spread: float, unit: str = "ratio") -> Figure:
    """A figure over slices of a run, as the metrics make it."""
    return mean_figure(mean + spread * following(rng, SLICES), unit, "made", Status.MEASURED)


def of_rate(rng: Generator, mean: float, unit: str) -> Figure:
    """A figure above 0 whose slices spread by a tenth."""
    values = mean * np.exp(0.1 * following(rng, SLICES) - 0.005)
    return ratio_figure(values, np.ones(SLICES), unit, "made", Status.MEASURED)


def runs_of(
    rng: Generator,
    exponents: Sequence[float],
    processes: int,
    metric: str,
    unit: str,
    between: float = BETWEEN,
    names: Sequence[str] = ("lenet", "dqn", "char-cnn", "resnet50", "bert"),
) -> list[Observed]:
    """Processes of models whose metric goes as batch to the power of these exponents."""
    return [
        Observed(
            path=f"{name}-{batch}-{number}", info=info(name, batch),
            metrics=Figures({metric: of_rate(
                rng, 100 * batch**exponent * math.exp(between * rng.standard_normal()), unit
            )}),
        )
        for name, exponent in zip(names, exponents, strict=False)
        for batch in BATCHES
        for number in range(processes)
    ]  # fmt: skip


def by_batch(
    observation: int, metric: str, unit: str, margin: float, clear: tuple[float, float]
) -> list[Trial]:
    """Exponents on the margin, and clear ones: within, beside."""
    found = []
    for models in (1, 4):
        for processes in (1, 3):
            words = (
                f"{models} model{'s' * (models > 1)}, {processes} process{'es' * (processes > 1)}"
            )
            for truth, exponent in zip(
                ("margin", "holds", "does not hold"), (margin, *clear), strict=True
            ):
                found.append(
                    Trial(
                        observation=observation, words=words, truth=truth,
                        evidence=lambda rng, e=exponent, m=models, p=processes: Evidence(  # type: ignore[misc]
                            runs=runs_of(rng, [e] * m, p, metric, unit)
                        ),
                    )
                )  # fmt: skip
    return found


def models_differ() -> list[Trial]:
    """All models alike but one, by exactly the margin; by nothing; by much."""
    found = []
    for processes in (1, 3):
        for truth, apart in (("margin", 0.05), ("does not hold", 0.0), ("holds", 0.4)):
            found.append(
                Trial(
                    observation=11, words=f"4 models, {processes} process{'es' * (processes > 1)}",
                    truth=truth,
                    evidence=lambda rng, a=apart, p=processes: Evidence(  # type: ignore[misc]
                        runs=runs_of(rng, [0.5, 0.5, 0.5, 0.5 + a], p, "throughput", "samples/s")
                    ),
                )
            )  # fmt: skip
    return found


def gpu_and_cpu() -> list[Trial]:
    """Observation 1: gap and correlation, one of them on the margin, the other clear."""

    def evidence(gap: float, together: float, rng: Generator) -> Evidence:
        cpu = following(rng, 10 * SLICES)
        own = following(rng, 10 * SLICES)
        gpu = together * cpu + math.sqrt(1 - together**2) * own
        extra = {
            "gap": of_slices(rng, gap, 0.05),
            "correlation": correlation(gpu, cpu, "made", Status.MEASURED),
        }
        metrics = {"gpu_utilization": of_slices(rng, 0.8, 0.05)}
        run = Observed(
            path="r", info=info("lenet", 4), metrics=Figures(metrics), extra={"1": extra}
        )
        return Evidence(runs=[run])

    rows = [
        ("gap on the margin", "margin", 0.10, -0.8), ("correlation on the margin", "margin", 0.5, -0.1),
        ("both clear", "holds", 0.5, -0.8), ("the GPU below", "does not hold", -0.2, -0.8),
    ]  # fmt: skip
    return [
        Trial(
            observation=1, words=words, truth=truth,
            evidence=lambda rng, g=gap, t=together: evidence(g, t, rng),  # type: ignore[misc]
        )
        for words, truth, gap, together in rows
    ]  # fmt: skip


def utilization_by_batch() -> list[Trial]:
    """Observation 3: a change of the GPU or of the CPU on the margin."""

    def evidence(gpu: float, cpu: float, processes: int, rng: Generator) -> Evidence:
        between = 0.01
        runs = [
            Observed(
                path=f"{batch}-{number}", info=info("lenet", batch),
                metrics=Figures({
                    "gpu_utilization": of_slices(
                        rng, 0.6 + gpu * last + between * rng.standard_normal(), 0.05),
                    "cpu_utilization": of_slices(
                        rng, 0.3 + cpu * last + between * rng.standard_normal(), 0.05),
                }),
            )
            for batch, last in ((4, 0), (64, 1))
            for number in range(processes)
        ]  # fmt: skip
        return Evidence(runs=runs)

    return [
        Trial(
            observation=3, words=f"{words}, {processes} process{'es' * (processes > 1)}", truth=truth,
            evidence=lambda rng, g=gpu, c=cpu, p=processes: evidence(g, c, p, rng),  # type: ignore[misc]
        )
        for processes in (1, 3)
        for words, truth, gpu, cpu in (
            ("GPU on the margin", "margin", 0.05, 0.0), ("CPU on the margin", "margin", 0.3, 0.05),
            ("both clear", "holds", 0.2, 0.0), ("no change of the GPU", "does not hold", 0.0, 0.0),
        )
    ]  # fmt: skip


def one_figure(
    observation: int, key: str, margin: float, clear: tuple[float, float], unit: str, spread: float,
    others: Callable[[Generator], dict[str, Figure]] = lambda rng: {}, workload: str = "lenet",
) -> list[Trial]:  # fmt: skip
    """One number of one run on the margin, and on both sides of it."""

    def evidence(value: float, rng: Generator) -> Evidence:
        extra = {key: of_slices(rng, value, spread, unit), **others(rng)}
        metrics = {"gpu_utilization": of_slices(rng, 0.8, 0.02)}
        run = Observed(
            path="r",
            info=info(workload, 4),
            metrics=Figures(metrics),
            extra={str(observation): extra},
        )
        return Evidence(runs=[run])

    return [
        Trial(
            observation=observation, words="one run", truth=truth,
            evidence=lambda rng, v=value: evidence(v, rng),  # type: ignore[misc]
        )
        for truth, value in zip(("margin", "holds", "does not hold"), (margin, *clear), strict=True)
    ]  # fmt: skip


def domains() -> list[Trial]:
    """Observation 5: four workloads of four domains, of which one is apart."""

    def evidence(apart: float, rng: Generator) -> Evidence:
        loads = {"char-cnn": 0.6 - apart, "resnet50": 0.6, "dqn": 0.6, "dcgan": 0.6}
        return Evidence(
            runs=[
                Observed(
                    path=name, info=info(name, 64),
                    metrics=Figures({"gpu_utilization": of_slices(rng, load, 0.05)}),
                )
                for name, load in loads.items()
            ]
        )  # fmt: skip

    rows = (("margin", 0.10), ("does not hold", 0.0), ("holds", 0.4))
    return [
        Trial(
            observation=5, words="4 domains, one run each", truth=truth,
            evidence=lambda rng, a=apart: evidence(a, rng),  # type: ignore[misc]
        )
        for truth, apart in rows
    ]  # fmt: skip


def repeats(observation: int, name: str) -> list[Trial]:
    """Observations 2 and 7: a course of which a known share is common to all steps."""

    def evidence(share: float, rng: Generator) -> Evidence:
        steps, each = 60, 20
        phase = np.arange(each) / each
        common = math.sqrt(2 * share) * np.sin(2 * math.pi * phase)
        own = rng.standard_normal((steps, each)) * math.sqrt(1 - share)
        values = (common + own).ravel()
        t_ns = np.arange(steps * each, dtype=np.int64) * 5_000_000
        starts = np.arange(steps, dtype=np.int64) * each * 5_000_000
        found = repeatability(t_ns, values, starts, starts + each * 5_000_000, "made")
        extra = {
            f"{name}_alike": found.correlation,
            f"{name}_movement": of_slices(rng, 1.0, 0.05),
        }
        metrics = {"gpu_utilization": extra[f"{name}_movement"]}
        run = Observed(
            path="r",
            info=info("lenet", 4),
            metrics=Figures(metrics),
            extra={str(observation): extra},
        )
        return Evidence(runs=[run])

    # What the level of a step takes along is made up for: the share is the correlation.
    rows = (("margin", 0.5), ("holds", 0.8), ("does not hold", 0.1))
    return [
        Trial(
            observation=observation, words="60 steps of 20 samples", truth=truth,
            evidence=lambda rng, s=share: evidence(s, rng),  # type: ignore[misc]
        )
        for truth, share in rows
    ]  # fmt: skip


def days() -> list[Trial]:
    """Observation 12: held-out samples that change sides by chance."""

    def evidence(gain: float, batches: int, rng: Generator) -> Evidence:
        courses = []
        for batch in range(batches):
            n, sides = 2000, 0.1
            won, lost, _ = rng.multinomial(n, [(sides + gain) / 2, (sides - gain) / 2, 1 - sides])
            figure = change_figure(int(won), int(lost), n, "held-out samples")
            courses.append(
                DailyCourse(
                    folder="d", workload="lenet", settings={}, batch_size=batch, days=17,
                    images_per_day=64, first=figure, last=figure, gain=figure,
                )
            )  # fmt: skip
        return Evidence(daily=courses)

    return [
        Trial(
            observation=12, words=f"{batches} batch size{'s' * (batches > 1)}, 2,000 samples",
            truth=truth,
            evidence=lambda rng, g=gain, b=batches: evidence(g, b, rng),  # type: ignore[misc]
        )
        for batches in (1, 3)
        for truth, gain in (("margin", 0.001), ("holds", 0.05), ("does not hold", -0.05))
    ]  # fmt: skip


# --- nothing to be found ----------------------------------------------------------------------------

SPREADS = (0.03, 0.20, 0.42)  # of processes: chosen, and of identical runs (docs/observations.md)
COUNTED = ("parameters", "gradients")


def nulls() -> list[Trial]:
    """Identical models, flat loads, trainings that gain nothing."""
    found = []
    for processes in (1, 3):
        for between in SPREADS:
            words = f"{processes} process{'es' * (processes > 1)}, spread {between:.0%}"
            for observation, said, evidence in _of_several(processes, between):
                found.append(
                    Trial(
                        observation=observation, words=f"{said}, {words}", evidence=evidence,
                        truth="neither" if observation == 6 else "does not hold", null=True,
                    )
                )  # fmt: skip
        found += _of_courses(processes)
    everything_fits = Trial(
        observation=9, words="intermediate data grow, nothing fails to fit", truth="neither",
        evidence=lambda rng: Evidence(runs=[_counted(rng, batch) for batch in BATCHES]), null=True,
    )  # fmt: skip
    return [*found, everything_fits]


Made = tuple[int, str, Callable[[Generator], Evidence]]


def _of_several(processes: int, between: float) -> list[Made]:
    """Of observations that set loads, rates and energies against each other: no difference."""

    def rates(metric: str, unit: str, exponent: float, models: int) -> Callable[..., Evidence]:
        return lambda rng: Evidence(
            runs=runs_of(rng, [exponent] * models, processes, metric, unit, between)
        )

    def alone(observation: int, extra: Callable[[Generator], dict[str, Figure]]) -> Any:
        return lambda rng: Evidence(
            runs=[
                Observed(
                    path=f"{workload}-{number}", info=info(workload, 4),
                    metrics=Figures({"gpu_utilization": of_slices(rng, 0.5, 0.02)}),
                    extra={str(observation): extra(rng)},
                )
                for workload in ("lenet", "char-cnn")
                for number in range(processes)
            ]
        )  # fmt: skip

    def near(rng: Generator, value: float, points: float) -> Figure:
        return of_slices(rng, value + points * rng.standard_normal(), 0.02)

    def loads(rng: Generator) -> Evidence:
        names = (("lenet", 4), ("lenet", 64), ("char-cnn", 64), ("dqn", 64), ("dcgan", 64))
        return Evidence(
            runs=[
                Observed(
                    path=f"{name}-{batch}-{number}", info=info(name, batch),
                    metrics=Figures({
                        "gpu_utilization": near(rng, 0.5, 0.25 * between),
                        "cpu_utilization": near(rng, 0.5, 0.5 * between),
                    }),
                )
                for name, batch in names
                for number in range(processes)
            ]
        )  # fmt: skip

    def ratio(rng: Generator) -> Figure:
        return of_rate(rng, math.exp(between * rng.standard_normal()), "1")

    return [
        (1, "GPU as busy as the CPU", alone(1, lambda rng: {
            "gap": near(rng, 0.0, 0.5 * between), "correlation": near(rng, 0.0, 0.1)})),
        (3, "the GPU does not change", loads),
        (4, "kinds used alike", alone(4, lambda rng: {"A57 less Denver2": near(rng, 0.0, between)})),
        (5, "domains alike", loads),
        (6, "all parts draw as much", alone(6, lambda rng: {
            name: ratio(rng) for name in ("gpu/cpu", "gpu/memory", "memory/cpu", "memory/gpu")})),
        (8, "energy in proportion", rates("energy_per_step", "J", 1.0, 4)),
        (10, "throughput stands still", rates("throughput", "samples/s", 0.0, 4)),
        (11, "4 identical models", rates("throughput", "samples/s", 0.5, 4)),
    ]  # fmt: skip


def _of_courses(processes: int) -> list[Trial]:
    """Loads and powers that hardly move, with and without a course; trainings that gain nothing."""

    def still(observation: int, name: str, alike: float, rng: Generator) -> Evidence:
        extra = {
            f"{name}_alike": of_slices(rng, alike, 0.05, "1"),
            f"{name}_movement": of_slices(rng, 0.02, 0.002),
        }
        extra[f"{name}_alike_at_most"] = extra[f"{name}_alike"]
        return Evidence(
            runs=[
                Observed(
                    path=str(number), info=info("lenet", 4), extra={str(observation): extra},
                    metrics=Figures({"gpu_utilization": of_slices(rng, 0.9, 0.01)}),
                )
                for number in range(processes)
            ]
        )  # fmt: skip

    def days(rng: Generator) -> Evidence:
        courses = []
        for _ in range(processes):
            gain = 0.08 * float(rng.standard_normal())
            n, sides = 2000, max(0.1, 1.1 * abs(gain))
            shares = [(sides + gain) / 2, (sides - gain) / 2, 1 - sides]
            won, lost, _ = rng.multinomial(n, shares)
            figure = change_figure(int(won), int(lost), n, "held-out samples")
            courses.append(
                DailyCourse(
                    folder="d", workload="lenet", settings={}, batch_size=4, days=5,
                    images_per_day=64, first=figure, last=figure, gain=figure,
                )
            )  # fmt: skip
        return Evidence(daily=courses)

    words = f"{processes} process{'es' * (processes > 1)}"
    trials = [
        Trial(
            observation=observation, words=f"moves by 2 % {how}, {words}", truth="neither", null=True,
            evidence=lambda rng, o=observation, n=name, a=alike: still(o, n, a, rng),  # type: ignore[misc]
        )
        for observation, name in ((2, "gpu"), (7, "total"))
        for how, alike in (("in every step alike", 0.9), ("by chance", 0.0))
    ]  # fmt: skip
    gains = f"seeds spread by 8 points, {words}"
    return [
        *trials,
        Trial(observation=12, words=gains, truth="does not hold", evidence=days, null=True),
    ]


def _counted(rng: Generator, batch: int) -> Observed:
    """A followed step whose intermediate data go with the batch."""
    sizes = {**dict.fromkeys(COUNTED, 1e6), "feature_maps": batch * float(rng.uniform(1e5, 1e6))}
    table = {name: counted(size, "B", "tensors") for name, size in sizes.items()}
    return Observed(
        path=str(batch), info=info("lenet", batch), metrics=Figures({"memory_highest": table})
    )


def campaign() -> list[Trial]:
    """All settings."""

    def memory(rng: Generator) -> dict[str, Figure]:
        return {
            "gpu/memory": of_slices(rng, 2.0, 0.2, "1"),
            "gpu/all": of_slices(rng, 0.5, 0.02, "1"),
        }

    return [
        *gpu_and_cpu(),
        *repeats(2, "gpu"),
        *utilization_by_batch(),
        *one_figure(4, "A57 less Denver2", 0.05, (0.3, 0.0), "ratio", 0.05),
        *domains(),
        *one_figure(6, "gpu/cpu", 1.0, (2.0, 0.5), "1", 0.1, memory),
        *repeats(7, "total"),
        *by_batch(8, "energy_per_step", "J", 0.98, (0.6, 1.3)),
        *by_batch(10, "throughput", "samples/s", 0.02, (0.5, -0.3)),
        *models_differ(),
        *days(),
        *nulls(),
    ]


def verdicts(trial: Trial, trials: int, seed: int) -> Counter[str]:
    """How often each verdict was given."""
    rng = np.random.default_rng(seed)
    return Counter(
        next(observe(trial.evidence(rng), [str(trial.observation)])).verdict for _ in range(trials)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--only", help='observations, e.g. 4,8; or "null"')
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    nulls_only = given.only == "null"
    some = None if nulls_only or not given.only else {int(part) for part in given.only.split(",")}
    # Three standard errors of a share of 5 %: what chance does to an honest 5 % in so many trials.
    tolerance = 3 * math.sqrt(ALLOWED * (1 - ALLOWED) / given.trials)
    print(f"{given.trials} trials each; wrong at most {ALLOWED:.0%} + {tolerance:.1%}\n")
    print("| observation | setting | truth | holds | does not hold | undecided | wrong |")
    print("|---|---|---|---|---|---|---|")
    worst = 0.0
    for number, trial in enumerate(campaign()):
        if (some and trial.observation not in some) or (nulls_only and not trial.null):
            continue
        found = verdicts(trial, given.trials, given.seed + number)
        shares = {key: found[key] / given.trials for key in ("holds", "does not hold", "undecided")}
        either = max(shares["holds"], shares["does not hold"])
        wrong = {"holds": shares["does not hold"], "does not hold": shares["holds"]}
        worst = max(worst, wrong.get(trial.truth, either))
        row = (
            f"| {trial.observation} | {trial.words} | {trial.truth} | {shares['holds']:.1%} | "
            f"{shares['does not hold']:.1%} | {shares['undecided']:.1%} | {wrong.get(trial.truth, either):.1%} |"
        )
        print(row, flush=True)
    print(f"\nworst: {worst:.1%}")
    return 0 if worst <= ALLOWED + tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
