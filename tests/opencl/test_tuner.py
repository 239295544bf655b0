"""The search finds the fastest, passes over what fails, and never chooses what is slower than an untuned kernel."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import pytest
from tests.opencl.conftest import made_device
from tests.refusals import refused

from wattstep.errors import DeviceFaultError
from wattstep.opencl.config import BLOCKED, NAIVE, PACKED, REGISTERS, Config
from wattstep.opencl.device import Device, Opened
from wattstep.opencl.tuner import UNTUNED, Outcome, Search, Tuning, neighbours
from wattstep.schema.figure import Missing

SHAPE = (256, 256, 256)
BEST = Config(kind=BLOCKED, x=16, y=4, rows=8, vectors=2, width=4, depth=8)


def distance(config: Config) -> float:
    """Steps along ladders from `BEST`, as powers of two; another kind is far."""
    if config.kind != BEST.kind:
        return 20.0
    names = ("x", "y", "rows", "vectors", "width", "depth")
    return sum(abs(math.log2(getattr(config, name) / getattr(BEST, name))) for name in names)


@dataclass
class Made:
    """A bench whose times are worked out.

    Attributes:
        wrong: Those that compute something else.
        drifts: By what the times grow from one to the next.
        late: Those whose times are these in the final round, whatever they were before.
    """

    wrong: set[str] = field(default_factory=set)
    drift: float = 0.0
    late: dict[Config, float] = field(default_factory=dict)
    checked: list[Config] = field(default_factory=list)
    open: set[Config] = field(default_factory=set)
    timed: int = 0

    def check(self, config: Config) -> None:
        if config.kind in self.wrong:
            raise DeviceFaultError(f"{config} computes 3 of 4 elements wrong", id="opencl-wrong")
        self.checked.append(config)
        self.open.add(config)

    def seconds(self, config: Config) -> float:
        self.timed += 1
        if config in self.late and config not in self.open:  # it was closed when it was screened
            return self.late[config]
        return (1.0 + distance(config)) * (1.0 + self.drift * self.timed)

    def close(self, config: Config) -> None:
        self.open.discard(config)


def search(bench: Made, device: Device, **settings: object) -> Tuning:
    return Search(device, SHAPE, bench, **settings).run()  # type: ignore[arg-type]


def test_the_best_of_a_valley_is_found_step_by_step(device: Device) -> None:
    bench = Made()
    tuning = search(bench, device)
    assert tuning.config == BEST
    assert tuning.median == 1.0
    assert len(tuning.outcomes) < 100  # of more than 100,000
    assert bench.open == set()


def test_a_machine_that_slows_down_does_not_decide(device: Device) -> None:
    # A whole time longer every hundred timings: in turns all are hit alike.
    assert search(Made(drift=0.01), device).config == BEST


def test_the_untuned_that_turn_out_fastest_are_chosen(device: Device) -> None:
    # Whatever screening said: in the final round the textbook's blocked kernel takes half a second.
    assert search(Made(late={UNTUNED[2]: 0.5}), device).config == UNTUNED[2]


def test_all_untuned_that_run_are_in_the_final_round(device: Device) -> None:
    tuning = search(Made(wrong={"tiled"}), device)
    fitting = {config for config in UNTUNED if config.kind != "tiled"}
    assert fitting <= set(tuning.seconds)
    assert tuning.median <= min(sorted(tuning.seconds[c])[0] for c in fitting)


def test_what_computes_wrong_is_passed_over_with_its_reason(device: Device) -> None:
    tuning = search(Made(wrong={BLOCKED, PACKED}), device)
    assert tuning.config.kind in {NAIVE, "tiled", REGISTERS}
    assert {config.kind for config in tuning.failures} == {BLOCKED, PACKED}
    assert all("wrong" in reason for reason in tuning.failures.values())


def test_where_nothing_runs_that_is_refused(device: Device) -> None:
    bench = Made(wrong={NAIVE, "tiled", BLOCKED, REGISTERS, PACKED})
    with refused("opencl-no-kernel", device.name, "wrong"):
        search(bench, device)


def test_it_stops_when_it_was_long_enough(device: Device) -> None:
    tried = itertools.count()
    tuning = search(Made(), device, enough=lambda: next(tried) >= 3)
    seeds = len(search(Made(), device, enough=lambda: True).outcomes)
    assert seeds < len(tuning.outcomes) <= seeds + 3


def test_what_was_tried_before_is_not_tried_again(device: Device) -> None:
    crashed, slow = UNTUNED[1], UNTUNED[0]
    before: dict[Config, Outcome] = {crashed: Missing("killed"), slow: 21.0}
    seen: list[Config] = []
    tuning = search(Made(), device, outcomes=before, on_candidate=seen.append)
    assert crashed not in seen
    assert crashed not in tuning.seconds
    assert tuning.failures[crashed] == "killed"


def test_candidates_keep_to_the_device() -> None:
    small = made_device(largest_group=64, group_sizes=(64, 64), local_memory=4096)
    for config in search(Made(), small).outcomes:
        config.check(small)


@pytest.mark.parametrize("kind", [NAIVE, "tiled", BLOCKED])
def test_neighbours_are_one_step_away(device: Device, kind: str) -> None:
    config = next(config for config in UNTUNED if config.kind == kind)
    around = neighbours(config, device)
    assert config not in around
    assert len(around) == len(set(around)) == {NAIVE: 0, "tiled": 1, BLOCKED: 11}[kind]


@pytest.mark.system  # builds a dozen kernels
def test_a_real_device_is_tuned(opened: Opened) -> None:
    from wattstep.opencl.bench import GemmBench

    bench = GemmBench(opened, (48, 40, 36), trans_a=True, trans_b=False)
    tried = itertools.count()
    allocated = opened.allocated
    tuning = Search(opened.device, (48, 40, 36), bench, enough=lambda: next(tried) >= 4).run()
    assert tuning.failures == {}
    assert tuning.median <= min(sorted(times)[len(times) // 2] for times in tuning.seconds.values())
    assert opened.allocated == allocated
    bench.release()


def test_a_kernel_that_takes_longer_than_there_is_time_is_not_tried(device: Device) -> None:
    bench = Made()
    Search(device, SHAPE, bench, affordable=lambda config: config.kind != NAIVE).run()
    assert NAIVE not in {config.kind for config in bench.checked}
    assert BLOCKED in {config.kind for config in bench.checked}
