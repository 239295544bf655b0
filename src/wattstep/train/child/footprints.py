"""Measures footprints in fresh child processes, so that what one needs is not added to the next."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace

from wattstep.errors import RecordingError, WattstepError, error_of
from wattstep.schema.processes import (
    ChildNews,
    ends_with_us,
    obey_ctrl_c_once,
    refusal_news,
)
from wattstep.train.child.child import Ending, GuardedChild, tail
from wattstep.train.child.limits import Cage, MemoryLimit, enforced
from wattstep.train.child.verdict import judge
from wattstep.train.child.watchdog import find_watchdog
from wattstep.train.memory.life import FootprintSettings, Life, LifeNews, Stage, measure


@dataclass(kw_only=True)
class News:
    """News of a child so far.

    Attributes:
        stage: The one that it began last.
        life: Its findings up to then.
    """

    stage: str = "framework"
    life: Life = field(default_factory=lambda: Life(about={}, stages=()))

    def take(self, news: LifeNews) -> None:
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
        settings: The training.
        on_stage: Told the name of each stage when it begins.
        limit: How much memory it may have; see `limits.find_limit`.

    Returns:
        What was found; a child for which memory ran out is a result, too.

    Raises:
        WattstepError: The child failed, or ended in any other way.
        KeyboardInterrupt: The user stopped it.
        Terminated: SIGTERM or SIGHUP came.
    """
    news_so_far, began_s = News(), time.monotonic()

    def hear(news: LifeNews) -> None:
        news_so_far.take(news)
        if "stage" in news:
            on_stage(news_so_far.stage)

    arguments = [json.dumps(asdict(settings))]
    with tempfile.TemporaryFile() as output, enforced(limit) as cage:
        child = GuardedChild(
            "wattstep.train.child.footprints:main",
            arguments,
            cage,
            output=output,
            ends_with_us=True,
            watchdog=find_watchdog(settings.processor),
        )
        with ends_with_us(child.process):
            ending = child.follow(hear)
        return conclude(news_so_far, ending, cage, tail(output), began_s)


def conclude(news: News, ending: Ending, cage: Cage, output: str, began_s: float) -> Life:
    """Life of a training, with the stage in which memory ran out.

    Args:
        news: The child's news.
        ending: How it ended.
        cage: Its limit, before it is removed.
        output: Its output.
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
        failed = Stage(name=news.stage, failed=words)
        return replace(news.life, stages=(*news.life.stages, failed))
    if ending.error is not None:
        raise error_of(ending.document(), ending.error)
    if status != "trained":
        raise RecordingError(
            f"measuring came to no end in the stage {news.stage!r}: {reason}", id="measuring-ended"
        )
    return news.life


def main() -> int:
    """Entry of the child process: the descriptor for news, and the settings."""
    obey_ctrl_c_once()
    news = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1)

    def say(document: LifeNews | ChildNews) -> None:
        news.write(json.dumps(document) + "\n")

    try:
        measure(FootprintSettings(**json.loads(sys.argv[2])), say)
    except WattstepError as error:
        say(refusal_news(error))
        return 2
    return 0
