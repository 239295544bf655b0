"""What engines that train exported networks have in common: export apart from training, and loading."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from wattstep.engines.exported.conformance import STEPS, Course
from wattstep.engines.exported.folder import ExportedFolder, save_arrays
from wattstep.engines.exported.trainer import ExportedTrainer
from wattstep.engines.exported.updates import Update
from wattstep.errors import InvalidValueError, WattstepError, error_of
from wattstep.schema.engine import Engine, Trainer
from wattstep.schema.extras import require
from wattstep.schema.processes import (
    ChildNews,
    child_command,
    end_with,
    ending_words,
    listen,
    outwait,
    refusal_news,
    tidied_at_sigterm,
)
from wattstep.schema.workload import Preparation, Specification
from wattstep.store.held import HeldFolder

# What no exported training heeds, by field of a preparation and its option.
_UNHEEDED: Mapping[str, str] = {
    "accumulate": "--accumulate", "train_last": "--train-last", "lora": "--lora",
    "channels_last": "--channels-last", "compiled": "--compile", "policy": "--policy",
    "checkpointing": "--checkpointing", "opencl_mode": "--opencl-mode",
    "offload": "--offload",
}  # fmt: skip


class ExportedEngine(Engine):
    """An engine that trains what torch exported, in a process without torch.

    Attributes:
        writes: "module:function" that writes the engine's own files of a `Source` into a folder;
            runs where torch is.
        trains: "module:class" of its `ExportedTrainer`.
        package: That is installed, as `importlib.metadata` knows it.
        series: How a version begins that trains here; "" for any.
        extra: Of pip, that installs it.
    """

    writes: str
    trains: str
    package: str
    series: str = ""
    extra: str
    options: Sequence[str] = ("optimizer",)
    exports = True

    @property
    def how(self) -> str:
        """How it is installed."""
        return f'pip install "wattstep[{self.extra}]"'

    def missing(self) -> str | None:
        """As `Engine.missing`; another version may train otherwise, or not at all."""
        try:
            present = version(self.package)
        except PackageNotFoundError:
            return f"{self.package} is not installed: {self.how}"
        if not self.fits(present):
            return f"{self.package} {present} is installed, {self.series} is needed: {self.how}"
        return None

    def fits(self, present: str) -> bool:
        """True for a version that trains here."""
        return f"{present}.".startswith(f"{self.series}." if self.series else "")

    def version(self) -> str:
        """As `Engine.version`."""
        return f"{self.name} {version(self.package)}"

    def usual_threads(self, one_a_core: int) -> int:
        """As `Engine.usual_threads`."""
        return 1 if self.one_thread else one_a_core

    def threads(self) -> int | None:
        """As `Engine.threads`."""
        return 1 if self.one_thread else None

    def open(self, folder: ExportedFolder, threads: int | None) -> ExportedTrainer:
        """A trainer of an exported training; the framework is loaded.

        Args:
            folder: The exported training.
            threads: Of an operation; the engine's own choice where None.

        Raises:
            InvalidValueError: It cannot train it.
        """
        self._check_threads(threads)
        module, _, trainer = self.trains.partition(":")
        usual = self.usual_threads(len(os.sched_getaffinity(0)))
        opened: ExportedTrainer = getattr(require(module), trainer)(self, folder, threads or usual)
        return opened

    def prepare(
        self,
        workload: Specification,
        preparation: Preparation,
        *,
        threads: int | None = None,
        processor: str = "cpu",
        precision: str = "fp32",
    ) -> Trainer:
        """As `Engine.prepare`, of the folder that the preparation names, or of one made for it."""
        self.check(workload, preparation, precision)
        self._check_threads(threads)
        self.load()
        if preparation.exported is not None:
            return self._open(preparation.exported, workload, preparation, threads)
        scratch = Path(tempfile.gettempdir())
        with tidied_at_sigterm(), HeldFolder(scratch, "wattstep-export-") as made:
            place = made / "export"
            preparation.begin("model")
            export_in_child(self.name, workload, preparation, place)
            trainer = self._open(place, workload, preparation, threads)
            trainer.keep_batches()
        return trainer

    def _check_threads(self, threads: int | None) -> None:
        if self.one_thread and threads not in (None, 1):
            raise InvalidValueError(
                f"--threads {threads}: {self.one_thread}: leave it out",
                id="threads-not-for-engine",
            )

    def check(self, workload: Specification, preparation: Preparation, precision: str) -> None:
        """Refuses a training that cannot be exported, before anything is done.

        Raises:
            InvalidValueError: With the setting.
        """
        workload.check_precision(precision)
        preparation.check(workload.facts)
        if precision != "fp32":
            raise InvalidValueError(
                f"--precision {precision}: {self.name} trains in fp32 here: leave it out, or train with "
                "--engine torch",
                id="precision-not-for-engine",
            )
        usual = Preparation(batch_size=preparation.batch_size)
        for field, option in _UNHEEDED.items():
            if field not in self.options and getattr(preparation, field) != getattr(usual, field):
                raise InvalidValueError(
                    f"{option}: {self.name} has no such thing: leave it out, or train with --engine torch",
                    id="not-for-engine",
                )
        settings = preparation.optimizer or workload.optimizer
        if settings is not None:
            Update(self.name, settings.name, settings.options)

    def _open(
        self,
        place: Path,
        workload: Specification,
        preparation: Preparation,
        threads: int | None,
    ) -> ExportedTrainer:
        return self.open(self.open_folder(place, workload, preparation), threads)

    def open_folder(
        self, place: Path, workload: Specification, preparation: Preparation
    ) -> ExportedFolder:
        """The folder of an exported training, which is the one that is asked for.

        Raises:
            InvalidValueError: It is of another engine, workload or batch size, or no such folder.
            DamagedRunError: A file is missing, cut off or changed.
        """
        folder = ExportedFolder(place)
        training = folder.training
        wanted = {
            "engine": (training.engine, self.name),
            "workload": (training.workload, workload.facts.name),
            "batch size": (training.batch_size, preparation.batch_size),
        }
        for what, (is_, asked) in wanted.items():
            if is_ != asked:
                raise InvalidValueError(
                    f"{place} was exported with {what} {is_}, not {asked}", id="other-export"
                )
        return folder

    def export(
        self,
        workload: Specification,
        preparation: Preparation,
        out: Path,
        tell: Callable[[str], None] = lambda stage: None,
    ) -> None:
        """As `Engine.export`."""
        self.check(workload, preparation, "fp32")
        self.load()
        require("wattstep.engines.torch.export.exporting").export(
            self, workload, preparation, out, tell
        )


def export_in_child(
    engine: str, workload: Specification, preparation: Preparation, out: Path
) -> None:
    """Exports in a process of its own, so that torch never comes into this one.

    Args:
        engine: Its name.
        workload: What is to be trained.
        preparation: How.
        out: The folder, which is made.

    Raises:
        WattstepError: It cannot be exported, or the export crashed.
        KeyboardInterrupt: The user stopped it.
    """
    asked = pickle.dumps((engine, workload, replace(preparation, on_part=None), out))
    entry = "wattstep.engines.exported.engine:export_main"
    in_child("the export", entry, b64encode(asked).decode())


def in_child(doing: str, entry: str, *arguments: str) -> None:
    """Runs a function of ours in a process of its own; what it refuses is refused here.

    Args:
        doing: What it does, in a few words.
        entry: As of `child_command`.
        arguments: For it.

    Raises:
        WattstepError: It refused, or ended otherwise.
        KeyboardInterrupt: The user stopped it.
    """
    reading, writing = os.pipe()
    endings: list[ChildNews] = []
    with tempfile.TemporaryFile() as output:
        try:
            child = subprocess.Popen(
                child_command(entry, str(writing), str(os.getpid()), *arguments),
                stdout=output, stderr=output, pass_fds=[writing], env=dict(os.environ),
            )  # fmt: skip
        finally:
            os.close(writing)
        try:
            stopped = listen(reading, endings.append)
            code, late = outwait(child)
            if stopped or late or code == 130:
                raise KeyboardInterrupt
        except BaseException:
            child.kill()
            child.wait()
            raise
        output.seek(0)
        last = output.read()[-2000:].decode(errors="replace").strip().splitlines()
    for news in endings:
        if "error" in news:
            raise error_of({"id": news.get("id"), "kind": news.get("kind")}, news["error"])
    if code != 0:  # a crash, which is no refusal
        why = f": {last[-1]}" if last else ""
        raise WattstepError(f"{doing} {ending_words(code)}{why}", id="no-end-of-export")


def _told(call: Callable[[], None]) -> int:
    """Calls, and tells the parent what is refused; a child's arguments begin with where, and its parent."""
    end_with(int(sys.argv[2]))
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as pipe:
        try:
            call()
        except WattstepError as error:
            pipe.write(json.dumps(refusal_news(error)) + "\n")
            return 2
    return 0


