"""Observation 9, on tensors that were counted and sweeps whose outcomes are known."""

from __future__ import annotations

import pytest
from tests.observations.made import observed
from tests.wording import assert_says, saying

from wattstep.insight.observe import observe
from wattstep.insight.observe.deciding import UNTESTABLE
from wattstep.insight.observe.evidence import Attempt, Evidence, Observed
from wattstep.insight.observe.observation import Observation
from wattstep.schema.figure import counted


def followed(batch: int, **sizes: float) -> Observed:
    table = {name: counted(size, "B", "tensors") for name, size in sizes.items()}
    return observed("densenet40", batch, {"memory_highest": table})


def attempts(trained: list[int], failed: list[int], workload: str = "vgg16") -> list[Attempt]:
    return [
        Attempt(
            sweep="sweep", family=(workload, 1), workload=workload, batch_size=batch,
            status=status, limit="8 GiB",
        )
        for status, sizes in (("trained", trained), ("out of memory", failed))
        for batch in sizes
    ]  # fmt: skip


def found(runs: list[Observed], tried: list[Attempt] | None = None) -> Observation:
    return next(observe(Evidence(runs=runs, attempts=tried or []), ["9"]))


FIXED = {"parameters": 4e6, "gradients": 4e6, "optimizer_state": 4e6}
DENSENET = [
    followed(4, feature_maps=2.0e9, workspace=0.2e9, input=5e4, **FIXED),
    followed(64, feature_maps=5.5e9, workspace=0.4e9, input=8e5, **FIXED),
]


def test_the_papers_densenet_holds_where_a_larger_batch_did_not_fit() -> None:
    """Intermediate data 2.2 to 5.9 GB, all else as it was; batch 128 runs out of memory."""
    one = found(DENSENET, attempts([4, 64], [128, 256]))
    figures = one.cases[0].figures()
    assert one.verdict == "holds"
    assert figures["growth"].value == pytest.approx(5.9 / 2.2)
    assert figures["fixed_growth"].value == 1.0
    assert figures["growth_share"].value == pytest.approx(3.7e9 / (3.7e9 + 7.5e5))
    assert figures["input_growth"].value == pytest.approx(16)
    assert one.status.value == "counted"
    assert_says(" ".join(one.sentences), "input", "16 times")


@pytest.mark.parametrize(
    "large",
    [
        {"parameters": 8e6, "feature_maps": 16e6, "input": 1e4},  # the rest grows, too
        {"parameters": 4e6, "feature_maps": 1e6, "input": 1e4},  # intermediate data do not grow
        {"parameters": 4e6, "feature_maps": 2e6, "input": 9e6},  # the input decides
    ],
)
def test_what_grows_otherwise_does_not_hold(large: dict[str, float]) -> None:
    runs = [followed(4, parameters=4e6, feature_maps=1e6, input=1e4), followed(64, **large)]
    assert found(runs).verdict == "does not hold"


def test_runs_that_were_not_followed_and_one_batch_cannot_be_tested() -> None:
    assert_says(found([observed(batch=4), observed(batch=64)]).sentences[0], "no step", "followed")
    one = found([followed(4, parameters=1.0, feature_maps=2.0)])
    assert "one batch size" in one.sentences[0].lower()
    assert found([]).verdict == UNTESTABLE


def test_where_nothing_failed_to_fit_nothing_was_decided() -> None:
    for tried in ([], attempts([4, 64], [])):
        one = found(DENSENET, tried)
        assert one.verdict == "undecided"
        assert "wattstep sweep" in one.advice
        assert one.cases[0].verdict == "holds"


def test_intermediate_data_that_hardly_grow_do_not_hold() -> None:
    """By 10 % over 16 times the batch: half of the paper's exponent would be 64 %."""
    runs = [followed(4, feature_maps=2.0e9, **FIXED), followed(64, feature_maps=2.2e9, **FIXED)]
    assert found(runs, attempts([4], [64])).verdict == "does not hold"


def test_a_sweep_alone_says_where_it_ends_and_not_what_decides() -> None:
    one = found([], attempts([1, 4], [64, 128]))
    assert one.verdict == "undecided"
    assert "memory by category" in one.advice
    assert saying(one.notes, "batch 4 trains", "8 GiB", "batch 64 runs")


def test_a_larger_batch_that_fits_where_a_smaller_one_did_not_does_not_hold() -> None:
    assert found([], attempts([64], [4])).verdict == "does not hold"


def test_sweeps_in_which_all_or_nothing_fits_do_not_tell() -> None:
    everything = found([], attempts([1, 4, 64], []))
    assert everything.verdict == UNTESTABLE
    assert "every batch size" in everything.sentences[0].lower()
    nothing = found([], attempts([], [1, 4]))
    assert nothing.verdict == UNTESTABLE
