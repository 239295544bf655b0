"""Records somebody's own training script, unchanged: runs it, listens to its framework, and marks its steps."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from wattstep import engines
from wattstep.engines.after_import import after_import
from wattstep.engines.markers import check_marker
from wattstep.errors import InvalidValueError, WattstepError
from wattstep.record.hosts import EXECUTION_HOSTS, parse_target
from wattstep.record.recorder import Recorder, RecordingWarning
from wattstep.record.tracing.schedule import TraceMode
from wattstep.schema.cores import check_cores
from wattstep.schema.processes import (
    SignalsSeen,
    child_command,
    outwait,
    passes_on,
    tell_signals,
)
from wattstep.schema.sanitize import plain
from wattstep.schema.settings import parse_interval, parse_keep, parse_power_model
from wattstep.schema.training_hooks import ScriptTuning
from wattstep.store.files import new_name
from wattstep.store.shareable import shareable
from wattstep.train.allocators import find_allocator
from wattstep.train.environment import canary, check_target
from wattstep.train.environment.crowding import as_note, crowded_default, others_beside
from wattstep.train.listener import ScriptListener
from wattstep.train.running import INTERRUPTED, name_of, run_script

MARKED_OTHERWISE = (
    " (another convention: --step-marker; under torchrun: torchrun --no-python wattstep profile "
    "SCRIPT)"
)


_OF_PROCESS = ("cores", "allocator")  # of a script's tuning, what a process begins with
_TUNABLE = {each.name for each in fields(ScriptTuning)} - {"nudge", "on_loss"} | set(_OF_PROCESS)


@dataclass(frozen=True, kw_only=True)
class ProfileSettings:
    """Settings of a script's run and of its recording.

    Attributes:
        script: File of the script, or the module's name.
        module: Whether it is a module (`python -m`).
        arguments: The script's own.
        step_marker: Event that ends a step.
        target: Where the sensors are, as `Recorder` takes it; or the device on which the script, or
            for a phone the command, runs.
        total_steps: As `Recorder` takes it.
        script_output: "stdout", or "stderr" where standard output is for JSON.
        output: Descriptor of a file of this process into which goes what the script would print on
            the terminal, where a view has it; None: nothing does.
        quiet: Whether nothing is told of its run once it has ended: then a full disk is told at once.
        tuned: Settings that are put into the script, by their names in `ScriptTuning`, and "cores" and
            "allocator" of its process.
    """

    script: str
    module: bool = False
    arguments: tuple[str, ...] = ()
    step_marker: str = "optimizer"
    warmup: int = 3
    interval: str = "10ms"
    keep: str | None = None
    trace: str = "auto"
    power_model: str | None = None
    target: str | None = None
    total_steps: int | None = None
    script_output: str = "stdout"
    output: int | None = None
    quiet: bool = False
    tuned: Mapping[str, bool | int | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.total_steps is not None and self.total_steps < 1:
            raise InvalidValueError(f"--total-steps {self.total_steps}: it must be at least 1")
        TraceMode.parse(self.trace)
        parse_power_model(self.power_model)
        parse_interval(self.interval)
        parse_keep(self.keep)
        if parse_target(self.target).scheme in EXECUTION_HOSTS:  # what is there is seen there
            if self.tuned:
                raise InvalidValueError(
                    "--plan: of a script on this machine; without --target", id="only-here"
                )
            return
        if strange := sorted(set(self.tuned) - _TUNABLE):
            raise InvalidValueError(
                f"--plan: {', '.join(strange)}: nothing that can be put into a script",
                id="not-of-a-script",
            )
        if "cores" in self.tuned:
            check_cores(str(self.tuned["cores"]))
        check_target(self.target)
        check_marker(self.step_marker)
        if self.module and not _module_exists(self.script):
            raise InvalidValueError(
                f"-m {self.script}: there is no such module", id="no-such-module"
            )
        if not self.module and not Path(self.script).is_file():
            raise InvalidValueError(f"{self.script}: there is no such script", id="no-such-script")


def _module_exists(name: str) -> bool:
    """True if `python -m` would find the module, or its package: nothing of it is imported."""
    top = name.partition(".")[0]
    here = [str(Path.cwd()), *sys.path]
    return top in sys.builtin_module_names or PathFinder.find_spec(top, here) is not None


def run_name(settings: ProfileSettings) -> str:
    """Of the run: the script's, and the rank under torchrun."""
    return new_name(_title(settings)) + rank_suffix()


def _title(settings: ProfileSettings) -> str:
    return settings.script.rpartition(".")[2] if settings.module else Path(settings.script).stem


def rank_suffix() -> str:
    """Tells the runs of one torchrun apart; "" elsewhere."""
    rank = os.environ.get("RANK")
    return "" if rank is None else f"-rank{rank}"


def profile_in_child(settings: ProfileSettings, out: str) -> tuple[int, Path]:
    """Runs the script under a recorder in a child process.

    Args:
        settings: The script and its options.
        out: Folder of the new run.

    Returns:
        The script's exit code and the run.
    """
    on_screen = sys.stderr if settings.output is None else settings.output
    to_screen = settings.script_output == "stderr" or (settings.output and sys.stdout.isatty())
    cores = settings.tuned.get("cores")
    guard = {} if cores is None else {"cores": check_cores(str(cores))}
    guarded = ["wattstep.train.child.guard:main", json.dumps(guard)] if guard else []
    document = {**asdict(replace(settings, tuned={})), "tuned": dict(settings.tuned)}
    with closing(SignalsSeen()) as seen:
        asked = (json.dumps(document), out, str(seen.writing))
        child = subprocess.Popen(
            child_command(*guarded, "wattstep.train.script:main", *asked),
            env={**os.environ, **script_environment(settings.tuned)},
            stdout=on_screen if to_screen else None,
            stderr=settings.output,
            pass_fds=(seen.writing,),
        )

        def pass_on() -> None:
            if not seen.saw(signal.SIGINT):
                child.send_signal(signal.SIGINT)

        with passes_on(child):
            # A terminal sends Ctrl-C to the script as well, and it decides what it does.
            code, _ = outwait(child, pass_on)
    return (128 - code if code < 0 else code), Path(out)


