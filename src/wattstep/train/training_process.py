"""The child process that trains: settings come as JSON, what becomes of them goes back as lines of JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from typing import Any

from wattstep import engines
from wattstep.errors import WattstepError
from wattstep.schema.processes import (
    ChildNews,
    obey_ctrl_c_once,
    refusal_news,
    tidied_at_sigterm,
)
from wattstep.train.failing import news_of
from wattstep.train.loop import train
from wattstep.train.settings import TrainingSettings


def main() -> int:
    """Trains by the settings in `sys.argv[2]`; news go to the descriptor in `sys.argv[1]`."""
    obey_ctrl_c_once()
    news = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1)

    def say(document: ChildNews) -> None:
        news.write(json.dumps(document) + "\n")

    def warn(message: Warning | str, *_: Any, **__: Any) -> None:
        say({"warning": str(message)})

    warnings.showwarning = warn
    try:
        settings = TrainingSettings(**json.loads(sys.argv[2]))
        with tidied_at_sigterm():
            recorder = train(
                settings,
                lambda progress: say({"progress": progress.to_dict()}),
                lambda text: say({"warning": text}),
            )
    except SystemExit as ending:
        if (
            ending.code == 128 + signal.SIGTERM
        ):  # the run is closed; whoever runs us sees what ended us
            os.kill(os.getpid(), signal.SIGTERM)
        raise
    except WattstepError as error:
        say(refusal_news(error))
        return 2
    except KeyboardInterrupt:
        return 130
    except (MemoryError, RuntimeError, ImportError, OSError) as error:
        account = engines.find(settings.engine).memory_account
        failure = news_of(error, lambda: account(settings.processor))
        if failure is None:
            raise  # a mistake of ours, with its traceback
        say(failure)
        return 2
    say({"run": str(recorder.path), "problem": recorder.problem})
    return 0
