"""The door of a framework: what every engine gives, and what it makes of a workload that is to be trained.

Engines and trainers inherit from `Engine` and `Trainer`: what is abstract there is all that one has
to give; the rest says that a framework lacks it, until it is overridden.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from wattstep.errors import InvalidValueError, MissingPartError, RecordingError
from wattstep.schema.ceilings import Asked, Ceilings
from wattstep.schema.condition_documents import CompilingFacts
from wattstep.schema.device_queue import DeviceQueue
from wattstep.schema.extras import loading
from wattstep.schema.run_documents import (
    GpuFacts,
    ModelFacts,
    ScheduleFacts,
    TrainingOptions,
)
from wattstep.schema.step_memory import DeviceMemory, MemoryTracker, Meter
from wattstep.schema.tracer import Code, Tracer
from wattstep.schema.training_hooks import Listener, PhaseListener, ScriptTuning, TrainingHooks
from wattstep.schema.workload import DataFacts, ModuleSource, Preparation, Specification, kind_of

if TYPE_CHECKING:
    from wattstep.schema.arrays import ByteArray, FloatArray
    from wattstep.schema.operation_times import (
        OperationTimes,  # needs numpy, which a board may lack
    )
    from wattstep.schema.step_graph import StepFamily

Mark = Callable[[str], None]


def is_installed(module: str) -> bool:
    """True if a module can be imported; it is not."""
    try:
        return module in sys.modules or find_spec(module) is not None
    except ValueError:  # of a stand-in without a specification
        return True


def ignore_phase(name: str) -> None:
    """For steps that nobody records."""


def check_lacking(processor: str, reason: str | None) -> None:
    """Refuses a processor that cannot be trained on here.

    Args:
        processor: As it was asked for.
        reason: As `Engine.lacking` gives it.

    Raises:
        InvalidValueError: With what is missing, and how to get it.
    """
    if reason is not None:
        raise InvalidValueError(f"--processor {processor}: {reason}", id="no-gpu")


class Classifier(Protocol):
    """A trainer whose samples have a class each: what training by the day (`daily`) needs of it."""

    @property
    def samples(self) -> tuple[int, int]:
        """Number of samples to train on, and number held out."""
        ...

    def restrict(
        self, indices: Sequence[int], *, seed: int, classes: Sequence[int] | None = None
    ) -> None:
        """From now on draws from these samples only, in an order of its own.

        Args:
            indices: Among the samples to train on.
            seed: Of the order.
            classes: What each is trained as, in place of its true class.
        """
        ...

    def classes_of(self, indices: Sequence[int]) -> list[int]:
        """True classes of samples to train on."""
        ...

    def scores(self, indices: Sequence[int]) -> FloatArray:
        """The model's scores of each class, of samples to train on, float64, shape (n, classes)."""
        ...

    def pictures(self, indices: Sequence[int]) -> ByteArray | None:
        """Samples to train on as pictures, shape (n, height, width, 1 or 3); None: they are none."""
        ...

    def right_on(self, indices: Sequence[int], *, held_out: bool = False) -> list[bool]:
        """Mask of the samples that the model classifies correctly.

        Args:
            indices: Among the samples that are held out, or those to train on.
            held_out: Which of the two.
        """
        ...

    def load_weights(self, path: Path) -> None:
        """Reads the model alone of what `Trainer.save` wrote; the optimizer stays fresh.

        Raises:
            OSError: The file cannot be read.
            RuntimeError: It belongs to another model.
        """
        ...

    def hash_weights(self) -> str:
        """SHA-256 over all parameters and buffers, in hexadecimal digits."""
        ...

    def seed(self, number: int) -> None:
        """Seeds whatever the model draws (dropout) from here on."""
        ...


