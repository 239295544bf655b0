"""What trainings share of the error of a prediction: on one device, of one network, at batch sizes near to each other.

    python benchmarks/shared_errors.py REFERENCE [--cache FOLDER]

What `wattstep predict --like RUN` takes one training to say of another (`wattstep.predict.like`) comes from
here: products of the misses of two trainings, which neither's fit had seen, over their mean square.
Misses are those of `predict_tx2.py` (families left out), of the table of docs/predict-here.md (workloads
left out), of `predict_sd855.py` (networks left out; its setups are devices of one kind), and the published
times of a Pascal Titan X, a device that has the TX2's values. Power is that of `energy_emulated.py`, as
docs/predict.md has it.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from scipy.optimize import least_squares

import predict_sd855
from predict_tx2 import INTERVALS
from tx2_fit import fit, fit_system, judge, values_of
from tx2_networks import (
    FAMILIES,
    PASCAL,
    PASCAL_BANDWIDTH,
    PASCAL_PEAK,
    load,
    load_pascal,
)
from wattstep import devices
from wattstep.predict.like import CALIBRATED, OF_KIND, Miss, Sharing, correction, error_of
from wattstep.predict.time import kernel_seconds
from wattstep.train.calibration.fitting import LEAST_REACH

DOCS: Final = Path(__file__).parent.parent / "docs"
LEAST_PAIRS: Final = 10  # of a ratio of batch sizes
RECORDED: Final = 16  # batch size of the run that a prediction learns from

# Group (family, workload), network, batch size, logarithm of predicted over measured.
Row = tuple[str, str, int, float]


def mean_square(rows: Sequence[Row]) -> float:
    """Of the misses, each group counting as much as another."""
    groups: dict[str, list[float]] = defaultdict(list)
    for group, _, _, miss in rows:
        groups[group].append(miss * miss)
    return float(np.mean([np.mean(each) for each in groups.values()]))


def between_groups(rows: Sequence[Row]) -> float:
    """Mean product of the misses of two groups, over their mean square."""
    groups: dict[str, list[float]] = defaultdict(list)
    for group, _, _, miss in rows:
        groups[group].append(miss)
    means = [float(np.mean(each)) for each in groups.values()]
    return float(np.mean([a * b for a, b in combinations(means, 2)])) / mean_square(rows)


def by_ratio(rows: Sequence[Row]) -> dict[float, tuple[float, int]]:
    """Correlation of the misses of one network at two batch sizes, and of how many pairs, by their ratio.

    Ratios are rounded to powers of the square root of 2.
    """
    networks: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for group, network, batch, miss in rows:
        networks[group, network].append((batch, miss))
    pairs: dict[float, list[tuple[float, float]]] = defaultdict(list)
    for cases in networks.values():
        for (small, one), (large, other) in combinations(sorted(cases), 2):
            ratio = 2.0 ** (round(2 * np.log2(large / small)) / 2)
            pairs[ratio].append((one, other))
    return {
        ratio: (correlation(np.array(each)), len(each))
        for ratio, each in sorted(pairs.items())
        if len(each) >= LEAST_PAIRS
    }


def correlation(pairs: np.ndarray[Any, Any]) -> float:
    """Of misses, whose mean is taken to be 0; shape (n, 2)."""
    one, other = pairs.T
    return float((one @ other) / np.sqrt((one @ one) * (other @ other)))


def fading(
    correlations: dict[float, tuple[float, int]], device: float = 0.0
) -> tuple[float, float]:
    """Correlation of one network's own errors at one batch size (1 at most), and the power of the ratio with which it falls.

    Args:
        correlations: As of `by_ratio`.
        device: Part of the square that is not the network's own.
    """
    ratios = np.array(list(correlations))
    seen, counts = np.array(list(correlations.values())).T

    def residuals(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        made: np.ndarray[Any, Any] = (
            device + (1 - device) * numbers[0] * ratios ** -numbers[1] - seen
        ) * np.sqrt(counts)
        return made

    network, fade = least_squares(residuals, [0.8, 0.3], bounds=([0, 0], [1, 3])).x
    return float(network), float(fade)


def describe(what: str, rows: Sequence[Row], device: float = 0.0) -> None:
    """Prints what trainings share, of which all those on a device share a part that these rows cannot show."""
    correlations = by_ratio(rows)
    network, fade = fading(correlations, device)
    listed = ", ".join(f"{ratio:.3g}: {each:+.2f}" for ratio, (each, _) in correlations.items())
    print(
        f"{what}: {len(rows)} cases, {100 * np.sqrt(mean_square(rows)):.1f} % off (root mean square); common to all groups "
        f"{between_groups(rows):+.2f} of the square; of one network {network:.2f} x ratio^-{fade:.2f}\n  by ratio of batches: {listed}"
    )


def tried(what: str, rows: Sequence[Row], sharing: Sharing, half: float) -> None:
    """Prints how far predictions are off, and how often their intervals hold, with one run of the same network.

    Args:
        what: Quantity, for readers.
        rows: Misses.
        sharing: Of the quantity.
        half: Of the 90 % intervals without a run, as a logarithm.
    """
    networks: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for group, network, batch, miss in rows:
        networks[group, network][batch] = -miss  # measured over predicted
    before, after, halves = [], [], []
    for key, cases in networks.items():
        if RECORDED not in cases:
            continue
        errors = {batch: error_of(key, batch, half, half, sharing) for batch in cases}
        run = [Miss(error=errors[RECORDED], off=cases[RECORDED])]
        for batch in cases.keys() - {RECORDED}:
            made = correction(errors[batch], run, sharing)
            before.append(abs(cases[batch]))
            after.append(abs(cases[batch] - float(np.log(made.factor))))
            halves.append(made.reach)
    off = [100 * np.expm1(np.quantile(each, q)) for each in (before, after) for q in (0.5, 0.9)]
    held = 100 * np.mean(np.array(after) <= halves)
    print(
        f"  with a run of the network at batch {RECORDED}: {len(after)} others off by {off[2]:.1f} % in the median, 90 % by {off[3]:.1f} % "
        f"({off[0]:.1f} % and {off[1]:.1f} % without); intervals of ±{100 * np.expm1(np.median(halves)):.0f} % hold in {held:.0f} % ({what}; "
        f"without ±{100 * np.expm1(half):.0f} % in {100 * np.mean(np.array(before) <= half):.0f} %)"
    )


def tx2(reference: Path, cache: Path | None) -> dict[str, list[Row]]:
    """Misses of each family by a fit to the other two, by quantity."""
    device = devices.find("jetson-tx2")
    floor = device.floors["torch-1.6"].memory
    assert floor is not None
    networks = load(reference, cache)
    rows: dict[str, list[Row]] = defaultdict(list)
    for family in FAMILIES:
        seen = [each for each in networks if each.family != family]
        unseen = [each for each in networks if each.family == family]
        misses = judge(
            unseen, values_of(fit(seen, device)[0]), fit_system(seen, floor.value), device
        )
        for quantity, each in misses.rows.items():
            rows[quantity] += [
                (family, f"{network.pruned}", batch, miss) for network, batch, miss in each
            ]
    return rows


def here() -> dict[str, list[Row]]:
    """Misses of each workload by a fit to the others, from the table of docs/predict-here.md."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for line in (DOCS / "predict-here.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 10 and cells[1].isdigit():
            name, batch = cells[0], int(cells[1])
            for quantity, measured, predicted in (
                ("memory of the process", cells[2], cells[3]),
                ("step time", cells[7], cells[8]),
            ):
                miss = float(np.log(_number(predicted) / _number(measured)))
                rows[quantity].append((name, name, batch, miss))
    return rows


