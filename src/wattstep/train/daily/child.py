"""Runs the parts of a daily training in fresh processes, and the entry of those."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wattstep import engines
from wattstep.errors import RecordingError, WattstepError, error_of
from wattstep.schema.processes import (
    LISTEN_EVERY_S,
    ChildNews,
    child_command,
    ending_words,
    ends_with_us,
    listen,
    obey_ctrl_c_once,
    outwait,
    refusal_news,
)
from wattstep.train.child.watchdog import LOOK_EVERY_S, Watchdog, find_watchdog
from wattstep.train.daily.days import train_days
from wattstep.train.daily.folder import DailyFolder
from wattstep.train.daily.labels import label_days
from wattstep.train.daily.pretraining import pretrain
from wattstep.train.failing import news_of

LABELS = "labels"
_GOES_ON = "the days that were done are kept: the same command goes on"
News = Callable[[ChildNews], None]


def train_daily(folder: DailyFolder, sizes: Sequence[int], on_news: News) -> None:
    """Trains what is not done yet: the pre-training once, labels once, then the days of each batch size.

    Raises:
        WattstepError: A part failed.
        KeyboardInterrupt: The user stopped it.
    """
    settings = folder.settings()
    if folder.server() is None:
        run_part(folder, None, on_news, find_watchdog(settings.processor))
    if settings.labels == "auto" and folder.labels() is None:
        run_part(folder, LABELS, on_news, find_watchdog(settings.processor))
    for size in sizes:
        if len(folder.days(size)) <= settings.days:
            run_part(folder, size, on_news, find_watchdog(settings.processor))


def run_part(
    folder: DailyFolder, part: int | str | None, on_news: News, watchdog: Watchdog | None = None
) -> None:
    """Pre-trains, labels the days, or trains them with a batch size, in a child process.

    Args:
        folder: Of the training.
        part: The batch size; `LABELS`; None: the pre-training.
        on_news: Told what the child says.
        watchdog: Ends the child before the machine's memory runs out; None: none is needed.

    Raises:
        WattstepError: The child failed; with its error, or how it ended.
        KeyboardInterrupt: The user stopped it; the days that were done are kept.
        Terminated: SIGTERM or SIGHUP came.
    """
    reading, writing = os.pipe()
    what = json.dumps({"folder": str(folder.path), "part": part})
    try:
        child = subprocess.Popen(
            child_command("wattstep.train.daily.child:main", str(writing), what),
            stdout=sys.stderr,  # what a workload prints must not land in our JSON
            pass_fds=[writing, *([] if folder.lock is None else [folder.lock])],
            env=dict(os.environ),
        )
    finally:
        os.close(writing)
    errors: list[ChildNews] = []
    starved: list[str] = []

    def hear(news: ChildNews) -> None:
        if "error" in news:
            errors.append(news)
        else:
            on_news(news)

    def look(silent_s: float) -> None:
        reason = None if watchdog is None or starved else watchdog.look()
        if reason is not None:
            starved.append(reason)
            child.kill()

    every_s = LISTEN_EVERY_S if watchdog is None else LOOK_EVERY_S
    with ends_with_us(child):
        stopped = listen(reading, hear, look, every_s, lambda: child.send_signal(signal.SIGINT))
        code, late = outwait(child)
    if stopped or late or code == 130:
        raise KeyboardInterrupt
    if starved:
        raise WattstepError(f"{starved[0]}; {_GOES_ON}")
    if errors:
        raise error_of(errors[-1], str(errors[-1]["error"]))
    if code != 0:
        raise RecordingError(f"the training process {ending_words(code)}; {_GOES_ON}")


def main() -> int:
    """Entry of the child: where news goes, and what to do, as JSON."""
    obey_ctrl_c_once()
    news = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1)

    def tell(document: ChildNews) -> None:
        news.write(json.dumps(document) + "\n")

    def warn(message: Warning | str, *_: Any, **__: Any) -> None:
        tell({"warning": str(message)})

    warnings.showwarning = warn
    asked = json.loads(sys.argv[2])
    folder = DailyFolder(Path(asked["folder"]))
    try:
        if asked["part"] is None:
            pretrain(folder.settings(), folder, tell)
        elif asked["part"] == LABELS:
            label_days(folder.settings(), folder, tell)
        else:
            train_days(folder.settings(), folder, asked["part"], tell)
    except WattstepError as error:
        tell(refusal_news(error))
        return 2
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        tell({"error": f"{folder.path} cannot be written: {error.strerror or error}"})
        return 2
    except (MemoryError, RuntimeError) as error:
        account = engines.find(folder.settings().engine).memory_account
        failure = news_of(error, lambda: account(folder.settings().processor))
        if failure is None:
            raise
        tell(failure)
        return 2
    return 0