class Trainer(Protocol):
    """A workload on an engine, ready to train.

    Attributes:
        engine: What it trains on.
        model: The framework's own object, all of it.
        data: Which data it trains on.
    """

    engine: Engine
    model: Any
    data: DataFacts

    @property
    def threads(self) -> int | None:
        """Threads of an operation; None where that is not known."""
        return self.engine.threads()

    @property
    def classifier(self) -> Classifier | None:
        """None where samples have no class each, or the engine does not train by the day."""
        return None

    @property
    def options(self) -> TrainingOptions:
        """Further facts of how it trains, JSON-ready; e.g. "frames_per_step"."""
        return {}

    def compiling(self) -> CompilingFacts | None:
        """What compiling the model took, asked after the last step; None where nothing is compiled."""
        return None

    def scheduling(self) -> ScheduleFacts | None:
        """How operations are planned, once they are; None where the framework runs them in its own order."""
        return None

    def due(self) -> Callable[[], None] | None:
        """What is to be done before the next step, beside the training; asked after each step. None: nothing."""
        return None

    def remarks(self) -> Sequence[str]:
        """What a reader of its run must know, a line each; told after the last step."""
        return ()

    @abstractmethod
    def step(self, mark: Mark = ignore_phase) -> float:
        """Runs one training step; returns its loss.

        Args:
            mark: Told "data", "forward", "backward", "optimizer" where each phase begins.
        """

    def nudge(self) -> None:
        """Moves every parameter by about one rounding, up or down: what rounding alone does to a training.

        Raises:
            InvalidValueError: The engine cannot.
        """
        raise InvalidValueError(
            f"{self.engine.name} does not tell what rounding does to its trainings: it cannot be tuned",
            id="not-tunable",
        )

    def evaluate(self) -> Mapping[str, float]:
        """Evaluation of the model on held-out samples; see `Training.evaluate`."""
        return {}

    def model_facts(self) -> ModelFacts:
        """Parameters (all and trainable) and layers that hold any; empty where nothing counts them."""
        return {}

    def memory(self) -> dict[str, int]:
        """Bytes of what training keeps or makes at every step: "parameters", "gradients", ...

        Where the engine tells all that its device holds, named as marks of a run name the peak of a
        step (`recorded.device_memory`): "at_peak." before each category, "allocated", "reserved".
        Empty where the framework does not tell them.
        """
        return {}

    def memory_tracker(self, meter: Meter, device: str = "cpu") -> MemoryTracker | None:
        """Follows the memory of one step; None where the framework does not let it be followed.

        Args:
            meter: Measures around each operation.
            device: The kind of device whose memory is asked for.
        """
        return None

    def save(self, path: Path) -> int:
        """Writes model and optimizers, whole or not at all; returns the bytes written.

        Raises:
            OSError: It cannot be written.
            InvalidValueError: The engine keeps no checkpoints.
        """
        raise InvalidValueError(f"{self.engine.name} keeps no checkpoints of its trainings")

    def load(self, path: Path) -> None:
        """Reads what `save` wrote for the same workload.

        Raises:
            OSError: The file cannot be read.
            RuntimeError: It belongs to another model.
            InvalidValueError: The engine keeps no checkpoints.
        """
        raise InvalidValueError(f"{self.engine.name} keeps no checkpoints of its trainings")


class PublishedCounts(TypedDict):
    """The published configuration of a workload, and its parameters in our code; None: not counted."""

    classes: int | None
    image_size: int | None
    parameters: int | None


class ModelCounts(ModelFacts, total=False):
    """A model's facts with those of the published configuration, and FLOPs of the forward passes of a step."""

    published: PublishedCounts
    forward_flops_per_sample: int


