"""The benches: processes in which candidates take turns, of a workload of the suite or of somebody's script."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from wattstep.errors import WattstepError
from wattstep.schema.cores import parse_cores
from wattstep.schema.figure import Status
from wattstep.schema.processes import child_command, ending_words, readable
from wattstep.train.allocators import find_allocator
from wattstep.train.child.child import SILENT_S, tail
from wattstep.train.child.limits import Cage, MemoryLimit, enforced
from wattstep.train.script import ProfileSettings, script_environment
from wattstep.train.settings import TrainingSettings
from wattstep.tune.space import OF_PROCESS, Candidate
from wattstep.tune.turns import Ask, Turn

WARM_STEPS: Final = 1  # before each turn: threads and caches are another candidate's
NEW_STEPS: Final = 3  # of a training that begins within the search, beside those
MOST_PROCESSES: Final = 6  # that wait for their turns at a time
_CLOSE_S: Final = 10.0
GUARD: Final = "wattstep.train.child.guard:main"


class Refused(Exception):
    """A process ended, with why."""


class SeatedProcess:
    """A process that answers lines with lines.

    Args:
        entry: As `GuardedChild` takes it.
        arguments: Likewise.
        cage: Its limit.
        cores: Where it may run; None: where we may.
        environment: What its environment has more than ours.
    """

    def __init__(
        self,
        entry: str,
        arguments: Sequence[str],
        cage: Cage,
        *,
        cores: Sequence[int] | None,
        environment: Mapping[str, str],
    ) -> None:
        self._cage = cage
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._reading, writing = os.pipe()
        guard: dict[str, Any] = {**cage.guard, "parent": os.getpid()}
        if cores is not None:
            guard["cores"] = list(cores)
        try:
            self.process = subprocess.Popen(
                child_command(GUARD, json.dumps(guard), entry, str(writing), *arguments),
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[writing],
                env={**os.environ, **environment},
            )
        finally:
            os.close(writing)
        self._unread = b""

    def ask(self, document: Mapping[str, Any] | None) -> dict[str, Any]:
        """The answer to a line; to none, the first that the process gives by itself.

        Raises:
            Refused: It ended instead, or said nothing for half an hour.
            KeyboardInterrupt: The user stopped us, or it.
        """
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            if document is not None:
                self.process.stdin.write(json.dumps(document).encode() + b"\n")
                self.process.stdin.flush()
        until = time.monotonic() + SILENT_S
        while b"\n" not in self._unread:
            if readable(self._reading, until - time.monotonic()):
                data = os.read(self._reading, 65536)
                if data:
                    self._unread += data
                    continue
                raise Refused(self._ended())
            self.process.kill()
            raise Refused("it said nothing for half an hour")
        line, _, self._unread = self._unread.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ended(self) -> str:
        code = self.process.wait()
        if code in (130, -signal.SIGINT):
            raise KeyboardInterrupt
        if self._cage.oom_kills:
            return f"memory ran out ({self._cage.limit.described if self._cage.limit else ''})"
        lines = [line for line in tail(self._log).splitlines() if line.strip()]
        said = f": {lines[-1].strip()}" if lines else ""
        return f"its process {ending_words(code)}{said}"

    def interrupt(self) -> None:
        """Stops its turn: Ctrl-C goes to it as well, but a signal to us alone does not."""
        self.process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """Ends it.

        Raises:
            KeyboardInterrupt: The user stopped us meanwhile; it is ended all the same.
        """
        assert self.process.stdin is not None
        with ExitStack() as closing:
            closing.callback(self._log.close)
            closing.callback(os.close, self._reading)
            closing.callback(self._kill)
            with suppress(BrokenPipeError):
                self.process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_CLOSE_S)

    def _kill(self) -> None:
        """Ends what is still there."""
        self.process.kill()
        self.process.wait()


@dataclass(kw_only=True)
class _Open:
    """A process and the trainings that have begun in it."""

    process: SeatedProcess
    stack: ExitStack
    begun: set[str]
    last: Candidate | None = None


class _PowerFolders:
    """New folders in which power is sampled, gone with the bench.

    Args:
        power: Whether energy is asked for; else there are none.
    """

    def __init__(self, *, power: bool) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="wattstep-tune-")) if power else None
        self._made = 0

    def new(self) -> Path | None:
        """One that is not there yet."""
        self._made += 1
        return None if self._folder is None else self._folder / str(self._made)

    def close(self) -> None:
        """Removes all of them."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class WorkloadBench:
    """Candidates of a workload take turns: threads, layout and optimizers within a process, others each in its own.

    Args:
        settings: Of the default.
        limit: Of memory; every candidate has a process of its own then.
        power: Whether energy is asked for.
    """

    def __init__(
        self, settings: TrainingSettings, limit: MemoryLimit | None = None, *, power: bool = False
    ) -> None:
        self._settings, self._limit = settings, limit
        self._open: dict[str, _Open] = {}  # the one that was used last stands last
        self._alone: tuple[str, int] = ("", 0)
        self._power = _PowerFolders(power=power)

    def __enter__(self) -> WorkloadBench:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with ExitStack() as closing:  # all of them, also where the user stops one's end
            closing.callback(self._power.close)
            for key, opened in list(self._open.items()):
                closing.callback(self._close, key)
                if kind is KeyboardInterrupt:
                    opened.process.interrupt()

    def measure(self, ask: Ask) -> Turn:
        """As `Bench.measure`."""
        changes = dict(ask.candidate.changes)
        # A plan is made for a number of threads, which a process changes for all else between turns.
        planned = changes.get("policy", self._settings.policy)
        own = {*OF_PROCESS, *(("threads",) if planned else ())}
        seat = json.dumps(
            {name: value for name, value in changes.items() if name in own or name != "threads"},
            sort_keys=True,
        )
        if ask.alone:
            if self._alone != (ask.stage, ask.round):  # a new round has new processes
                for key in list(self._open):
                    self._close(key)
                self._alone = (ask.stage, ask.round)
            key = f"alone {ask.candidate.text}"
        elif self._limit is not None:
            key = seat
        else:
            key = json.dumps({n: v for n, v in changes.items() if n in own}, sort_keys=True)
        try:
            opened = self._opened(key, changes)
            known = seat in opened.begun
            warm = 0 if ask.begin else WARM_STEPS * (opened.last != ask.candidate)
            warm += 0 if ask.begin or known else NEW_STEPS
            answer = opened.process.ask(
                {
                    "changes": changes,
                    "begin": ask.begin or not known,
                    "nudged": ask.nudged,
                    "warm": warm,
                    "steps": ask.steps,
                    "most_s": ask.most_s,
                }
            )
        except WattstepError as error:
            return Turn(refused=str(error))
        except Refused as error:
            self._close(key)
            return Turn(refused=str(error))
        if "error" in answer:
            return Turn(refused=answer["error"])
        opened.begun.add(seat)
        opened.last = ask.candidate
        return turn_of(answer)

    def _opened(self, key: str, changes: Mapping[str, Any]) -> _Open:
        """The process of this key, which is now the last one used."""
        if key in self._open:
            self._open[key] = self._open.pop(key)
            return self._open[key]
        while len(self._open) >= MOST_PROCESSES:
            self._close(next(iter(self._open)))
        cores = changes.get("cores")
        allocator = changes.get("allocator", self._settings.allocator)
        environment = {} if allocator is None else find_allocator(str(allocator))
        chosen = self._settings.cores if cores is None else str(cores)
        with ExitStack() as stack:
            cage = stack.enter_context(enforced(self._limit))
            process = SeatedProcess(
                "wattstep.tune.seats:main",
                [json.dumps(asdict(self._settings)), str(self._power.new() or "")],
                cage,
                cores=None if chosen is None else parse_cores(chosen),
                environment=environment,
            )
            stack.callback(process.close)
            self._open[key] = _Open(process=process, stack=stack.pop_all(), begun=set())
        return self._open[key]

    def _close(self, key: str) -> None:
        if key in self._open:
            self._open.pop(key).stack.close()


