"""Records somebody's own training script, unchanged: runs it, listens to torch, and marks its steps."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import time
import traceback
import types
import weakref
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from wattstep.conditions import canary, check_target
from wattstep.errors import InvalidValueError, WattstepError
from wattstep.processes import child_command, ends_with_us, outwait
from wattstep.recorder import Recorder
from wattstep.records.settings import parse_interval, parse_power_model
from wattstep.store.files import new_name
from wattstep.targets import PLACES, parse_target
from wattstep.tracing.after_import import after_import
from wattstep.tracing.markers import check_marker
from wattstep.tracing.schedule import TraceMode
from wattstep.tracing.step_phases import DATA, PhaseTeller

INTERRUPTED = 130  # the exit code after Ctrl-C


@dataclass(frozen=True, kw_only=True)
class ProfileSettings:
    """What to run and how to record it.

    Attributes:
        script: File of the script, or the module's name.
        module: Whether it is a module (`python -m`).
        arguments: The script's own.
        step_marker: What ends a step.
        target: Where the sensors are, as `Recorder` takes it; or the device on which the script, or
            for a phone the command, runs.
        total_steps: As `Recorder` takes it.
        script_output: "stdout", or "stderr" where standard output is for JSON.
        output: Descriptor of a file of this process into which goes what the script would print on
            the terminal, where a view has it; None: nothing does.
    """

    script: str
    module: bool = False
    arguments: tuple[str, ...] = ()
    step_marker: str = "optimizer"
    warmup: int = 3
    interval: str = "10ms"
    trace: str = "auto"
    power_model: str | None = None
    target: str | None = None
    total_steps: int | None = None
    script_output: str = "stdout"
    output: int | None = None

    def __post_init__(self) -> None:
        if self.total_steps is not None and self.total_steps < 1:
            raise InvalidValueError(f"--total-steps {self.total_steps}: it must be at least 1")
        TraceMode.parse(self.trace)
        parse_power_model(self.power_model)
        parse_interval(self.interval)
        if parse_target(self.target).scheme in PLACES:  # what is there is seen there
            return
        check_target(self.target)
        check_marker(self.step_marker)
        if self.module and not _module_exists(self.script):
            raise InvalidValueError(f"-m {self.script}: there is no such module")
        if not self.module and not Path(self.script).is_file():
            raise InvalidValueError(f"{self.script}: there is no such script")


def _module_exists(name: str) -> bool:
    """Whether `python -m` would find the module, or its package: nothing of it is imported."""
    top = name.partition(".")[0]
    here = [str(Path.cwd()), *sys.path]
    return top in sys.builtin_module_names or PathFinder.find_spec(top, here) is not None


def run_name(settings: ProfileSettings) -> str:
    """Of the run: the script's, and the rank under torchrun."""
    stem = settings.script.rpartition(".")[2] if settings.module else Path(settings.script).stem
    return new_name(stem) + rank_suffix()


def rank_suffix() -> str:
    """Tells the runs of one torchrun apart; "" elsewhere."""
    rank = os.environ.get("RANK")
    return "" if rank is None else f"-rank{rank}"


def profile_in_child(settings: ProfileSettings, out: str) -> tuple[int, Path]:
    """Runs the script under a recorder in a child process.

    Args:
        settings: What to run.
        out: Folder of the new run.

    Returns:
        The script's exit code and the run.
    """
    on_screen = sys.stderr if settings.output is None else settings.output
    to_screen = settings.script_output == "stderr" or (settings.output and sys.stdout.isatty())
    child = subprocess.Popen(
        child_command("wattstep.profiling:main", json.dumps(asdict(settings)), out),
        stdout=on_screen if to_screen else None,
        stderr=settings.output,
    )
    with ends_with_us(child):
        code = outwait(child)  # Ctrl-C went to the script as well, and it decides what it does
    return (128 - code if code < 0 else code), Path(out)


