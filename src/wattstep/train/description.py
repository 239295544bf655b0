"""What a run's record says of its training before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wattstep import engines, workloads
from wattstep.schema.run_documents import ModelFacts
from wattstep.schema.workload import DataFacts, WorkloadFacts, kind_of
from wattstep.train.environment import surroundings
from wattstep.train.settings import TrainingSettings


def describe_training(
    settings: TrainingSettings,
    *,
    engine: str,
    threads: int | None,
    options: Mapping[str, Any],
    data: DataFacts,
    model: ModelFacts,
) -> dict[str, Any]:
    """Fields of `RunInfo` that are known before a training begins.

    Args:
        settings: The settings.
        engine: With its version.
        threads: Of an operation; None: not known yet.
        options: Of the trainer, as it heeds them.
        data: That it trains on.
        model: Facts of the network.
    """
    facts = workloads.find(settings.workload).facts
    shape = {
        "classes": settings.classes or facts.classes,
        "image_size": settings.image_size or facts.image_size,
        "channels_last": settings.channels_last or None,
        "compiled": settings.compiled or None,
        "policy": settings.policy,
        "exported": None if settings.exported is None else True,
        "optimizer_kernel": settings.optimizer_kernel,
        "interop_threads": settings.interop_threads,
        "cores": settings.cores,
        "allocator": settings.allocator,
        "one_thread": bool(engines.find(settings.engine).one_thread) or None,
        **options,
        **settings.strategies,
        "until": settings.until,
        "governor": settings.governed_by or None,
        "subtract_idle": settings.subtract_idle,
        "exclude": list(settings.excluded) or None,
    }
    return {
        "workload": facts.name,
        "title": facts.title,
        "engine": engine,
        "batch_size": settings.batch_size,
        "threads": threads,
        "precision": settings.precision,
        "processor": kind_of(settings.processor),
        "seed": settings.seed,
        "data": data,
        # What the sensors say of the surroundings is added when they are known.
        "conditions": {
            **surroundings((), settings.ambient, settings.target),
            **({} if settings.cooled is None else {"cooldown": dict(settings.cooled)}),
        },
        "calibration": settings.calibration,
        "model": {**model, **_tokens(facts)},
        "planned": settings.planned or {},
        "asked": settings.asked,
        "options": {
            "accumulate": settings.accumulate,
            "rate_rule": settings.rate_rule,
            **{key: value for key, value in shape.items() if value is not None},
        },
    }


def _tokens(facts: WorkloadFacts) -> dict[str, int]:
    """Of a workload of tokens, how many a sample has."""
    tokens = facts.tokens_per_sample
    return {} if tokens is None else {"tokens_per_sample": tokens}