class Engine(Protocol):
    """A framework that trains. What is said without a call loads nothing of it.

    Attributes:
        name: As on the command line.
        module: Of the framework, which says, once it is in `sys.modules`, that it is loaded; the
            name where nothing else is said.
        processors: Kinds of processors that it records trainings on: "cpu", "cuda", or any other
            name that it knows.
        options: Of "channels_last", "compiled", "policy", "checkpointing", "train_last", "lora",
            "optimizer", "offload", "optimizer_kernel", "interop_threads" and "opencl_mode" those of a
            `Preparation` that it heeds.
        exports: Whether it trains what `export` writes, and not workloads as they are.
        requires: What pip installs where it trains, e.g. "mnn>=3.6"; nothing where it is not for us
            to install.
    """

    name: str
    processors: Sequence[str] = ("cpu",)
    options: Sequence[str] = ()
    exports: bool = False
    requires: Sequence[str] = ()

    @property
    def module(self) -> str:
        """As in the attributes."""
        return self.name

    def load(self) -> None:
        """Loads the framework.

        Raises:
            MissingPartError: It is not installed, or cannot be loaded.
        """
        if (reason := self.missing()) is not None:
            raise MissingPartError(reason, id="missing-framework")
        with loading(self.name):
            self.import_framework()

    def import_framework(self) -> None:
        """Imports what trains; `load` has seen that it is installed."""
        import_module(self.module)

    def missing(self) -> str | None:
        """Why the framework cannot be loaded, with how to get it; None: it is there. Loads nothing."""
        return None if is_installed(self.module) else f"{self.name} is not installed"

    @abstractmethod
    def prepare(
        self,
        workload: Specification,
        preparation: Preparation,
        *,
        threads: int | None = None,
        processor: str = "cpu",
        precision: str = "fp32",
    ) -> Trainer:
        """Builds model, optimizer and data.

        Args:
            workload: What to train; begin with its `check`.
            preparation: Batch size, seed, data and shape.
            threads: Of an operation; the framework's own choice where None.
            processor: As `schema.workload.check_processing` takes it.
            precision: One of `PRECISIONS`.

        Raises:
            InvalidValueError: A setting cannot be used, or the data there cannot be read.
            MissingPartError: The framework, or another library, is not installed.
        """

    def export(
        self,
        workload: Specification,
        preparation: Preparation,
        out: Path,
        tell: Callable[[str], None] = lambda stage: None,
    ) -> None:
        """Writes a training into a folder from which this engine trains it, where torch is not.

        Args:
            workload: What is to be trained.
            preparation: How.
            out: The folder, which is made.
            tell: Hears what is done next.

        Raises:
            InvalidValueError: It cannot be exported, or the engine trains workloads as they are.
            MissingPartError: The engine, or torch, is not installed.
        """
        raise InvalidValueError(
            f"{self.name} trains workloads as they are: nothing is exported for it",
            id="nothing-to-export",
        )

    def version(self) -> str:
        """Name and version for a run's description, e.g. "torch 2.4.0"; the framework is loaded."""
        return f"{self.name} {sys.modules[self.module].__version__}"

    def threads(self) -> int | None:
        """Threads of an operation in this process, None: not known; the framework is loaded."""
        return None

    def use_threads(self, threads: int) -> None:
        """Changes the threads of an operation in this process, from the next step on.

        Raises:
            InvalidValueError: The framework cannot.
        """
        raise InvalidValueError(
            f"{self.name} does not change its threads while it trains: it cannot be tuned",
            id="not-tunable",
        )

    def random_state(self) -> Any:
        """State of the framework's own generator, for trainings that take turns in one process."""
        return None

    def restore_random_state(self, state: Any) -> None:
        """Puts back what `random_state` gave."""
        return None

    def settle_script(self, script: ScriptTuning) -> None:
        """Puts settings into somebody's own script, for as long as the process lives; the framework is loaded.

        Raises:
            InvalidValueError: The framework cannot, or does not know one of them.
        """
        raise InvalidValueError(
            f"{self.name} lets nobody put settings into a script", id="not-tunable"
        )

    fewer_threads: str = "--threads {}"  # how fewer are asked for, their number at {}
    one_thread: str = ""  # why an operation never has more than one; "": it may

    def usual_threads(self, one_a_core: int) -> int:
        """Threads of an operation where nobody says how many; the framework need not be loaded.

        Args:
            one_a_core: As many as torch takes.
        """
        return one_a_core

    def tracer(self, code: Code) -> Tracer | None:
        """Tracer of its operations; None where it cannot be traced. The framework is loaded."""
        return None

    def device_queue(self) -> DeviceQueue | None:
        """Queue of the device that this process trains on; None: on the host. The framework is loaded."""
        return None

    def samples_in(self, batch: Any) -> int | None:
        """Samples of a batch: the rows of its first tensor; None where there is none."""
        return None

    def listen(self, listener: Listener, marker: str) -> None:
        """Tells of somebody's own script what it does, for as long as the process lives.

        An engine that does not override this tells nothing: such a script marks its own steps.

        Args:
            listener: Is told.
            marker: What ends a step, see `engines.markers`.
        """
        return None

    def follow(self, listener: PhaseListener) -> TrainingHooks | None:
        """Tells of a training of somebody else's trainer what runs in its steps, until it is removed.

        None where the framework does not tell.

        Args:
            listener: Is told.
        """
        return None

    def bytes_of_tensors(self, absent: Callable[[int, int], int]) -> int:
        """Bytes that all tensors of this process take of main memory; the framework is loaded.

        Args:
            absent: As `Meter.absent`: what was allocated and never touched takes none.

        Raises:
            InvalidValueError: The framework does not tell them.
        """
        raise InvalidValueError(f"{self.name} does not tell how much memory its tensors take")

    def device_memory(self, processor: str) -> DeviceMemory | None:
        """Memory of the device that a processor stands for; None where that is the CPU.

        Raises:
            InvalidValueError: There is no such processor here.
            RecordingError: The framework does not tell its memory.
        """
        if processor == "cpu":
            return None
        check_lacking(processor, self.lacking(processor))
        raise RecordingError(f"{self.name} does not tell the memory of {processor}")

    def memory_account(self, processor: str) -> str:
        """What is known of a device's memory when an allocation failed, in a few words.

        "" where nothing is: of the CPU the allocator's own message, and the process, say it.
        """
        return ""

    def lacking(self, processor: str) -> str | None:
        """Why it cannot train on a processor here and what to do, in one line; None: it can.

        The framework need not be installed, and is loaded only where nothing simpler tells.
        """
        if kind_of(processor) in self.processors:
            return None
        return f"{self.name} trains on {', '.join(self.processors)} only"

    def device_facts(self, processor: str) -> GpuFacts:
        """Facts of the device that a processor stands for, JSON-ready; the framework is loaded.

        Of a GPU: "name", "compute_capability", "memory" (bytes), "multiprocessors",
        "shares_memory" (with the CPU), "driver", "cuda", "cudnn"; what is not known is left out.
        Empty for the CPU, which `RunInfo.device` describes.
        """
        return {}

    def count(self, workload: Specification, preparation: Preparation) -> ModelCounts:
        """Facts that are counted from the model itself, JSON-ready.

        Returns:
            "parameters", "trainable_parameters", "layers", "weight_layers" as it trains;
            "published" ("classes", "image_size", "parameters" of the published configuration);
            "forward_flops_per_sample".

        Raises:
            WattstepError: The workload cannot be built, or nothing counts it.
        """
        raise InvalidValueError(f"nothing counts the layers of a workload on {self.name}")

    def counted_from(self) -> tuple[Sequence[Path], Sequence[str]]:
        """Dependencies of `count`: files of code, and versions of libraries."""
        return (), ()

    def ceilings(self, asked: Asked, tell: Callable[[str], None]) -> Ceilings:
        """Measured ceilings of this machine with the framework.

        Args:
            asked: What is to be measured.
            tell: Hears what is measured next.

        Raises:
            InvalidValueError: The engine measures none, or has no such threads or precisions.
            MissingPartError: The framework is not installed.
        """
        raise InvalidValueError(f"{self.name} measures no ceilings")

    def time_operations(self, trainer: Trainer) -> OperationTimes:
        """Takes a few steps, and times the operations of some.

        Args:
            trainer: Of this engine, on the CPU; one that has made a step.

        Raises:
            InvalidValueError: The engine times none.
            RecordingError: No two steps of many have the same operations.
        """
        raise InvalidValueError(f"{self.name} does not time operations one by one")

    def capture(
        self,
        workload: Specification | ModuleSource,
        preparation: Preparation,
        precision: str,
        *,
        evaluated: bool = False,
    ) -> StepFamily:
        """A training step at any batch size, captured without running it.

        Args:
            workload: Of the suite, or a module of the user's.
            preparation: Its batch size is the largest that anybody asks for.
            precision: Of the training.
            evaluated: Whether the forward pass of an evaluation is captured, too.

        Raises:
            InvalidValueError: It cannot be captured, or the engine captures none.
            MissingPartError: The framework is not installed.
        """
        raise InvalidValueError(f"{self.name} does not capture a step without running it")
