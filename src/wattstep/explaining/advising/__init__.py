"""Advice: one file a piece of it, each with the condition, the evidence and the gain that it should bring."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wattstep.explaining.advising.advice import Advice
    from wattstep.explaining.advising.facts import Facts

# Each is a function of Facts, in a file of its own, that gives an Advice, or why it is none here.
ADVICE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "prefetch_data": "wattstep.explaining.advising.prefetch_data:prefetch_data",
        "more_threads": "wattstep.explaining.advising.more_threads:more_threads",
        "fewer_threads": "wattstep.explaining.advising.fewer_threads:fewer_threads",
        "quiet_machine": "wattstep.explaining.advising.quiet_machine:quiet_machine",
        "larger_batch": "wattstep.explaining.advising.larger_batch:larger_batch",
        "fused_optimizer": "wattstep.explaining.advising.fused_optimizer:fused_optimizer",
        "zero_gradients": "wattstep.explaining.advising.zero_gradients:zero_gradients",
        "bfloat16": "wattstep.explaining.advising.bfloat16:bfloat16",
        "channels_last": "wattstep.explaining.advising.channels_last:channels_last",
        "feed_the_gpu": "wattstep.explaining.advising.feed_the_gpu:feed_the_gpu",
    }
)
# What can be said while threads wait for each other: their waits hide what operations take.
OF_CROWDED: Final = frozenset({"fewer_threads", "quiet_machine"})


def all_advice(facts: Facts) -> dict[str, Advice | str]:
    """Each piece of advice for a run, or why it is none."""
    found: dict[str, Advice | str] = {}
    for name, place in ADVICE.items():
        if facts.cores.crowded and name not in OF_CROWDED:
            found[name] = f"{facts.cores.crowded_words}; other times say little until they do not"
            continue
        module, _, function = place.partition(":")
        found[name] = getattr(importlib.import_module(module), function)(facts)
    return found
