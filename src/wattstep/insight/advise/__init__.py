"""Advice: one file a piece of it, each with the condition, the evidence and the gain that it should bring."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from wattstep.insight.advise.facts import WORTH
from wattstep.schema.figure import Missing

if TYPE_CHECKING:
    from wattstep.insight.advise.advice import Advice
    from wattstep.insight.advise.facts import Facts

# Each is a function of Facts, in a file of its own, that gives an Advice, or why it is none here.
ADVICE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "prefetch_data": "wattstep.insight.advise.prefetch_data:prefetch_data",
        "more_threads": "wattstep.insight.advise.more_threads:more_threads",
        "fewer_threads": "wattstep.insight.advise.fewer_threads:fewer_threads",
        "quiet_machine": "wattstep.insight.advise.quiet_machine:quiet_machine",
        "larger_batch": "wattstep.insight.advise.larger_batch:larger_batch",
        "fused_optimizer": "wattstep.insight.advise.fused_optimizer:fused_optimizer",
        "zero_gradients": "wattstep.insight.advise.zero_gradients:zero_gradients",
        "bfloat16": "wattstep.insight.advise.bfloat16:bfloat16",
        "channels_last": "wattstep.insight.advise.channels_last:channels_last",
        "feed_the_gpu": "wattstep.insight.advise.feed_the_gpu:feed_the_gpu",
    }
)
# What can be said while threads wait for each other: their waits hide what operations take.
OF_CROWDED: Final = frozenset({"fewer_threads", "quiet_machine"})


def all_advice(facts: Facts) -> dict[str, Advice | Missing]:
    """Each piece of advice for a run, or why it is none."""
    pieces: dict[str, Advice | Missing] = {}
    for name, place in ADVICE.items():
        if facts.cores.crowded and name not in OF_CROWDED:
            pieces[name] = Missing(
                "its threads wait for each other, for want of free cores: other times say little "
                "until they do not"
            )
            continue
        module, _, function = place.partition(":")
        pieces[name] = _worth(getattr(importlib.import_module(module), function)(facts))
    return pieces


def _worth(piece: Advice | Missing) -> Advice | Missing:
    """The piece, if it should save anything; one whose gain only a run can tell stays."""
    if isinstance(piece, Missing):
        return piece
    value, most = piece.gain.value, piece.gain.high or 0.0
    if value is None or value >= WORTH:
        return piece
    return Missing(
        f"{100 * value:.1f} % of a step is what it should save, {100 * most:.0f} % at most: "
        f"{piece.gain.method}"
    )
