"""Training on a Jetson TX2, predicted for families of networks that the fit has not seen.

    python benchmarks/predict_tx2.py REFERENCE [--cache FOLDER] [--write FILE.toml]

REFERENCE holds `tx2-training-pruned.csv` and `tx2-pruned-layers.csv`: three families of networks at 13
levels of pruning, measured on the board. Values of the kinds of operations are fitted to two families
and judged on the third, each in turn; then to all three, for the device's file.
`tx2_networks.py` reads the reference, `tx2_fit.py` fits and judges; here it is printed and written.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from tx2_fit import (
    GUESSED,
    KERNELS_SEEN,
    PRIORS,
    Misses,
    fit,
    fit_system,
    judge,
    reaches_of,
    values_of,
)
from tx2_networks import (
    FAMILIES,
    MIB,
    PASCAL,
    PASCAL_BANDWIDTH,
    PASCAL_PEAK,
    Network,
    load,
    load_pascal,
)
from wattstep import devices
from wattstep.predict.memory import fit_probability
from wattstep.predict.time import kernel_seconds

INTERVALS: Final = {
    "step time": "step_time",
    "allocated": "allocated",
    "reserved": "reserved",
    "used by the system": "system",
}
SOURCE: Final = (
    "fitted to raw data of perf4sight (arXiv 2108.05580): ResNet18, MobileNetV2 and SqueezeNet at 13 levels "
    "of pruning, by benchmarks/predict_tx2.py"
)
FITTED: Final = "CNNs of 0.01 to 1.8 GMAC at 224 px, batch 2 to 256, SGD in fp32 on torch 1.6"
SEEN: Final = (
    "published measurement",
    "sides of kernels of the trainings in raw data of perf4sight (arXiv 2108.05580)",
)
READ_OFF: Final = (
    "estimate",
    "usable memory that segments never get: read off the batches that fitted and those that ran out",
)
STAYS_MIB: Final = (
    65  # of usable memory that segments never get: a batch fitted at 6150 MiB, none above
)
LARGE_BATCH: Final = 100  # from here on parameters hardly count in what a sample takes
JUMP: Final = 0.05  # of that, from one batch size to the next
BEGIN: Final = "# What follows is written by benchmarks/predict_tx2.py.\n"


def table(by_family: dict[str, Misses]) -> list[str]:
    """The figures of each family, each predicted by a fit to the other two."""
    lines = [
        "| left out | quantity | cases | median | 90 % | largest | bias | in the 90 % interval |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for family, misses in by_family.items():
        widths = reaches_of([each for name, each in by_family.items() if name != family])
        for quantity, width in widths.items():
            mine = misses.of(quantity)
            off = np.abs(np.expm1(mine)) * 100
            held = np.mean(np.abs(mine) <= width) * 100
            lines.append(
                f"| {family} | {quantity} | {len(mine)} | {np.median(off):.1f} % | {np.quantile(off, 0.9):.1f} % "
                f"| {off.max():.0f} % | {np.expm1(np.median(mine)) * 100:+.1f} % | {held:.0f} % of ±{np.expm1(width) * 100:.0f} % |"
            )
    for quantity in next(iter(by_family.values())).rows:
        off = (
            np.abs(np.expm1(np.concatenate([each.of(quantity) for each in by_family.values()])))
            * 100
        )
        lines.append(
            f"| all three | {quantity} | {len(off)} | {np.median(off):.1f} % | {np.quantile(off, 0.9):.1f} % | {off.max():.0f} % | | |"
        )
    return lines


def pooled(by_family: dict[str, Misses]) -> list[str]:
    """How often 90 % intervals hold, each family's from the misses of the other two."""
    held: dict[str, list[bool]] = defaultdict(list)
    for family, misses in by_family.items():
        widths = reaches_of([each for name, each in by_family.items() if name != family])
        for quantity, width in widths.items():
            held[quantity] += list(np.abs(misses.of(quantity)) <= width)
    return [
        f"90 % intervals of {quantity} hold in {100 * np.mean(each):.0f} % of all cases"
        for quantity, each in held.items()
    ]


