"""Measures footprints in fresh child processes, so that what one needs is not added to the next."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from wattstep.errors import RecordingError, WattstepError
from wattstep.fleet.child import Ending, GuardedChild, tail
from wattstep.fleet.limits import Cage, MemoryLimit, enforced
from wattstep.fleet.verdict import judge
from wattstep.footprint.life import FootprintSettings, Life, Stage, measure
from wattstep.processes import ends_with_us


@dataclass(kw_only=True)
class Told:
    """What a child has said so far.

    Attributes:
        stage: The one that it began last.
        life: What it had found then.
    """

    stage: str = "framework"
    life: Life = field(default_factory=lambda: Life(about={}, stages=()))

    def take(self, news: dict[str, Any]) -> None:
        """Keeps what one line says."""
        self.stage = news.get("stage", self.stage)
        if "life" in news:
            self.life = Life.from_dict(news["life"])


def measure_in_child(
    settings: FootprintSettings,
    on_stage: Callable[[str], None],
    limit: MemoryLimit | None = None,
) -> Life:
    """Measures in a child process.

    Args:
        settings: What.
        on_stage: Told the name of each stage when it begins.
        limit: How much memory it may have; see `limits.find_limit`.

    Returns:
        What was found; a child for which memory ran out is a result, too.

    Raises:
        WattstepError: What the child says is wrong, or that it ended in any other way.
        KeyboardInterrupt: The user stopped it.
    """
    told, began_s = Told(), time.monotonic()

    def hear(news: dict[str, Any]) -> None:
        told.take(news)
        if "stage" in news:
            on_stage(told.stage)

    arguments = [json.dumps(asdict(settings))]
    with tempfile.TemporaryFile() as output, enforced(limit) as cage:
        child = GuardedChild(
            "wattstep.fleet.footprints:main", arguments, cage, output=output, ends_with_us=True
        )
        with ends_with_us(child.process):
            ending = child.follow(hear)
        return conclude(told, ending, cage, tail(output), began_s)


def conclude(told: Told, ending: Ending, cage: Cage, output: str, began_s: float) -> Life:
    """What was found, with the stage in which memory ran out.

    Args:
        told: What the child had said.
        ending: How it ended.
        cage: What bounded it, before it is removed.
        output: What it wrote.
        began_s: Monotonic time at which it was started.

    Raises:
        WattstepError: It ended in any other way.
        KeyboardInterrupt: The user stopped it.
    """
    status, reason, evidence = judge(ending, cage, output, began_s, when="")
    if status == "interrupted":
        raise KeyboardInterrupt
    if status == "out of memory":
        words = reason if evidence.said is None else f"{reason} ({evidence.said})"
        failed = Stage(name=told.stage, failed=words)
        return replace(told.life, stages=(*told.life.stages, failed))
    if ending.error is not None:
        raise WattstepError(ending.error)
    if status != "trained":
        raise RecordingError(f"measuring came to no end in the stage {told.stage!r}: {reason}")
    return told.life


def main() -> int:
    """Entry of the child process: the descriptor for news, and the settings."""
    news = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1)

    def say(document: dict[str, Any]) -> None:
        news.write(json.dumps(document) + "\n")

    try:
        measure(FootprintSettings(**json.loads(sys.argv[2])), say)
    except WattstepError as error:
        say({"error": str(error), "kind": type(error).__name__})
        return 2
    return 0