class ScriptBench:
    """Candidates of somebody's script: each turn runs it anew, for as many steps as are asked for.

    Args:
        settings: Of the script.
        limit: Of memory.
        power: Whether energy is asked for.
    """

    def __init__(
        self, settings: ProfileSettings, limit: MemoryLimit | None = None, *, power: bool = False
    ) -> None:
        self._settings, self._limit = settings, limit
        self._power = _PowerFolders(power=power)

    def __enter__(self) -> ScriptBench:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._power.close()

    def measure(self, ask: Ask) -> Turn:
        """As `Bench.measure`."""
        changes = dict(ask.candidate.changes)
        cores = changes.get("cores")
        document = {
            "script": self._settings.script,
            "module": self._settings.module,
            "arguments": list(self._settings.arguments),
            "marker": self._settings.step_marker,
            "changes": {**changes, "nudge": ask.nudged},
            "warm": 0 if ask.begin else NEW_STEPS,
            "steps": ask.steps,
            "most_s": ask.most_s,
            "power": self._sampled(),
        }
        try:
            environment = script_environment(changes)
            with enforced(self._limit) as cage:
                process = SeatedProcess(
                    "wattstep.tune.script_turn:main",
                    [json.dumps(document)],
                    cage,
                    cores=None if cores is None else parse_cores(str(cores)),
                    environment=environment,
                )
                try:
                    answer = process.ask(None)
                except KeyboardInterrupt:
                    process.interrupt()
                    raise
                finally:
                    process.close()
        except WattstepError as error:
            return Turn(refused=str(error))
        except Refused as error:
            return Turn(refused=str(error))
        return Turn(refused=answer["error"]) if "error" in answer else turn_of(answer)

    def _sampled(self) -> dict[str, Any] | None:
        """How power is sampled beside the next turn, as `TurnPower` takes it, JSON-ready; None: it is not."""
        folder = self._power.new()
        if folder is None:
            return None
        return {
            "folder": str(folder),
            "workload": Path(self._settings.script).stem,
            "interval": self._settings.interval,
            "power_model": self._settings.power_model,
            "target": self._settings.target,
        }


def turn_of(answer: Mapping[str, Any]) -> Turn:
    """A turn from JSON."""
    return Turn(
        seconds=tuple(answer.get("seconds", ())),
        losses={int(index): loss for index, loss in answer.get("losses", {}).items()},
        taken=answer.get("taken", 0),
        joules=answer.get("joules"),
        energy=answer.get("energy", Status.MEASURED.value),
        memory=answer.get("memory"),
        begin_s=answer.get("begin_s"),
        refused=answer.get("refused", ""),
    )
