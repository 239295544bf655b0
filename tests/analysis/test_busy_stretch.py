"""Ends of the busy stretch of a log: found by its samples, with an interval that holds where the work began and ended."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.device.busy_stretch import stretches

IDLE_W, GAP_S = 3.0, 0.003


def made(
    seed: int, spacing_s: float, *, steps: int = 60, growth: float = 0.0, noise: float = 0.01,
    lead_s: float = 2.0,
) -> tuple[np.ndarray, np.ndarray, float, float]:  # fmt: skip
    """Means over each interval of a program of operations at 4 to 20 W with pauses, and its true begin and end."""
    random = np.random.default_rng(seed)
    count = 12
    lengths, powers = random.uniform(0.05, 0.5, count), random.uniform(4, 20, count)
    at, edges, watts = lead_s, [0.0], []
    for step in range(steps):
        for length, power in zip(lengths * random.uniform(0.9, 1.1), powers, strict=True):
            watts += [IDLE_W, power * (1 + growth * step / steps)]
            edges += [at, at + length]
            at += length + GAP_S
    end = edges[-1]
    edges += [end + lead_s]
    watts += [IDLE_W]
    energy = np.concatenate([[0.0], np.cumsum(np.diff(edges) * watts)])
    times = np.arange(spacing_s + random.uniform(0, spacing_s), edges[-1], spacing_s)
    means = np.diff(np.interp(times, edges, energy)) / spacing_s
    means = means * (1 + noise * random.standard_normal(len(means)))
    return (times[1:] * 1e9).astype(np.int64), means, lead_s, end


@pytest.mark.parametrize("growth", [0.0, 1.0])
@pytest.mark.parametrize("spacing_s", [0.01, 0.1])
@pytest.mark.parametrize("seed", range(6))
def test_the_interval_of_its_ends_holds_the_truth(
    seed: int, spacing_s: float, growth: float
) -> None:
    t_ns, watts, begin, end = made(seed, spacing_s, growth=growth, lead_s=max(2.0, 50 * spacing_s))
    found = stretches(t_ns, watts)
    assert found.begin is not None
    assert found.end is not None
    assert found.begin.first * 1e-9 <= begin <= found.begin.last * 1e-9
    assert found.end.first * 1e-9 <= end <= found.end.last * 1e-9
    best = (found.end.best - found.begin.best) * 1e-9
    assert best == pytest.approx(end - begin, abs=1.0 + 3 * spacing_s)


def test_with_idle_samples_for_a_second_only_its_ends_are_known_to_samples() -> None:
    t_ns, watts, begin, end = made(1, 0.01, lead_s=1.2)
    found = stretches(t_ns, watts)
    assert found.before is None  # too short for a figure of its own
    assert found.begin is not None
    assert found.end is not None
    assert found.begin.first * 1e-9 <= begin <= found.begin.last * 1e-9
    assert found.end.first * 1e-9 <= end <= found.end.last * 1e-9
