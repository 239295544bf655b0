"""Arguments of somebody's script as a run keeps them: runs get shared, and paths, names and secrets do not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

LEFT_OUT: Final = "..."
_OPTION: Final = re.compile(r"--?[A-Za-z][\w.-]*")
_NUMBER: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_SECRET: Final = re.compile("key|token|secret|pass|pin|auth|cred|user|account|login", re.IGNORECASE)


def shareable(arguments: Sequence[str]) -> str:
    """Names of options, and values that are numbers; each other value as three dots.

    Args:
        arguments: Of the script.
    """
    words: list[str] = []
    option = ""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if _OPTION.fullmatch(name):
            option = name
            words.append(name + equals + (_value(value, name) if equals else ""))
        elif (word := _value(argument, option)) != LEFT_OUT or words[-1:] != [LEFT_OUT]:
            words.append(word)
    return " ".join(words)


def _value(text: str, option: str) -> str:
    return text if _NUMBER.fullmatch(text) and not _SECRET.search(option) else LEFT_OUT
