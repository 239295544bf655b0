"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from wattstep.labeling import AutoLabeler


@parametrize_with_checks([AutoLabeler(candidates=8)])
def test_it_keeps_the_conventions(estimator: AutoLabeler, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_a_clone_has_the_settings_and_nothing_learned() -> None:
    one = AutoLabeler(false_alarm=0.1, memory=50).fit([[0.0], [1.0]], [0, 1])
    other = clone(one)
    assert other.get_params() == one.get_params()
    assert not hasattr(other, "engine_")
