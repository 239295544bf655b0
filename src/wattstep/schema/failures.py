"""Failures inside one part of an answer: said in one line and counted, while the other parts go on."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TypeVar

from wattstep.errors import DamagedRunError, WattstepError

STRICT: Final = "WATTSTEP_FAIL_LOUDLY"  # in the environment: what fails is raised; the tests set it
MOST_CHARACTERS: Final = 300
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A part that gave nothing.

    Attributes:
        part: Which: "report: timeline".
        reason: What went wrong, one line.
    """

    part: str
    reason: str

    def document(self) -> dict[str, str]:
        """JSON-ready."""
        return asdict(self)


class Failures:
    """The failed parts of one answer, each once."""

    def __init__(self) -> None:
        self._found: dict[Failure, None] = {}

    def __iter__(self) -> Iterator[Failure]:
        return iter(list(self._found))

    def __len__(self) -> int:
        return len(self._found)

    def guard(self, part: str, work: Callable[[], Result], otherwise: Result) -> Result:
        """Result of some work, or of a substitute where it fails.

        A damaged run is no failure of ours: it concerns all parts, and whoever opened it says so.

        Args:
            part: What it is called.
            work: The work.
            otherwise: What stands in its place.

        Raises:
            DamagedRunError: The work found its run damaged.
        """
        try:
            return work()
        except DamagedRunError:
            raise
        except Exception as error:
            self.add(part, contained(error))
            return otherwise

    def add(self, part: str, reason: str) -> None:
        """Takes note of a part that failed."""
        self._found[Failure(part=part, reason=reason)] = None

    def documents(self) -> list[dict[str, str]]:
        """JSON-ready."""
        return [failure.document() for failure in self]


def contained(error: Exception) -> str:
    """An error that ends one part only, as one line: what, and where in our code.

    This is the one place where a defect is kept from taking more with it; under `STRICT` it is
    raised, so that no test passes over one.
    """
    if os.environ.get(STRICT):
        raise error
    return reason_of(error)


def reason_of(error: BaseException) -> str:
    """An error as one line; of what nobody foresaw also its kind and place."""
    words = " ".join(str(error).split())[:MOST_CHARACTERS]
    if isinstance(error, WattstepError):
        return words
    return f"{type(error).__name__}{': ' * bool(words)}{words}{_place(error)}"


def _place(error: BaseException) -> str:
    """Innermost line of this package in an error's traceback."""
    package = Path(__file__).parents[1]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(package) and file != Path(__file__):
            return f" ({file.relative_to(package)}, line {frame.lineno})"
    return ""