def export_main() -> int:
    """Of a child that exports what it is asked for."""
    from wattstep import engines

    name, workload, preparation, out = pickle.loads(b64decode(sys.argv[3]))
    return _told(lambda: engines.find(name).export(workload, preparation, out))


def run_course(engine: str, folder: Path, scratch: Path) -> Course:
    """The first steps of an engine from an exported folder, in a process without torch.

    Args:
        engine: Its name.
        folder: The exported training.
        scratch: A folder for what the child writes.

    Raises:
        WattstepError: The engine refused, or crashed.
    """
    entry = "wattstep.engines.exported.engine:course_main"
    doing = f"{engine}, which takes ten steps to be held against torch's,"
    in_child(doing, entry, engine, str(folder), str(scratch))
    with np.load(scratch / "first.npz") as first, np.load(scratch / "last.npz") as last:
        return Course(
            losses=list(np.load(scratch / "losses.npy")),
            first={name: first[name] for name in first.files},
            last={name: last[name] for name in last.files},
        )


def course_main() -> int:
    """Of the child of `run_course`."""

    def call() -> None:
        from wattstep import engines

        engine, place, scratch = sys.argv[3], Path(sys.argv[4]), Path(sys.argv[5])
        found = engines.find(engine)
        assert isinstance(found, ExportedEngine)
        found.load()
        trainer = found.open(ExportedFolder(place), 1)
        trainer.checked = 0  # the parent judges, and says more
        losses: list[float] = []
        for step in range(STEPS):
            losses.append(trainer.step())
            if step == 0:
                save_arrays(scratch / "first.npz", trainer.weights())
        save_arrays(scratch / "last.npz", trainer.weights())
        np.save(scratch / "losses.npy", np.array(losses))

    return _told(call)