def emulated() -> list[Row]:
    """Ends of the misses of power of each board, from the table of docs/predict.md; groups are boards."""
    text = (DOCS / "predict.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| (\S+) \| \S+ W \| .* W \| (\S+) to (\S+) % \|$", text, re.MULTILINE)
    return [
        (board, end, 16, float(np.log1p(float(number) / 100)))
        for board, *ends in found
        for end, number in zip(("low", "high"), ends, strict=True)
    ]


def setups(reference: Path) -> tuple[float, float]:
    """Of MNN's step times: standard deviation of what phones and cores have in common, and of the misses.

    Each network's mean is taken off first: it is the network's, not a phone's.
    """
    cases = predict_sd855.load(reference)
    misses: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in predict_sd855.MAKERS:
        values = predict_sd855.fitted([case for case in cases if case.network != name])
        mine = [case for case in cases if case.network == name]
        for case, miss in zip(
            mine, predict_sd855.misses_of(mine, *values)["step time"], strict=True
        ):
            misses[name][case.setup].append(float(miss))
    one, other = ({setup: np.mean(own) for setup, own in each.items()} for each in misses.values())
    both = sorted(set(one) & set(other))
    first, second = (np.array([each[name] for name in both]) for each in (one, other))
    common = float((first - first.mean()) @ (second - second.mean())) / (len(both) - 1)
    whole = [miss for each in misses.values() for own in each.values() for miss in own]
    return float(np.sqrt(max(0.0, common))), float(np.sqrt(np.mean(np.square(whole))))


def pascal(cache: Path | None) -> list[Row]:
    """Misses of published times of a card that takes the TX2's values."""
    device = devices.find("jetson-tx2")
    kinds = device.kinds["torch-1.6"]
    values = {
        kind: {key: value.value for key, value in each.values.items()}
        for kind, each in kinds.items()
    }
    rows = []
    for (name, published), (work, _) in zip(PASCAL.items(), load_pascal(cache), strict=True):
        seconds = kernel_seconds(work, values, peak=PASCAL_PEAK, bandwidth=PASCAL_BANDWIDTH).sum()
        rows.append((name, name, 16, float(np.log(1e3 * seconds / published))))
    return rows


def _number(text: str) -> float:
    return float(text.split()[0].replace(",", ""))


def main() -> None:
    """Prints what trainings share, of each source."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("reference", type=Path)
    parser.add_argument("--cache", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for quantity, rows in here().items():
        describe(f"this machine's CPU, {quantity}", rows)
        name = "step_time" if quantity == "step time" else "system"
        half = float(np.quantile(np.abs([miss for *_, miss in rows]), 0.9))
        tried(quantity, rows, CALIBRATED[name], max(half, LEAST_REACH[name]))
    boards = emulated()
    own = np.mean([(a[3] - b[3]) ** 2 / 2 for a, b in zip(boards[::2], boards[1::2], strict=True)])
    print(
        f"emulated boards, power: {1 - own / mean_square(boards):.2f} of the square is common to the trainings of a board"
    )
    common, whole = setups(given.reference)
    print(
        f"Snapdragon 855, step time: setups share {100 * common:.1f} %, of {100 * whole:.1f} % (root mean square)"
    )
    card = pascal(given.cache)
    print(
        f"Pascal Titan X with the TX2's values: {len(card)} networks, common to all {between_groups(card):+.2f} of the square"
    )
    interval = devices.find("jetson-tx2").kinds["torch-1.6"]["interval"]
    for quantity, rows in tx2(given.reference, given.cache).items():
        name = INTERVALS[quantity]
        device = OF_KIND[name].device if name in OF_KIND else 0.0
        describe(f"Jetson TX2, {quantity}", rows, device)
        if name in OF_KIND:
            tried(quantity, rows, OF_KIND[name], interval.values[name].value)


if __name__ == "__main__":
    main()
