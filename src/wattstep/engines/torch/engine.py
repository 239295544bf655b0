"""The door of torch: says what the engine can without loading it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wattstep.engines.torch.gpu import PROCESSORS
from wattstep.errors import InvalidValueError, WattstepError
from wattstep.schema.ceilings import Asked, Ceilings
from wattstep.schema.device_queue import DeviceQueue
from wattstep.schema.engine import Engine, ModelCounts, Trainer
from wattstep.schema.extras import require
from wattstep.schema.run_documents import GpuFacts
from wattstep.schema.step_memory import DeviceMemory
from wattstep.schema.tracer import Code, Tracer
from wattstep.schema.training_hooks import Listener, PhaseListener, ScriptTuning, TrainingHooks
from wattstep.schema.workload import ModuleSource, Preparation, Specification

if TYPE_CHECKING:
    from wattstep.schedule.tasks import TaskGraph
    from wattstep.schema.operation_times import OperationTimes
    from wattstep.schema.step_graph import StepFamily

T = TypeVar("T")
_ROOT: Final = Path(__file__).parents[2]
# Precisions of GPUs alone are captured on the CPU as what has the same tensors: TF32 is inside a kernel's
# arithmetic, and autocasting to fp16 casts what autocasting to bfloat16 casts.
CAPTURED_AS: Final = {"tf32": "fp32", "amp-fp16": "amp"}


class TorchEngine(Engine):
    """Trains on torch, on CPUs and GPUs."""

    name = "torch"
    processors = PROCESSORS
    options: Sequence[str] = (
        "channels_last", "compiled", "policy", "checkpointing", "train_last", "lora", "optimizer", "offload",
        "optimizer_kernel", "interop_threads",
    )  # fmt: skip

    def load(self) -> None:
        """As `Engine.load`."""
        require("wattstep.engines.torch.trainer")

    def prepare(
        self,
        workload: Specification,
        preparation: Preparation,
        *,
        threads: int | None = None,
        processor: str = "cpu",
        precision: str = "fp32",
    ) -> Trainer:
        """As `Engine.prepare`."""
        if preparation.policy is None:
            make = require("wattstep.engines.torch.trainer").TorchTrainer
        else:
            make = require("wattstep.engines.torch.scheduled.trainer").ScheduledTrainer
        trainer: Trainer = make(
            require("wattstep.workloads.torch").TorchWorkload(workload),
            preparation,
            threads=threads,
            processor=processor,
            precision=precision,
        )
        return trainer

    def threads(self) -> int:
        """As `Engine.threads`."""
        return int(sys.modules["torch"].get_num_threads())

    def use_threads(self, threads: int) -> None:
        """As `Engine.use_threads`."""
        sys.modules["torch"].set_num_threads(threads)

    def random_state(self) -> Any:
        """As `Engine.random_state`."""
        return sys.modules["torch"].get_rng_state()

    def restore_random_state(self, state: Any) -> None:
        """As `Engine.restore_random_state`."""
        sys.modules["torch"].set_rng_state(state)

    def settle_script(self, script: ScriptTuning) -> None:
        """As `Engine.settle_script`."""
        from wattstep.engines.torch.settled_script import settle

        settle(script)

    def tracer(self, code: Code) -> Tracer:
        """As `Engine.tracer`."""
        from wattstep.engines.torch.tracer import TorchTracer

        return TorchTracer(code)

    def device_queue(self) -> DeviceQueue | None:
        """As `Engine.device_queue`: the GPU on which most of this process's tensors lie."""
        cuda = getattr(sys.modules["torch"], "cuda", None)
        if cuda is None or not cuda.is_initialized():  # asking for more would begin its context
            return None
        from wattstep.engines.torch.device_queue import find_queue

        return find_queue(cuda)

    def samples_in(self, batch: Any) -> int | None:
        """As `Engine.samples_in`."""
        from wattstep.engines.torch.hooks import samples_of

        return samples_of(batch)

    def listen(self, listener: Listener, marker: str) -> None:
        """As `Engine.listen`."""
        from wattstep.engines.torch.hooks import TorchHooks

        TorchHooks(listener, marker).install()

    def follow(self, listener: PhaseListener) -> TrainingHooks:
        """As `Engine.follow`."""
        from wattstep.engines.torch.phase_hooks import PhaseHooks

        hooks = PhaseHooks(listener, lambda network: None)
        hooks.install()
        hooks.watch_optimizers()
        return hooks

    def bytes_of_tensors(self, absent: Callable[[int, int], int]) -> int:
        """As `Engine.bytes_of_tensors`."""
        from wattstep.engines.torch.memory import bytes_of_tensors

        return bytes_of_tensors(absent=absent)

    def device_memory(self, processor: str) -> DeviceMemory | None:
        """As `Engine.device_memory`."""
        if processor == "cpu":
            return None
        from wattstep.engines.torch.device_memory import GpuMemory
        from wattstep.engines.torch.processor import find_device

        find_device(processor)
        return GpuMemory()

    def memory_account(self, processor: str) -> str:
        """As `Engine.memory_account`."""
        if processor == "cpu":
            return ""
        from wattstep.engines.torch.device_memory import GpuMemory

        try:
            return GpuMemory().account()
        except RuntimeError:  # of a GPU that failed altogether
            return ""

    def lacking(self, processor: str) -> str | None:
        """As `Engine.lacking`."""
        from wattstep.engines.torch.gpu import lacking

        return lacking(processor)

    def device_facts(self, processor: str) -> GpuFacts:
        """As `Engine.device_facts`."""
        if processor == "cpu":
            return {}
        from wattstep.engines.torch.gpu import facts

        return facts(sys.modules["torch"].cuda, processor)

    def count(self, workload: Specification, preparation: Preparation) -> ModelCounts:
        """As `Engine.count`."""
        facts: ModelCounts = require("wattstep.engines.torch.facts").describe(
            require("wattstep.workloads.torch").TorchWorkload(workload), preparation
        )
        return facts

    def counted_from(self) -> tuple[Sequence[Path], Sequence[str]]:
        """As `Engine.counted_from`."""
        rooms = [*(_ROOT / "workloads").rglob("*.*"), *(_ROOT / "engines").rglob("*.py")]
        files = [path for path in rooms if path.suffix in (".py", ".toml")]
        return files, list(map(_version, LIBRARIES))

    def ceilings(self, asked: Asked, tell: Callable[[str], None]) -> Ceilings:
        """As `Engine.ceilings`."""
        measured: Ceilings = require("wattstep.engines.torch.ceilings").measure(asked, tell)
        return measured

    def time_operations(self, trainer: Trainer) -> OperationTimes:
        """As `Engine.time_operations`."""
        times: OperationTimes = require("wattstep.engines.torch.operation_times").time_operations(
            trainer
        )
        return times

    def capture(
        self,
        workload: Specification | ModuleSource,
        preparation: Preparation,
        precision: str,
        *,
        evaluated: bool = False,
    ) -> StepFamily:
        """As `Engine.capture`."""
        if not isinstance(workload, ModuleSource):
            workload.check_precision(precision)
        precision = CAPTURED_AS.get(precision, precision)
        if not isinstance(workload, ModuleSource):
            from wattstep.engines.torch.kept_steps import kept_family

            return kept_family(
                workload,
                preparation,
                precision,
                lambda: require("wattstep.engines.torch.capture").capture(
                    require("wattstep.workloads.torch").TorchWorkload(workload),
                    preparation,
                    precision=precision,
                    evaluated=evaluated,
                ),
                evaluated=evaluated,
            )
        made = require("wattstep.engines.torch.module_workload").ModuleWorkload(workload)
        capture = require("wattstep.engines.torch.capture").capture
        family: StepFamily = _of_user(workload, capture)(
            made, preparation, precision=precision, evaluated=evaluated
        )
        if family.capture is None:
            return family
        return replace(family, capture=_of_user(workload, family.capture))

    def capture_tasks(
        self, workload: Specification | ModuleSource, preparation: Preparation, precision: str
    ) -> TaskGraph:
        """As `wattstep.engines.capture_tasks`."""
        capture: Callable[..., TaskGraph] = require(
            "wattstep.engines.torch.task_capture"
        ).capture_tasks
        if not isinstance(workload, ModuleSource):
            made = require("wattstep.workloads.torch").TorchWorkload(workload)
            return capture(made, preparation, precision=precision)
        own = require("wattstep.engines.torch.module_workload").ModuleWorkload(workload)
        return _of_user(workload, capture)(own, preparation, precision=precision)


