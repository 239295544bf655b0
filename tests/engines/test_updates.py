"""Optimizers outside of engines make of weights and gradients what torch's own make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.refusals import refused

from wattstep.engines.exported.updates import Update

torch = pytest.importorskip("torch")

DRAW = np.random.default_rng(1)
WEIGHT = DRAW.normal(size=8)
GRADIENTS = DRAW.normal(size=(5, 8))


@pytest.mark.parametrize(
    ("name", "make", "options", "decay"),
    [
        ("sgd", "SGD", {}, 0.0),
        ("sgd", "SGD", {"momentum": 0.9}, 1e-2),
        ("sgd", "SGD", {"momentum": 0.9, "nesterov": True}, 1e-2),
        ("adam", "Adam", {"betas": (0.5, 0.99)}, 1e-2),
        ("adamw", "AdamW", {"eps": 1e-6}, 0.1),
        ("rmsprop", "RMSprop", {"alpha": 0.9, "eps": 0.03, "momentum": 0.9}, 1e-2),
        ("rmsprop", "RMSprop", {}, 0.0),
    ],
)
def test_five_updates_are_torchs(
    name: str, make: str, options: dict[str, Any], decay: float
) -> None:
    weight = torch.tensor(WEIGHT, requires_grad=True)
    theirs = getattr(torch.optim, make)([weight], lr=0.1, weight_decay=decay, **options)
    update, mine = Update("far", name, options, 0.1), WEIGHT
    states = {state: np.zeros(8) for state in update.states}
    for step, gradient in enumerate(GRADIENTS, start=1):
        weight.grad = torch.tensor(gradient)
        theirs.step()
        mine, states = update(mine, gradient, states, decay, update.scalars(step), np.sqrt)
        np.testing.assert_allclose(mine, weight.detach().numpy(), rtol=1e-12)


def test_what_is_not_made_is_refused_by_name() -> None:
    with refused("optimizer-not-for-engine", "adam8bit", "far"):
        Update("far", "adam8bit", {})
    with refused("optimizer-not-for-engine", "centered"):
        Update("far", "rmsprop", {"centered": True})
    assert Update("far", "sgd", {"dampening": 0}).states == ()