def as_recorded(networks: Sequence[Network]) -> list[str]:
    """What of the misses comes from how the source's program counted: it emptied the cache and took means."""
    lines = []
    for family in FAMILIES:
        off = np.array(
            [
                (network.memory(batch).allocated / allocated, network.memory(batch).reserved / reserved,
                 network.recorded(batch)[0] / allocated, network.recorded(batch)[1] / reserved)
                for network in networks
                if network.family == family
                for batch, allocated, reserved in zip(network.batches, network.allocated, network.reserved, strict=True)
                if allocated > 0
            ]
        )  # fmt: skip
        plain = np.abs(off - 1) * 100
        lines.append(
            f"{family}: allocated off by {np.median(plain[:, 0]):.1f} % (90 %: {np.quantile(plain[:, 0], 0.9):.1f} %), counted as "
            f"the source does {np.median(plain[:, 2]):.1f} % ({np.quantile(plain[:, 2], 0.9):.1f} %); reserved "
            f"{np.median(plain[:, 1]):.1f} % ({np.quantile(plain[:, 1], 0.9):.1f} %), {np.median(plain[:, 3]):.1f} % ({np.quantile(plain[:, 3], 0.9):.1f} %)"
        )
    return lines


def other_networks(networks: Sequence[Network]) -> list[str]:
    """Rows of one network whose tensors for a sample jump from batch to batch: they are of two networks."""
    lines = []
    for network in networks:
        known = [
            (batch, allocated / batch / MIB)
            for batch, allocated in zip(network.batches, network.allocated, strict=True)
            if allocated > 0 and batch >= LARGE_BATCH
        ]
        lines += [
            f"{network.family}, {network.pruned} % pruned: {before:.2f} MiB a sample at batch {below}, {after:.2f} at {above}"
            for (below, before), (above, after) in pairwise(known)
            if abs(after / before - 1) > JUMP
        ]
    return lines


def promised(networks: Sequence[Network], device: Any, reaches: dict[str, float]) -> str:
    """Of batches that are said to fit with 98 %, how many ran out."""
    most = device.memory.usable.value - STAYS_MIB * MIB
    said = [
        (network, batch)
        for network in networks
        for batch in [*network.batches, *network.failed]
        if fit_probability(network.memory(batch).reserved, most, reaches["reserved"]) >= 0.98
    ]
    broken = sum(batch in network.failed for network, batch in said)
    return f"of {len(said)} batches said to fit with 98 %, {broken} ran out of memory"


def walls(networks: Sequence[Network], reservable: float) -> list[str]:
    """Batch sizes at which memory runs out: predicted and measured, in steps of the grid."""
    grid = sorted({batch for network in networks for batch in [*network.batches, *network.failed]})
    off: dict[str, list[int]] = defaultdict(list)
    for network in networks:
        if not network.failed:
            continue
        first = min(batch for batch in network.failed if batch > min(network.failed) - 1)
        last = max(network.batches)
        if first < last:  # it failed once and trained with more
            first = next((batch for batch in network.failed if batch > last), first)
        mine = next(
            (batch for batch in grid if network.memory(batch).reserved > reservable), grid[-1] + 1
        )
        steps = (grid.index(mine) if mine in grid else len(grid)) - grid.index(first)
        off[network.family].append(steps)
    return [
        f"memory runs out, {family}: {sum(abs(s) <= 1 for s in steps)} of {len(steps)} within one step of the grid; "
        f"steps off: {steps}"
        for family, steps in off.items()
    ]


def toml(
    logarithms: np.ndarray[Any, Any],
    scatter: np.ndarray[Any, Any],
    systems: Sequence[dict[str, float]],
    reaches: dict[str, tuple[float, float, float]],
) -> str:
    """The fitted values as the device's file has them.

    Args:
        logarithms: Of the values of kinds.
        scatter: Their standard deviations.
        systems: Values of memory: fitted to all families, then without each.
        reaches: Of the intervals, with their ends.
    """
    kinds: dict[str, dict[str, str]] = defaultdict(dict)
    for kind, guessed in GUESSED.items():
        for name, (value, low, high, why) in guessed.items():
            kinds[kind][name] = _value(value, low, high, ("estimate", why))
    for kind, (least, most) in KERNELS_SEEN.items():
        kinds[kind] |= {
            "least_kernel": _value(least, least, least, SEEN),
            "most_kernel": _value(most, most, most, SEEN),
        }
    for (_, _, places), logarithm, deviation in zip(
        PRIORS.values(), logarithms, scatter, strict=True
    ):
        middle, low, high = np.exp(logarithm + 1.645 * deviation * np.array([0, -1, 1]))
        for kind, name in places:
            kinds[kind][name] = _value(middle, low, high)
    for name, value in systems[0].items():
        others = [each[name] for each in systems if each[name] > 0]
        kinds["memory"][name] = _value(value, 0.95 * min(others), 1.05 * max(others))
    stays = (STAYS_MIB * MIB, 0.0, 4 * STAYS_MIB * MIB)
    kinds["memory"]["stays"] = _value(*stays, READ_OFF)
    kinds["interval"] = {name: _value(*ends) for name, ends in reaches.items()}
    lines = [BEGIN.rstrip()]
    for kind, values in kinds.items():
        lines += [
            "",
            f'[kinds."torch-1.6"."{kind}"]',
            f'fitted = "{FITTED}"',
            'basis = "calibration"',
            f'source = "{SOURCE}"',
            *(f"{name} = {value}" for name, value in values.items()),
        ]
    return "\n".join(lines) + "\n"


