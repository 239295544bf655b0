"""Which samples are held out: never trained on, so that a model can be judged by them."""

from __future__ import annotations

from wattstep.workloads.data.samples import Array

Pairs = tuple[Array, Array]


def split_last_tenth(inputs: Array, targets: Array) -> tuple[Pairs, Pairs]:
    """Samples to train on, and the last tenth of them (rounded down) to judge by."""
    kept = len(inputs) - len(inputs) // 10
    return (inputs[:kept], targets[:kept]), (inputs[kept:], targets[kept:])


def split_every_fifth(inputs: Array, targets: Array) -> tuple[Pairs, Pairs]:
    """Samples to train on, and every fifth of them (the 5th, the 10th ...) to judge by."""
    training = [n for n in range(len(inputs)) if n % 5 != 4]
    return (inputs[training], targets[training]), (inputs[4::5], targets[4::5])
