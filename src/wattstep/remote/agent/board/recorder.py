"""Records a training on a board: the recorder of every host, but for what a board has no room or no Python for."""

import atexit
import json
import math
import os
import platform
import sys
import time
import types
from pathlib import Path
from typing import Any

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.record.marking import StepMarker
from wattstep.record.sampling.sampler import Sampler
from wattstep.record.stepping import StepRecorder, wall_clock
from wattstep.record.tracing.schedule import TraceMode
from wattstep.remote.agent.board.tracing import BoardTracer, BoardWindows, reserve, write_json
from wattstep.remote.agent.layout import AGENT, FORMAT, LAYERS, TRACES, WINDOWS
from wattstep.schema.journal import JOURNAL
from wattstep.schema.settings import parse_interval
from wattstep.store.files import create_folder

# `wattstep agent` puts these in: the sources of the sampler and of the canary, and what is to be
# read (as JSON).
CHILD = ""
CANARY = ""
PLAN = ""

CANARY_S, CANARY_SHARE = 0.1, 0.01  # before a script; after it, no more of its time, or five passes
MOST_RESTARTS = 10  # of a sampler that was killed


class BoardSteps(StepMarker):
    """The marks of steps; what a GPU has to do in a traced one is waited for."""

    __slots__ = ()
    _windows: BoardWindows

    def _end_rare(self, begun_ns, now, loss):
        """As `StepMarker._end_rare`."""
        if self._code and self._windows.traced:
            self._windows.step_done()
            now = self._clock()
        super()._end_rare(begun_ns, now, loss)

    def watch_model(self, model, *, alone=True):
        """As `StepMarker.watch_model`; its layers are named, and none is marked outside of windows."""
        self.learn_model(model)


