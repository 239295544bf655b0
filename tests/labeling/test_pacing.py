"""Labeling beside a foreground job: how far it holds back, by a made clock and a made job."""

from __future__ import annotations

import numpy as np
import pytest
from tests.labeling.made import blobs

from wattstep.labeling import AutoLabeler
from wattstep.labeling.lookup import Found, Index, look_up
from wattstep.labeling.pacing import FRAMES, Pacer
from wattstep.report.labeling_tables import frames as sentences

PERIOD = 1 / 60
X = np.random.default_rng(2).normal(size=(4000, 4)).astype(np.float32)
INDEX = Index(nodes=X[:50], labeled=20, near=10, forests=())


class Machine:
    """A clock, labeling of 0.1 ms a sample, and a job whose frames take 4 ms, and more the more is labeled meanwhile."""

    def __init__(self, delay: float) -> None:
        self.now = self.worked = 0.0
        self.delay = delay  # seconds of a frame, if labeling works all the time
        self.skips = False
        self.sizes: list[int] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def look(self, index: Index, space: np.ndarray, standard: np.ndarray) -> Found:
        self.sizes.append(len(space))
        self.now += 1e-4 * len(space)
        self.worked += 1e-4 * len(space)
        return look_up(index, space, standard)

    def begin(self, count: int) -> None:
        self.begun, self.before, self.count = self.now, self.worked, count

    def done(self) -> bool:
        return self.now >= self.begun + self.count * PERIOD

    def frames(self) -> list[tuple[int, int, int]]:
        busy = (self.worked - self.before) / (self.now - self.begun)
        if self.skips and busy:
            return [(0, -1, -1)] * self.count
        return [(0, 0, round(1e9 * (0.004 + self.delay * busy)))] * self.count


def pacer_on(machine: Machine, budget: float = 0.75e-3) -> Pacer:
    pacer = Pacer(machine, budget, clock=machine.clock, sleep=machine.sleep)
    pacer.look = machine.look
    return pacer


def label_for(machine: Machine, pacer: Pacer, seconds: float) -> None:
    until = machine.now + seconds
    while machine.now < until:
        pacer(INDEX, X[:500], X[:500])


@pytest.mark.parametrize(
    ("delay", "share"),
    # 4 ms at full work: an eighth of it is the first halving within the budget, and above half of it.
    [(0.2e-3, 1.0), (4e-3, 1 / 8), (20e-3, 1 / 32)],
)
def test_as_much_work_as_the_budget_allows(delay: float, share: float) -> None:
    machine = Machine(delay)
    pacer = pacer_on(machine)
    label_for(machine, pacer, 60)
    assert pacer.share == share
    assert pacer.rows == max(512 * share, 16)
    before = len(pacer._beside)
    label_for(machine, pacer, 60)
    late = np.array(list(pacer._beside)[before:]) * 1e-9 - 0.004
    assert late.mean() == pytest.approx(delay * share, rel=0.1)
    assert late.mean() <= 0.75e-3
    assert pacer.report().rested == pytest.approx(1 - share, abs=0.1)


def test_work_grows_again_when_the_job_bears_it() -> None:
    machine = Machine(20e-3)
    pacer = pacer_on(machine)
    label_for(machine, pacer, 20)
    assert pacer.share < 0.1
    machine.delay = 0.1e-3
    label_for(machine, pacer, 60)
    assert (pacer.share, pacer.rows) == (1.0, 512)


def test_skipped_frames_hold_labeling_back() -> None:
    machine = Machine(0)
    machine.skips = True
    pacer = pacer_on(machine)
    label_for(machine, pacer, 60)
    assert pacer.share == 1 / 64
    report = pacer.report()
    assert report.frames["missed_beside"].value == 1.0
    assert report.frames["missed_alone"].value == 0.0
    assert report.kept() is None


def test_what_is_told_of_the_frames() -> None:
    machine = Machine(4e-3)
    pacer = pacer_on(machine)
    label_for(machine, pacer, 200)
    report = pacer.report()
    assert report.frames["alone"].value == pytest.approx(0.004)
    assert report.frames["delay"].value == pytest.approx(0.5e-3, abs=0.1e-3)
    assert report.kept() is True
    assert "budget of 0.75 ms: kept" in sentences(report)[0]
    # One time alone before the first sixteen beside the labeling, and one after each sixteen.
    assert len(pacer._alone) / FRAMES == 1 + len(pacer._beside) / FRAMES // 16
    assert sentences(None) == []


def test_paced_labels_are_the_same() -> None:
    one, other = (AutoLabeler(candidates=8, memory=100).fit(*blobs(30, (0, 1, 2), seed=1)) for _ in range(2))  # fmt: skip
    machine = Machine(20e-3)
    pacer = pacer_on(machine)
    pacer.rows, pacer.share = 16, 1 / 32
    other.engine_.look = pacer
    x, _ = blobs(300, (0, 1, 2, 3), seed=2)
    told, paced = one.partial_label(x), other.partial_label(x)
    assert machine.sizes == [16] * 18 + [12]
    assert (told.probability == paced.probability).all()
    assert (told.p_value == paced.p_value).all()
    assert (told.status == paced.status).all()
