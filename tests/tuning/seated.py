"""A child in place of the one that trains: answers each line at once, with steps and losses that are made up."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

STEP_S = 0.01
BUSY = (
    "BUSY"  # in the environment: a file that it makes when it is asked, and then it never answers
)


def main() -> int:
    """Entry of the child process, as `wattstep.tune.seats:main`."""
    taken = 0
    with os.fdopen(int(sys.argv[1]), "w", buffering=1, encoding="ascii") as news:
        for line in sys.stdin:
            command = json.loads(line)
            if BUSY in os.environ:
                script()
            first = 0 if command["begin"] else taken
            taken = first + command["warm"] + command["steps"]
            answer = {
                "seconds": [STEP_S] * command["steps"],
                "losses": {str(index): 2.0 for index in range(first, taken)},
                "taken": taken - first,
                "memory": 1 << 28,
                "begin_s": 1.0 if command["begin"] else None,
            }
            news.write(json.dumps(answer) + "\n")
    return 0


def script() -> int:
    """Entry of the child process, as `wattstep.tune.script_turn:main`: it never answers."""
    Path(os.environ[BUSY]).touch()
    time.sleep(3600)
    return 1