def script_environment(tuned: Mapping[str, bool | int | str]) -> dict[str, str]:
    """What a script's environment has more than ours, by settings that only a fresh process can have.

    Raises:
        InvalidValueError: The allocator is not here.
    """
    allocator, threads = tuned.get("allocator"), tuned.get("threads")
    return {
        **({} if allocator is None else find_allocator(str(allocator))),
        **({} if threads is None else {"OMP_NUM_THREADS": str(threads)}),
    }


def tuning_of(tuned: Mapping[str, bool | int | str]) -> ScriptTuning:
    """Settings that are put into a script; those of its process alone are passed over."""
    own: dict[str, Any] = {name: value for name, value in tuned.items() if name not in _OF_PROCESS}
    return ScriptTuning(**own)


def settle_script(tuning: ScriptTuning, refuse: Callable[[WattstepError], None]) -> None:
    """Has the default engine put settings into the script as soon as its framework is loaded.

    Args:
        tuning: The settings.
        refuse: Told what cannot be put in.
    """

    def settle() -> None:
        try:
            engines.find(engines.DEFAULT).settle_script(tuning)
        except WattstepError as error:
            refuse(error)

    if tuning != ScriptTuning():
        after_import(engines.DEFAULT, settle)


def _refuse(error: WattstepError) -> None:
    print(f"wattstep: {error}", file=sys.stderr)
    raise SystemExit(2)


def main() -> None:
    """Entry of the child process: settings as JSON, the run's folder, and where signals are told."""
    tell_signals(int(sys.argv[3]))
    document = json.loads(sys.argv[1])
    settings = ProfileSettings(**{**document, "arguments": tuple(document["arguments"])})
    recorder = Recorder(
        sys.argv[2],
        interval=settings.interval,
        keep=settings.keep,
        trace=settings.trace,
        warmup=settings.warmup,
        power_model=settings.power_model,
        target=settings.target,
        total_steps=settings.total_steps,
        about={
            "workload": _title(settings),
            "options": {
                "script": f"-m {settings.script}"
                if settings.module
                else Path(settings.script).name,
                "arguments": shareable(settings.arguments),
                **{
                    name: value
                    for name, value in settings.tuned.items()
                    if name
                    in (
                        "channels_last",
                        "compiled",
                        "optimizer_kernel",
                        "interop_threads",
                        "cores",
                        "allocator",
                    )
                },
            },
        },
    )
    others = others_beside()
    _say_warnings_in_one_line(quiet=settings.quiet)
    try:
        recorder.start()
    except WattstepError as error:
        print(f"wattstep: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    canary.watch_briefly(recorder, canary.BEFORE, canary.PLAIN)
    script = ScriptListener(
        recorder,
        lambda: _training_begins(others, recorder),
        lambda: canary.watch_briefly(recorder, canary.AFTER, canary.PLAIN),
        lambda: _why_no_step(settings.step_marker),
    )
    engines.listen_to_script(script, settings.step_marker)
    settle_script(tuning_of(settings.tuned), _refuse)
    code = run_script(
        settings.script,
        settings.arguments,
        lambda error: recorder.note(name_of(error)),
        module=settings.module,
    )
    script.close(interrupted=code == INTERRUPTED)
    # The script's own interpreter would end here: what it registered runs, then its exit code.
    raise SystemExit(code)


def _why_no_step(marker: str) -> str:
    """Reason why a script made no step that its marker ends."""
    engine = engines.loaded()
    if engine is None:
        return (
            "the script loaded no framework that is known here (torch), whose calls mark steps; mark them in the "
            "script with wattstep.Recorder"
        )
    if marker == "optimizer":
        return f"no optimizer made a step in this process{MARKED_OTHERWISE}"
    return f"{marker.removeprefix('call:').replace(':', '.')} was not called in this process, which --step-marker {marker} asks for"


def _say_warnings_in_one_line(*, quiet: bool) -> None:
    """Warnings of ours as lines of ours, without a place in the code; a full disk is told once.

    What follows it is lost for the same reason. The command tells it with the script's exit code and
    what to do, unless it is quiet: then the first warning does.
    """
    usual, full, shown = warnings.formatwarning, os.strerror(errno.ENOSPC), not quiet

    def formatted(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: str | None = None,
    ) -> str:
        nonlocal shown
        if not issubclass(category, RecordingWarning):
            return usual(message, category, filename, lineno, line)
        text = str(message).removeprefix("wattstep ")
        if full in text and shown:
            return ""
        shown = shown or full in text
        return f"wattstep: {plain(text)}\n"

    warnings.formatwarning = formatted


def _training_begins(others: float, recorder: Recorder) -> None:
    """Says what trains; and, as the script has said how many threads it wants, who else wants the cores."""
    engine = engines.loaded()
    if engine is None:
        return
    recorder.about(engine=engine.version())  # at once: a script that is killed says it no more
    warning = crowded_default(engine.threads(), others) if others else None
    if warning is not None:
        print(f"wattstep: {warning}", file=sys.stderr, flush=True)
        recorder.note(as_note(warning))
