"""The first look for delay and window: near enough to the truth for a closer look to get there."""

from __future__ import annotations

import pytest
from benchmarks.made_power import Scenario, make

from wattstep.attribution.regression.axis import axis_of
from wattstep.attribution.regression.folded_search import lasting, look
from wattstep.attribution.regression.observed import observe


@pytest.mark.parametrize(
    ("seed", "scenario"),
    [
        (503, Scenario(period_s=0.050, average_s=0.020, steps=400)),
        (509, Scenario(period_s=0.050, average_s=0.020, steps=400)),
        (502, Scenario(period_s=0.050, average_s=0.070, steps=400)),
        (503, Scenario(period_s=0.100, average_s=0.060, delay_s=0.030, steps=600)),
    ],
)
def test_the_best_guess_is_nearer_than_an_operation_lasts(seed: int, scenario: Scenario) -> None:
    """Windows are neither moments nor from sample to sample, which are tried anyhow."""
    made = make(scenario, seed)
    observed = observe(made.processes, axis_of(made.processes, scenario.kinds))
    best = look(observed, made.kinds, None, None)[0]
    near = lasting(observed)
    assert best.delay == pytest.approx(scenario.delay_s, abs=near)
    assert best.window == pytest.approx(scenario.average_s, abs=near)


def test_nothing_is_guessed_to_be_shown_before_it_was() -> None:
    """Of a counter that is read every 100 ms, no read is more than a hundredth of that early."""
    made = make(Scenario(period_s=0.100, counter=True, steps=600), 505)
    observed = observe(made.processes, axis_of(made.processes, 50))
    guesses = look(observed, made.kinds, None, None)
    assert min(guess.delay for guess in guesses) >= -0.00105
