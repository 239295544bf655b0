"""The twelve observations of the TX2 paper: what each claims, by which margin, and how it is decided."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np
from scipy.special import fdtrc

from wattstep.insight.observe import cores, courses, days, loads, memory, rails
from wattstep.insight.observe.deciding import HOLDS, Region, above, apart
from wattstep.insight.observe.estimates import Estimate, as_figure
from wattstep.insight.observe.evaluators import (
    Number,
    at_shared_batch,
    by_setup,
    differ,
    grows,
    held,
    in_each_configuration,
    in_each_model,
    over_shared_range,
)
from wattstep.insight.observe.evidence import Evidence, Observed, metric, own
from wattstep.insight.observe.groups import Group, configurations_of, groups_of
from wattstep.insight.observe.observation import About, Case, Column, Judged, Published
from wattstep.insight.observe.repeating import ALIKE, LOADS, POWERS, STEADY, repeats
from wattstep.insight.observe.sensors import (
    COMPUTED,
    PLAYED,
    circular,
    computed_power,
    not_following,
    replayed,
    without_gpus,
)
from wattstep.insight.observe.spreads import COURSES, OWN_LOADS, TIMES
from wattstep.insight.observe.spreads import LOADS as ALL_LOADS
from wattstep.insight.observe.wording import across, in_how_many, percent, plain_number, points
from wattstep.schema.figure import Figure, Status

GPU, CPU = metric("gpu_utilization"), metric("cpu_utilization")

# --- 1: utilization --------------------------------------------------------------------------------

# "Far" has no number in the paper: about the gap between its least busy GPU (71.4 %) and its busiest
# core (60 %). A correlation of a tenth explains one per cent of what moves.
FAR, OPPOSED = 0.10, -0.1
GPU_ABOVE_CPU = About(
    number=1,
    title="The GPU is used far more than the CPU",
    claim="GPU utilization is far above CPU utilization, and one is high when the other is low.",
    criterion=f"GPU less CPU utilization has its 95 % interval above {100 * FAR:.0f} points, and "
    f"the correlation of both over time below {OPPOSED}, in every configuration; it does not hold "
    "where either lies on the other side in any (confidence raised for the number of comparisons), and "
    "is undecided where a load hardly moves.",
    metrics=("gpu_utilization", "cpu_utilization"),
    columns=(
        Column("gpu_utilization", "GPU"),
        Column("cpu_utilization", "CPU"),
        Column("correlation", "correlation"),
    ),
    published=(
        Published(what="GPU utilization, vision", value=0.714, high=0.964, unit="ratio"),
        Published(what="utilization of a CPU core", value=0.0, high=0.60, unit="ratio"),
    ),
    measure=loads.measure,
    cases=in_each_configuration(
        held(
            Number(name="gap", words="GPU less CPU utilization", read=own(1, "gap"),
                   region=above(FAR), between=ALL_LOADS),
            Number(name="correlation", words="correlation of GPU and CPU load over time", unit="1",
                   read=own(1, "correlation", "1"), region=Region(high=OPPOSED), between=COURSES,
                   within=(-1.0, 1.0), needed=False, left_open=True),
            shown=[Number(name="gpu_utilization", read=GPU), Number(name="cpu_utilization", read=CPU)],
        ),
        needs=[without_gpus],
    ),
    sentences=(
        "{gap:where} the GPU is used far more than the CPU: GPU {gpu_utilization:percent}, CPU "
        "{cpu_utilization:percent} of the time.",
        "{correlation:where} the two take turns: their correlation over time is "
        "{correlation:number}; below 0, one is high when the other is low.",
    ),
)  # fmt: skip
UTILIZATION_REPEATS = About(
    number=2,
    title="Utilization repeats from step to step",
    claim="Utilization of the GPU and of each core follows the same course in every step.",
    criterion="The correlation of one step's course with another's has its 95 % interval above "
    f"{ALIKE}, and the load moves by more than {100 * STEADY:.0f} points (one that moves less is not "
    "tested), in every configuration; it does not hold where the interval lies below in any, noise of the sensor allowed for "
    "(confidence raised for the number of comparisons).",
    metrics=("process_cpu_cores", "cpu_core_utilization", "gpu_utilization"),
    columns=(
        Column("training", "training's CPU"),
        Column("cores", "cores"),
        Column("gpu", "GPU"),
    ),
    measure=courses.measure_loads,
    cases=in_each_configuration(repeats("2", LOADS), needs=[not_following]),
    sentences=(
        "{everywhere} one step shows the load of any other.",
        *(
            f"One step's course of {words} goes with another's by a correlation of {{{name}_alike:number}}."
            for name, words in LOADS.items()
        ),
    ),
)

# The paper's GPU gains 10 to 15 points from batch 4 to 64, its CPU changes by 2.1: between the two.
CHANGES = 0.05
_BOTH = grows(
    Number(name="gpu_change", words="change of GPU utilization with the batch", read=GPU,
           region=above(CHANGES), between=OWN_LOADS),
    Number(name="cpu_change", words="change of CPU utilization with the batch", read=CPU,
           region=Region(low=-CHANGES, high=CHANGES), between=ALL_LOADS),
)  # fmt: skip


def _utilization_by_batch(group: Group) -> Case:
    """Without a GPU that takes part, the half about the CPU is shown and does not decide."""
    case, reason = _BOTH(group), without_gpus(group.runs)
    if reason is None:
        return case
    figures = {"cpu_change": as_figure(case.parts[1].estimate, "ratio")}
    return Case(label=group.label, runs=group.runs, reason=reason, figures=figures)


GPU_BY_BATCH = About(
    number=3,
    title="GPU utilization grows with the batch size, CPU utilization does not",
    claim="The GPU is used more with a larger batch; the CPU is not.",
    criterion="From the smallest batch to the largest, GPU utilization has the 95 % interval of its "
    f"change above {100 * CHANGES:.0f} points and CPU utilization within ±{100 * CHANGES:.0f} points, "
    "for every model; it does not hold where either lies on the other side for any (confidence "
    "raised for the number of comparisons).",
    metrics=("gpu_utilization", "cpu_utilization"),
    columns=(
        Column("gpu_change", "GPU, change", "points"),
        Column("cpu_change", "CPU, change", "points"),
    ),
    published=(
        Published(what="GPU, change from batch 4 to 64", value=0.10, high=0.148, notation="points"),
        Published(what="CPU, mean difference", value=0.021, notation="points"),
    ),
    noun="model",
    cases=in_each_model(_utilization_by_batch, needs=[not_following]),
    sentences=(
        "{gpu_change:where} the GPU is used more with the largest batch than with the smallest, by "
        "{gpu_change:points}.",
        "{cpu_change:where} the CPU is used as much with the largest batch: it changes by {cpu_change:points}.",
    ),
)


def _kinds(tested: Sequence[Judged]) -> list[str]:
    return [
        f"{in_how_many(tested, 'configuration')} the kinds of cores are used differently: "
        f"{' and '.join(tested[0].case.members)} differ by {across(tested, 'difference', points)} of "
        "utilization."
    ]


# That each core changes differently with the batch size, which the paper adds, has no bound and is not
# tested; cores of one kind that are used differently are what a scheduler does.
KINDS = About(
    number=4,
    title="Cores of different kinds are used differently",
    claim="Cores of different kinds have different utilization during training.",
    criterion="The difference of the mean utilization of two kinds of cores has its 95 % interval "
    f"beside ±{100 * cores.MARGIN:.0f} points in every configuration; it does not hold where it lies "
    "within in any (confidence raised for the number of comparisons).",
    metrics=("cpu_cluster_utilization", "cpu_core_utilization", "idle_state_ratio"),
    columns=(
        Column("difference", "utilization", "points"),
        Column("idle_difference", "idle share", "points"),
    ),
    published=(
        Published(what="idle state ratio of a Denver2 core, up to", value=0.65, unit="ratio"),
    ),
    measure=cores.measure,
    cases=in_each_configuration(cores.case),
    sentences=_kinds,
)

# The paper's models of vision differ by 14 points among themselves: less may be models, not domains.
DOMAINS_APART = 0.15
ONE_DOMAIN = (
    "no two workloads of different application domains were trained under equal conditions with "
    "the same batch size"
)
UNKNOWN = "the application domain is not known: it is none of the workloads of this project"


def _of_no_domain(runs: Sequence[Observed]) -> str | None:
    return None if runs[0].domain else UNKNOWN


def _furthest(tested: Sequence[Judged]) -> list[str]:
    most = max(tested, key=lambda judged: abs(judged.figures()["difference"].value or 0.0))
    first, second = (most.case.figures[key].value or 0.0 for key in ("first", "second"))
    count = sum(each.verdict == HOLDS for each in tested)
    return [
        f"Furthest apart are {most.case.label}: the GPU is busy {percent(first)} and "
        f"{percent(second)} of the time.",
        f"{count} of {len(tested)} pairs of workloads of different domains differ by more than "
        f"{100 * DOMAINS_APART:.0f} points beyond doubt.",
    ]


DOMAINS = About(
    number=5,
    title="GPU utilization depends on the application domain",
    claim="The GPU is used much less in language (LSTM) than in computer vision.",
    criterion="For any pair of workloads of different domains, under equal conditions and with the "
    "same batch size, the interval of the difference of GPU utilization lies beside "
    f"±{100 * DOMAINS_APART:.0f} points (confidence raised for the number of pairs); it does not hold "
    "where those of all pairs lie within.",
    metrics=("gpu_utilization",),
    columns=(
        Column("first", "GPU, first"),
        Column("second", "GPU, second"),
        Column("difference", "difference", "points"),
    ),
    published=(
        Published(what="GPU utilization, LSTM", value=0.25, unit="ratio"),
        Published(what="GPU utilization, computer vision", value=0.95, unit="ratio"),
    ),
    somewhere=True,
    cases=differ(
        at_shared_batch(Number(name="load", read=GPU, between=OWN_LOADS), lambda run: run.domain),
        Number(name="difference", words="GPU utilization of the second less the first", read=GPU,
               region=apart(DOMAINS_APART)),
        lambda groups: ONE_DOMAIN,
        needs=[not_following, without_gpus, _of_no_domain],
        grouping=configurations_of,
    ),
    sentences=_furthest,
)  # fmt: skip

# --- 2: power and energy ---------------------------------------------------------------------------

# "Most" needs no margin: how much more is what the ratio says.
POWER_BY_PART = About(
    number=6,
    title="The GPU draws most power, except where memory does",
    claim="Of GPU, CPU and memory the GPU draws most power; with an LSTM the memory does.",
    criterion="The energy of the part that should draw most (memory where an LSTM dominates, else "
    "the GPU) over that of each other part has its 95 % interval above 1 in every configuration; "
    "it does not hold where one lies below 1 in any (confidence raised for the number of "
    "comparisons), and is undecided unless an LSTM and something else were seen.",
    metrics=("energy_by_rail",),
    columns=(
        Column("over_cpu", "over the CPU", "times"),
        Column("over_other", "over the other", "times"),
        Column("gpu_share", "GPU of all"),
    ),
    published=(
        Published(what="GPU over CPU, ResNet50 and VGG16", value=4.0, notation="times"),
        Published(what="GPU over memory, ResNet50 and VGG16", value=2.0, notation="times"),
        Published(what="GPU of the whole system, up to", value=0.574, unit="ratio"),
    ),
    measure=rails.measure,
    cases=in_each_configuration(
        rails.case,
        needs=[circular, rails.lacking],
        remarks=[lambda runs: PLAYED if replayed(runs) else None],
    ),
    unseen=rails.unseen,
    sentences=(
        "{everywhere} the part that should draw most does so: it takes {over_cpu:times} the energy "
        "of the CPU and {over_other:times} that of the other part.",
    ),
)
POWER_REPEATS = About(
    number=7,
    title="Power repeats from step to step",
    claim="The power of the device and of its parts follows the same course in every step.",
    criterion="The correlation of one step's course of power with another's has its 95 % interval "
    f"above {ALIKE}, and power moves by more than {100 * STEADY:.0f} % of its mean (what moves less is "
    "not tested), in every configuration; it does not hold where the interval lies below in any, noise of the sensor "
    "allowed for (confidence raised for the number of comparisons).",
    metrics=("mean_power", "energy_by_rail"),
    columns=(
        Column("total", "all"),
        Column("gpu", "GPU"),
        Column("cpu", "CPU"),
        Column("memory", "memory"),
    ),
    measure=courses.measure_power,
    cases=in_each_configuration(repeats("7", POWERS, "total"), needs=[not_following, circular]),
    sentences=(
        "{everywhere} the power of one step shows that of any other.",
        "One step's course of power goes with another's by a correlation of {total_alike:number}.",
    ),
)

# 5.7 % over sixteen times the batch: no less than board sensors are off by, and what is lost in a warm
# room. Gain errors of a sensor cancel in the ratio; offsets do not.
MARGIN = 0.02
ENERGY_BY_BATCH = About(
    number=8,
    title="Energy grows with the batch size, less than in proportion",
    claim="A step with a larger batch takes more energy, but less than in proportion to its samples.",
    criterion="Energy of a step goes as batch to the power e from the smallest batch to the "
    f"largest; holds where the 95 % interval of e lies between {MARGIN} and {1 - MARGIN} for every "
    "model, does not hold where it lies beside for any (confidence raised for the number of "
    "models).",
    metrics=("energy_per_step",),
    columns=(
        Column("growth", "energy of a step", "times"),
        Column("exponent", "exponent e"),
    ),
    published=(
        Published(what="growth from batch 4 to 64", value=2.2, high=10.5, notation="times"),
        Published(what="the same as an exponent", value=0.284, high=0.848, unit="1"),
    ),
    noun="model",
    cases=in_each_model(
        grows(
            Number(name="exponent", words="power of the batch with which the energy of a step grows",
                   read=metric("energy_per_step", "J"), power=True, unit="1",
                   region=Region(low=MARGIN, high=1 - MARGIN), between=TIMES)
        ),
        needs=[not_following],
        remarks=[lambda runs: COMPUTED if computed_power(runs) else None],
    ),
    sentences=(
        "{everywhere} a step with the largest batch takes more energy than with the smallest, and "
        "less than in proportion: {growth:times} as much.",
        "Energy of a step goes as batch to the power e = {exponent:number}; below 1, a larger batch "
        "is cheaper by the sample.",
    ),
)  # fmt: skip

# --- 3: memory -------------------------------------------------------------------------------------

# The input is counted, too: it grows in proportion, though the paper's page says that it stays.
MEMORY = About(
    number=9,
    title="Intermediate data decide whether a batch size fits",
    claim="Parameters and gradients stay as they are with the batch size; intermediate data grow, "
    "and decide what fits.",
    criterion="Holds where, from the smallest batch to the largest, parameters, gradients and optimizer state "
    f"change by less than {100 * memory.STAYS:.0f} %, intermediate data grow by more than batch to the power "
    f"{memory.GROWS:.2f} (1.64 times for 16 times the batch), "
    f"and more than {100 * memory.MOST:.0f} % of the growth of all tensors is theirs, for every model; of "
    "models that ran out of memory in a sweep, a smaller batch trained; undecided where nothing "
    "failed to fit. Counted, so that no interval is needed.",
    metrics=(memory.METRIC, "memory_breakdown"),
    columns=(
        Column("fixed_growth", "parameters, gradients", "times"),
        Column("growth", "intermediate", "times"),
        Column("growth_share", "of the growth"),
    ),
    published=(
        Published(what="DenseNet40, intermediate data, batch 4", value=2.2e9, unit="B"),
        Published(what="DenseNet40, intermediate data, batch 64", value=5.9e9, unit="B"),
        Published(what="the same, growth", value=5.9 / 2.2, notation="times"),
    ),
    noun="model",
    cases=memory.cases,
    unseen=memory.unseen,
    sentences=memory.sentences,
)  # fmt: skip

# --- 4: throughput and accuracy --------------------------------------------------------------------

THROUGHPUT = metric("throughput", "samples/s")
THROUGHPUT_BY_BATCH = About(
    number=10,
    title="Throughput grows with the batch size",
    claim="For all models, more samples are trained in a second as the batch grows.",
    criterion="Throughput goes as batch to the power e from the smallest batch to the largest; "
    f"holds where the 95 % interval of e lies above {MARGIN} for every model, does not hold where "
    "it lies below for any (confidence raised for the number of models).",
    metrics=("throughput",),
    columns=(
        Column("growth", "throughput", "times"),
        Column("exponent", "exponent e"),
    ),
    published=(
        Published(what="ResNet50, batch 4 to 64, exponent", value=0.653, unit="1"),
        Published(what="ResNet50, batch 4 to 64, growth", value=55 / 9, notation="times"),
        Published(
            what="growth of all models, batch 4 to 64", value=1.7, high=15.3, notation="times"
        ),
    ),
    noun="model",
    cases=in_each_model(
        # Falls on the way do not decide: at large batches throughput levels off and wavers.
        grows(
            Number(name="exponent", words="power of the batch with which throughput grows",
                   read=THROUGHPUT, power=True, unit="1", region=above(MARGIN), between=TIMES),
            falls="throughput",
        )
    ),
    sentences=(
        "{everywhere} more samples are trained in a second with the largest batch than with the "
        "smallest: {growth:times}.",
        "Doubling the batch raises throughput by a factor of 2 to the power e, with e = "
        "{exponent:number}; 1 would be in proportion, 0 not at all.",
    ),
)  # fmt: skip

# 15 % over sixteen times the batch: less than the paper's closest pair by far.
GROWTH_APART = 0.05
ONE_MODEL = (
    "one model only (with two batch sizes or more): give runs of at least two models under equal "
    "conditions"
)
NO_RANGE = "no two models were trained with the same two batch sizes under equal conditions"
_models = over_shared_range(Number(name="exponent", read=THROUGHPUT, between=TIMES))


def _alone(groups: Sequence[Group]) -> str:
    return NO_RANGE if len({group.settings["workload"] for group in groups}) > 1 else ONE_MODEL


def _heterogeneity(evidence: Evidence) -> dict[str, Figure]:
    """Cochran's Q with the p-value of Welch's (1951) test, and the I² of Higgins and Thompson (2002).

    Q asks whether the exponents differ at all, I² how much of their spread is more than chance. They
    do not decide: with enough steps any two models differ by something.
    """
    setups = [_models(groups) for groups in by_setup(groups_of(evidence.runs))]
    models = next((members for members in setups if len(members) > 1), [])
    estimates = [each.value for each in models if isinstance(each.value, Estimate)]
    errors, degrees = np.array([each.standard for each in estimates]).reshape(-1, 2).T
    if not (len(errors) and np.isfinite(errors).all() and (errors > 0).all()):
        return {}
    values = np.array([estimate.value for estimate in estimates])
    count, weight = len(values), errors**-2.0
    mean = float((weight * values).sum() / weight.sum())
    q = float((weight * (values - mean) ** 2).sum())
    lack = float(((1 - weight / weight.sum()) ** 2 / np.minimum(degrees, 1e6)).sum())
    f = q / (count - 1) / (1 + 2 * (count - 2) / (count**2 - 1) * lack)
    p = float(fdtrc(count - 1, (count**2 - 1) / (3 * lack), f)) if lack > 0 else math.nan
    excess = max(0.0, (q - (count - 1)) / q) if q > 0 else 0.0
    statistic = Figure(
        value=q, unit="1", status=Status.MEASURED, n=count,
        method=f"Cochran's Q over {count} models", source=", ".join(each.label for each in models),
    )  # fmt: skip
    method = "Welch's test that all exponents are equal: p-value"
    return {
        "q": statistic,
        "i_squared": replace(
            statistic, value=excess, unit="ratio", method="I² of Higgins and Thompson"
        ),
        **({} if math.isnan(p) else {"p_equal": replace(statistic, value=p, method=method)}),
    }


def _least_and_most(tested: Sequence[Judged]) -> list[str]:
    exponents = {
        label: each.case.figures[name].value or 0.0
        for each in tested
        for label, name in zip(each.case.members, ("first", "second"), strict=True)
    }
    least, *_, most = sorted(exponents, key=lambda label: exponents[label])
    sentences = [
        f"From batch {tested[0].case.batches} throughput grows least in {least} (e = "
        f"{plain_number(exponents[least])}) and most in {most} (e = {plain_number(exponents[most])})."
    ]
    if len(tested) > 1:
        count = sum(each.verdict == HOLDS for each in tested)
        sentences.append(
            f"{count} of {len(tested)} pairs of models differ by more than {GROWTH_APART} in e "
            "beyond doubt."
        )
    return sentences


GROWTH_BY_MODEL = About(
    number=11,
    title="By how much throughput grows differs between models",
    claim="Across models, throughput grows differently as the batch grows.",
    criterion="Throughput goes as batch to the power e; holds where for any pair of models under "
    f"equal conditions the interval of the difference of their e lies beside ±{GROWTH_APART} (confidence "
    "raised for the number of pairs), does not hold where those of all pairs lie within.",
    metrics=("throughput",),
    columns=(
        Column("first", "e, first"),
        Column("second", "e, second"),
        Column("difference", "difference"),
    ),
    published=(
        Published(what="deep RL, batch 4 to 64, exponent", value=0.984, unit="1"),
        Published(what="ResNet50, batch 4 to 64, exponent", value=0.653, unit="1"),
        Published(what="DenseNet40, batch 4 to 64, exponent", value=0.191, unit="1"),
    ),
    somewhere=True,
    cases=differ(
        _models,
        Number(name="difference", words="difference of the exponents", read=THROUGHPUT, unit="1",
               region=apart(GROWTH_APART)),
        _alone,
    ),
    figures=_heterogeneity,
    sentences=_least_and_most,
)  # fmt: skip
DAYS = About(
    number=12,
    title="Training by the day slowly raises accuracy",
    claim="A model that learns each day's new samples on the device slowly becomes more accurate.",
    criterion="Accuracy on the last day less that on day 0, on the same held-out samples, has its "
    f"95 % interval above {100 * days.MARGIN:.1f} points with every batch size; it does not hold where "
    "it lies below with any (confidence raised for the number of trainings).",
    metrics=("accuracy", "gain"),
    columns=(
        Column("first", "day 0"),
        Column("last", "last day"),
        Column("gain", "gain", "points"),
    ),
    published=(
        Published(what="DenseNet40, day 0", value=0.6065, unit="ratio"),
        Published(what="DenseNet40, day 17", value=0.6132, unit="ratio"),
        Published(what="gain", value=0.0067, notation="points"),
    ),
    noun="training",
    lacking=days.NO_DAYS,
    cases=days.cases,
    sentences=(
        "{everywhere} accuracy is higher after the last day than on day 0: it changes by {gain:points}.",
    ),
)

OBSERVATIONS: Final[Mapping[str, About]] = MappingProxyType(
    {
        str(about.number): about
        for about in (
            GPU_ABOVE_CPU, UTILIZATION_REPEATS, GPU_BY_BATCH, KINDS, DOMAINS, POWER_BY_PART,
            POWER_REPEATS, ENERGY_BY_BATCH, MEMORY, THROUGHPUT_BY_BATCH, GROWTH_BY_MODEL, DAYS,
        )
    }
)  # fmt: skip