class Recorder(StepRecorder):
    """Records a training into a folder.

    Args:
        path: A new folder.
        interval: The sampler's period: seconds, or "10ms".
        trace: "auto" (a step now and then), "none", or "layers" (timing by layer, no profiler).
        every: Clean steps between traced ones, instead of what "auto" chooses.
        warmup: First steps that do not count.
        title: Name of the training.
    """

    def __init__(self, path, interval=0.01, trace="auto", every=None, warmup=3, title="training"):
        if not PLAN or not CHILD:
            raise RecordingError(
                "this file does not know what to read: run `python3 wattstep_agent.py look > look.json` "
                "here, then `wattstep agent --look look.json -o wattstep_agent.py` on your machine"
            )
        if trace not in ("auto", "none", LAYERS):
            raise InvalidValueError("--trace %r is not one of auto, none, layers" % trace)
        if every is not None and every < 1:
            raise InvalidValueError(
                "--every %r: at least one clean step between traced ones" % every
            )
        if warmup < 0:
            raise InvalidValueError("--warmup %r: it cannot be negative" % warmup)
        self.path = os.path.abspath(str(path))
        self.plan = json.loads(PLAN)
        self.period_s = parse_interval(interval)
        text = trace if every is None or trace != "auto" else "every:%d" % every
        self.mode = TraceMode(text, every)
        self.warmup = warmup
        self.title = title
        self.problem = None
        self.restarts = 0  # of the sampler
        self.lost = {}
        self.canary = {}
        self._notes = []
        self._state = "new"
        self._steps = BoardSteps(0, warmup, self._look, self._cannot_write)
        self._tracer = BoardTracer(self.path, trace == LAYERS, lambda: self._steps.index, self.note)

    # --- beginning and end

    def start(self):
        """Makes the folder and starts the sampler."""
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # its words would land in the script's
        create_folder(Path(self.path))
        journal = Path(self.path) / JOURNAL
        try:
            os.mkdir(os.path.join(self.path, TRACES))
            self.clocks = [wall_clock()]
            self.created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
            self._steps.open(journal)
            self._listed = os.open(
                os.path.join(self.path, WINDOWS), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
            )
            self._windows = BoardWindows(
                self._tracer, self.mode, self.warmup, self._steps, self._listed, self.note
            )
            self._start_sampler()
            self._state = "recording"
            self.describe()
            reserve(os.path.join(self.path, AGENT))
        except OSError as error:
            raise RecordingError("cannot record into %s: %s" % (self.path, error.strerror))
        self._steps.start(self._windows, own_clock=True)
        self._windows.reset_peak()
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)
        return self

    __enter__ = start

    def _start_sampler(self):
        """Lays the plan out for this process and period; its source is in this file."""
        entries = []
        for number, planned in enumerate(self.plan["entries"]):
            entry = {key: value for key, value in planned.items() if key != "least_period_s"}
            path = entry["path"].replace("{pid}", str(os.getpid()))
            entries.append(dict(entry, path=path, every=self.every(number)))
        plan: Any = types.SimpleNamespace(
            entries=entries, period_s=self.period_s, dither=self.plan["dither"]
        )
        # Only comments of it are not ASCII, which is all that the C locale of an ssh session takes.
        source = CHILD.encode("ascii", "backslashreplace").decode("ascii")
        folder = Path(self.path) / JOURNAL
        self.sampler = Sampler(plan, folder, child=("-c", source), patience_s=30.0)
        self.sampler.start()

    def every(self, number):
        """On which ticks the read with this number falls."""
        least = self.plan["entries"][number]["least_period_s"]
        return max(1, int(math.ceil(least / self.period_s - 1e-9)))

    def describe(self):
        """Writes what is known so far."""
        torch = sys.modules.get("torch")
        reads = [
            dict(read, every=self.every(number)) for number, read in enumerate(self.plan["reads"])
        ]
        write_json(
            os.path.join(self.path, AGENT),
            {
                "agent": FORMAT,
                "state": self._state,
                "created": self.created,
                "title": self.title,
                "python": platform.python_version(),
                "torch": None if torch is None else str(torch.__version__),
                "threads": None if torch is None else int(torch.get_num_threads()),
                "interval_s": self.period_s,
                "warmup": self.warmup,
                "trace": self.mode.text,
                "scheduling": self.sampler.scheduling,
                "clocks": self.clocks,
                "notes": self._notes,
                "lost": self.lost,
                "canary": self.canary,
                "device": self.plan["device"],
                "absent": self.plan["absent"],
                "reads": reads,
            },
        )

    def _forget(self):
        """In a forked child: its steps are not ours, and the journals belong to the parent."""
        if self._state == "recording":
            self._state = "forked"
            self._windows.forget()
            self._steps.stop()

    def close(self):
        """Ends the recording; what was recorded lies in the folder."""
        if self._state != "recording":
            return
        atexit.unregister(self.close)
        self._steps.stop()
        self._guarded(self._end_marks)
        reason = self.sampler.stop()
        if reason is not None:
            self._lose_sampler(reason)
        self._state = "closed"
        self._steps.close()
        os.close(self._listed)
        # Where there was no window, a note says all: there are no operations.
        if self._windows.stopped_ns is not None and self._windows.schedule.windows:
            self.lost.setdefault("operations", self._windows.stopped_ns)
        self.clocks.append(wall_clock())
        try:
            self.describe()
        except OSError as error:
            say("the description could not be written again (%s)" % error.strerror)

    def _end_marks(self):
        self._windows.abandon(self._steps.index)
        self._steps.end_rest()
        self._windows.mark_peak()

    # --- what is said, and what fails

    def note(self, text):
        """Something that the reader of the run must know."""
        if text not in self._notes:
            say(text)
        super().note(text)

    def _cannot_write(self, error):
        """Recording ends, training goes on."""
        self._steps.stop()
        if self.problem is None:
            self.problem = error.strerror or type(error).__name__
            self.lost["marks"] = time.perf_counter_ns()
            self.note("recording ended early: %s" % self.problem)
            self._windows.forget()

    def _look(self):
        """Once a second: starts a sampler that was killed again; one that told why would end again."""
        reason = None if "sampler" in self.lost else self.sampler.lost()
        if reason is None:
            return
        self.restarts += 1
        told_why = self.sampler.told_why
        self.sampler.stop()
        if self.restarts > MOST_RESTARTS or told_why:
            self._lose_sampler(reason)
            return
        try:
            self._start_sampler()
        except RecordingError as error:
            self._lose_sampler("%s; %s" % (reason, error))
            return
        self.note(
            "the sampler was lost (%s) and started again before step %d: "
            "its samples have a gap" % (reason, self._steps.index)
        )

    def _lose_sampler(self, reason):
        """Samples end here."""
        self.lost.setdefault("sampler", time.perf_counter_ns())
        self.note("the sampler was lost: %s; no samples from then on" % reason)

    # --- the machine

    def watch_machine(self, when):
        """A small fixed piece of work, "before" the first step or "after" the last: a rest."""
        names = {}
        exec(CANARY, names)
        seconds = CANARY_S
        if "before" in self.canary:
            passed_s = (time.perf_counter_ns() - self.canary["before"]["at_ns"]) * 1e-9
            seconds = min(seconds, CANARY_SHARE * passed_s)
        with self.apart("canary"):
            try:
                result = names["work"](seconds, time.perf_counter_ns)
            except (MemoryError, OSError):
                self.note("no canary %s the training: it got no memory" % when)
            else:
                kind = "python %d.%d" % sys.version_info[:2]
                self.canary.update({"version": 1, "kind": kind, when: result})
            self._steps.end_span()


def say(text):
    """A line for the user."""
    sys.stderr.write("wattstep: %s\n" % text)