def _of_user(source: ModuleSource, call: Callable[..., T]) -> Callable[..., T]:
    """The call, with what the user's own code raises in one line."""

    def refusing(*args: Any, **options: Any) -> T:
        try:
            return call(*args, **options)
        except WattstepError:
            raise
        except (Exception, SystemExit) as error:  # it may raise anything
            shape = "x".join(map(str, source.input_shape))
            line = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InvalidValueError(
                f"{source.name} cannot be trained on inputs of {shape}: {line}", id="unfit-inputs"
            ) from error

    return refusing


class CompiledTorchEngine(TorchEngine):
    """torch with its compiler: `--engine torch-compile` is `--engine torch --compile`, and says so."""

    name = "torch-compile"
    # The compiler itself decides what is saved for the backward pass.
    options = tuple(
        each for each in TorchEngine.options if each not in ("policy", "checkpointing", "offload")
    )

    @property
    def module(self) -> str:
        """As in the attributes."""
        return "torch"

    def prepare(self, workload: Specification, preparation: Preparation, **how: Any) -> Trainer:
        """As `Engine.prepare`."""
        return super().prepare(workload, replace(preparation, compiled=True), **how)


LIBRARIES: Final = ("torch", "transformers")  # whose code the counts depend on
ENGINE: Final = TorchEngine()
COMPILED: Final = CompiledTorchEngine()


def _version(library: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(library)
    except PackageNotFoundError:
        return ""
