"""Choice of held-out samples: never trained on, so that a model can be judged by them."""

from __future__ import annotations

from wattstep.workloads.data.samples import Array

Pairs = tuple[Array, Array]


def split_last_tenth(inputs: Array, targets: Array) -> tuple[Pairs, Pairs]:
    """Samples to train on, and the last tenth of them (rounded down) to judge by."""
    count = len(inputs) - len(inputs) // 10
    return (inputs[:count], targets[:count]), (inputs[count:], targets[count:])


def split_every_fifth(inputs: Array, targets: Array) -> tuple[Pairs, Pairs]:
    """Samples to train on, and every fifth of them (the 5th, the 10th ...) to judge by."""
    training = [n for n in range(len(inputs)) if n % 5 != 4]
    return (inputs[training], targets[training]), (inputs[4::5], targets[4::5])