def _value(value: float, low: float, high: float, other: tuple[str, str] | None = None) -> str:
    ends = f"value = {value:.4g}, low = {low:.4g}, high = {high:.4g}"
    return (
        "{ "
        + (ends if other is None else f'{ends}, basis = "{other[0]}", source = "{other[1]}"')
        + " }"
    )


def main() -> None:
    """Fits, judges and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("reference", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    device = devices.find("jetson-tx2")
    floor = device.floors["torch-1.6"].memory.value
    networks = load(given.reference, given.cache)
    pascal = load_pascal(given.cache)
    by_family: dict[str, Misses] = {}
    for family in FAMILIES:
        seen = [each for each in networks if each.family != family]
        unseen = [each for each in networks if each.family == family]
        values = values_of(fit(seen, device)[0])
        by_family[family] = judge(unseen, values, fit_system(seen, floor), device)
    print("\n".join(table(by_family)))
    whole = list(by_family.values())
    widths = reaches_of(whole)
    reaches = {name: widths[quantity] for quantity, name in INTERVALS.items()}
    of_families = {
        name: [float(np.quantile(np.abs(each.of(quantity)), 0.9)) for each in whole]
        for quantity, name in INTERVALS.items()
    }
    print("half of the 90 % interval, in logarithms:", {k: round(v, 3) for k, v in reaches.items()})
    for only in (True, False):
        off = [
            abs(np.expm1(miss)) * 100
            for each in whole
            for network, _, miss in each.rows["step time"]
            if (network.pruned == 0) is only
        ]
        print(
            f"step time, {'unpruned' if only else 'pruned'}: median {np.median(off):.1f} %, largest {max(off):.0f} %"
        )
    logarithms, scatter = fit(networks, device)
    whole_values = values_of(logarithms)
    for (name, published), (work, _) in zip(PASCAL.items(), pascal, strict=True):
        kernels = kernel_seconds(work, whole_values, peak=PASCAL_PEAK, bandwidth=PASCAL_BANDWIDTH)
        print(f"Pascal Titan X, {name}: {kernels.sum() * 1e3:.1f} ms for {published} ms")
    print("\n".join(pooled(by_family)))
    print(promised(networks, device, reaches))
    print("\n".join(walls(networks, device.memory.usable.value - STAYS_MIB * MIB)))
    print("\n".join(as_recorded(networks)))
    print("\n".join(other_networks(networks)))
    seen_too = judge(networks, values_of(logarithms), fit_system(networks, floor), device)
    for quantity in seen_too.rows:
        off = np.abs(np.expm1(seen_too.of(quantity))) * 100
        print(
            f"fitted to all: {quantity}: median {np.median(off):.1f} %, largest {off.max():.0f} %"
        )
    for (name, (prior, spread, _)), logarithm, deviation in zip(
        PRIORS.items(), logarithms, scatter, strict=True
    ):
        print(
            f"{name:24} {np.exp(logarithm):10.4g} x/÷ {np.exp(1.645 * deviation):.2f}  prior {prior:g} ({(logarithm - np.log(prior)) / spread:+.1f})"
        )
    system = fit_system(networks, floor)
    print({name: round(value / MIB, 2) for name, value in system.items()})
    if given.write is not None:
        before, _, _ = given.write.read_text().partition(BEGIN)
        systems = [
            system,
            *(
                fit_system([n for n in networks if n.family != family], floor)
                for family in FAMILIES
            ),
        ]
        ends = {
            name: (value, min(of_families[name]), max(value, *of_families[name]))
            for name, value in reaches.items()
        }
        made = toml(logarithms, scatter, systems, ends)
        given.write.write_text(before.rstrip() + "\n\n" + made)


if __name__ == "__main__":
    main()