def main() -> None:
    """Entry of the child process: settings as JSON."""
    document = json.loads(sys.argv[1])
    settings = ProfileSettings(**{**document, "arguments": tuple(document["arguments"])})
    recorder = Recorder(
        sys.argv[2],
        interval=settings.interval,
        trace=settings.trace,
        warmup=settings.warmup,
        power_model=settings.power_model,
        target=settings.target,
        total_steps=settings.total_steps,
        about={"workload": Path(settings.script).stem, "engine": "torch"},
    )
    try:
        recorder.start()
    except WattstepError as error:
        print(f"wattstep: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    canary.watch_briefly(recorder, canary.BEFORE, canary.PLAIN)
    script = ScriptListener(recorder)

    def hook() -> None:
        from wattstep.tracing.torch_hooks import TorchHooks

        TorchHooks(script, settings.step_marker).install()

    after_import("torch", hook)
    code = _run(settings, recorder)
    script.close(interrupted=code == INTERRUPTED)
    # The script's own interpreter would end here: what it registered runs, then its exit code.
    raise SystemExit(code)


def _run(settings: ProfileSettings, recorder: Recorder) -> int:
    """Runs the script as Python itself would; returns its exit code."""
    try:
        if settings.module:
            sys.path.insert(0, str(Path.cwd()))
            sys.argv = [settings.script, *settings.arguments]
            runpy.run_module(settings.script, run_name="__main__", alter_sys=True)
        else:
            _run_script(settings.script, settings.arguments)
    except SystemExit as ending:
        return _exit_code(ending)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException as error:
        recorder.note(f"the script ended with {type(error).__name__}")
        _print_error(error)
        return 1
    return 0


def _run_script(script: str, arguments: Sequence[str]) -> None:
    """The script becomes `__main__`, so that what it pickles and spawns finds it."""
    sys.path.insert(0, str(Path(script).resolve().parent))
    sys.argv = [script, *arguments]
    module = types.ModuleType("__main__")
    module.__file__ = file = str(Path(script).absolute())
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    exec(compile(Path(file).read_bytes(), file, "exec"), module.__dict__)


def _exit_code(ending: SystemExit) -> int:
    if ending.code is None:
        return 0
    if isinstance(ending.code, int):
        return ending.code
    print(ending.code, file=sys.stderr)
    return 1


def _print_error(error: BaseException) -> None:
    """The script's own traceback, without the frames that are ours."""
    trace = error.__traceback__
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_frame.f_code.co_filename in ours:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


class ScriptListener(PhaseTeller):
    """Turns what torch tells of a script into steps, phases and rests of a recorder.

    A step ends with its marker, and the next begins there. What ran without gradients before the
    first forward with gradients is a rest ("evaluation"); what came before the first step is one
    too ("startup").
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._recorder = recorder
        self._ended_ns = time.perf_counter_ns()  # of the last step
        self._loaded_ns = 0  # when the last batch was asked for
        self._rest: str | None = "startup"
        self._learners: weakref.WeakSet[Any] = weakref.WeakSet()  # went forward with gradients
        self._trained = False  # since the last step ended: a forward with gradients
        self._pending = 0  # samples loaded for the step
        self._evaluated = False  # a forward without gradients since the last batch, and before any
        self._counted = False
        self._models = 0
        recorder.begin_step()
        self._phases.begin()

    @property
    def tracing(self) -> bool:
        """Whether the step that runs is traced."""
        return self._recorder.tracing

    def data_begins(self) -> None:
        """The step's batch, or one that will be evaluated."""
        if self._evaluated and not self._trained:
            self._pending = 0  # that batch was evaluated, not trained on
            self._rests()
        self._evaluated = False
        self._loaded_ns = time.perf_counter_ns()
        self._phases.enter(DATA)

    def data_ends(self, samples: int | None) -> None:
        """Its samples count for the step, unless it turns out to have been evaluated."""
        self._phases.leave(DATA)
        if samples is not None:
            self._pending += samples

    def forward_begins(self, module: Any, gradients: bool) -> None:
        """With gradients the step is training; without, and first, it may be an evaluation.

        It is one where another batch is asked for before anything is trained, and where a model
        that is trained, and was set to evaluate, runs on something that no loader gave.
        """
        if gradients:
            self._learners.add(module)
            if not self._trained:
                self._trained = True
                if self._rest is not None:
                    self._begin_after_rest()
        elif not self._trained:
            self._evaluated = True
            loaded = self._loaded_ns > self._ended_ns
            if not loaded and not module.training and module in self._learners:
                self._rests()
        super().forward_begins(module, gradients)

    def _rests(self) -> None:
        """What has run since the last step, and runs now, is an evaluation."""
        if self._rest is None:
            self._rest = "evaluation"
            self._recorder.abandon_window()

    def _begin_after_rest(self) -> None:
        """The step begins where its batch was asked for; everything before was a rest."""
        assert self._rest is not None
        begin = self._loaded_ns if not self._evaluated else 0
        begin = begin if begin > self._ended_ns else time.perf_counter_ns()
        self._recorder.split_step(self._rest, self._ended_ns, begin)
        self._phases.begin()
        self._rest = None

    def step_ends(self) -> None:
        """This step is done, and the next begins."""
        recorder = self._recorder
        self._phases.end()
        if self._rest is not None:  # no module was called: it trains in a way of its own
            recorder.split_step(self._rest, self._ended_ns, time.perf_counter_ns())
            self._rest = None
        if self._pending:
            recorder.samples(self._pending)
            self._counted = True
        recorder.end_step()
        self._ended_ns = time.perf_counter_ns()
        self._trained = self._evaluated = False
        self._pending = 0
        recorder.begin_step()
        self._phases.begin()

    def model_found(self, model: Any) -> None:
        """The first model's top-level layers are marked; those of all models are named."""
        self._models += 1
        if self._models == 1:
            self._recorder.watch_model(model, alone=False)
        else:
            self._recorder.learn_model(model)

    def profiler_found(self, name: str) -> None:
        """Two profilers cannot trace at once: the script's goes first."""
        if not self._recorder.opening_window:
            self._recorder.stop_tracing(
                f"the script uses {name} itself: it is left alone, and no steps are traced beside it"
            )

    def close(self, *, interrupted: bool = False) -> None:
        """The script has ended; where the user interrupted it, at once."""
        recorder = self._recorder
        if self._rest == "evaluation":
            recorder.abandon_window()
            recorder.split_step("evaluation", self._ended_ns, time.perf_counter_ns())
        if recorder.index and not interrupted:
            recorder.abandon_step()
            canary.watch_briefly(recorder, canary.AFTER, canary.PLAIN)
        if recorder.index == 0:
            recorder.note(
                "no training step was seen: no optimizer made a step in this process "
                "(another convention: --step-marker; under torchrun: torchrun --no-python wattstep "
                "profile SCRIPT)"
            )
        elif not self._counted:
            recorder.note("samples a step are not known: no torch DataLoader gave the batches")
        recorder.close()
