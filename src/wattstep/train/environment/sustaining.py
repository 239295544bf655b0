"""Watches a training until its temperature, frequency and throughput are steady."""

from __future__ import annotations

from typing import Final

from wattstep.record.recorder import Recorder
from wattstep.schema.condition_documents import SteadinessFacts
from wattstep.schema.journal import JOURNAL
from wattstep.train.environment.steadiness import SUSTAINED, Criterion, Verdict
from wattstep.train.environment.watch import Watch

LOOK_EVERY_S: Final = 5.0  # each look takes a few milliseconds from the training
MOST_S: Final = 75 * 60.0  # phones were seen to settle after 42 minutes


class Sustaining:
    """Told of every step, it says when the training has become steady.

    Args:
        recorder: Is recording the training.
        began_s: When the measured steps began, monotonic time in s.
        most_s: How long the training may go on, None where steps limit it; for the record.
        most_steps: How many steps it may take, None where time limits it.
        criterion: Criterion of steadiness.
    """

    def __init__(
        self,
        recorder: Recorder,
        began_s: float,
        *,
        most_s: float | None,
        most_steps: int | None = None,
        criterion: Criterion = SUSTAINED,
    ) -> None:
        self._recorder = recorder
        self._began_s, self._most_s, self._most_steps = began_s, most_s, most_steps
        self._criterion = criterion
        self._watch = Watch(recorder.info.reads, recorder.path / JOURNAL, criterion)
        self._looked_s = began_s
        self._seconds = self._samples = 0.0
        self._verdict: Verdict | None = None
        self._now_s = began_s

    def step(self, now_s: float, seconds: float, samples: float, *, counts: bool) -> bool:
        """After each step: whether everything is steady.

        Args:
            now_s: Monotonic time in s.
            seconds: How long the step took.
            samples: It trained on.
            counts: Whether it was a step like the others: neither traced nor the one after that.
        """
        self._now_s = now_s
        if counts:
            self._seconds += seconds
            self._samples += samples
        if now_s - self._looked_s >= LOOK_EVERY_S and self._seconds > 0:
            self._looked_s = now_s
            self._watch.history.throughput(now_s, self._samples / self._seconds)
            self._seconds = self._samples = 0.0
            self._verdict = self._watch.look(now_s)
        return self._verdict is not None and self._verdict.steady

    @property
    def state(self) -> str:
        """State of the wait, in a few words."""
        hottest = self._watch.hottest
        words = [] if hottest is None else [f"{hottest:.1f} °C"]
        if self._verdict is not None and self._verdict.moving:
            words.append(f"not steady: {self._verdict.moving[0]}")
        return ", ".join(words)

    def facts(self) -> SteadinessFacts:
        """For the run's conditions: whether it became steady, after how long, by what criterion."""
        verdict = self._verdict or Verdict(steady=False, moving=("no step was judged",), judged=())
        document: SteadinessFacts = {
            "steady": verdict.steady,
            "after_s": round(self._now_s - self._began_s, 1),
            "most_s": self._most_s,
            "most_steps": self._most_steps,
            "criterion": self._criterion.to_dict(),
            "judged": list(verdict.judged),
        }
        if verdict.silent:
            document["silent"] = list(verdict.silent)
        if not verdict.steady:
            document["moving"] = list(verdict.moving)
            self._recorder.note(
                f"--sustain: not steady after {self._now_s - self._began_s:.0f} s: "
                + "; ".join(verdict.moving)
            )
        return document
