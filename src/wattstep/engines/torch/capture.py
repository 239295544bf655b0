"""Operations, sizes and memory of a training step without running it: from fake tensors, which have shapes and no values.

What only values decide (a game that is played, boxes that are matched) cannot be captured so: such
a training is built and run for real, one step at each batch size that is captured, and says so.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final

import numpy as np
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedOperatorException,
)

from wattstep.engines.step_phases import DATA
from wattstep.engines.torch import batch_values
from wattstep.engines.torch.allocations import CATEGORIES, HELD, OPTIMIZER_STATE
from wattstep.engines.torch.draws import DRAWN, drawing_from, drawn_so_far
from wattstep.engines.torch.fake import ShapeMode
from wattstep.engines.torch.flops import COUNTED, flops_of
from wattstep.engines.torch.kept_steps import LIBRARIES, third_batch
from wattstep.engines.torch.lstm_workspace import lstm_workspace
from wattstep.engines.torch.memory import (
    MemoryTracker,
    bytes_of_tensors,
    finding_tensors,
    tensors_in,
    tensors_there,
)
from wattstep.engines.torch.trainer import TorchTrainer, count_model
from wattstep.engines.torch.uncompiled import COMPILED, is_compiled, uncompiled
from wattstep.engines.torch.without_compiler import without_compiler
from wattstep.errors import InvalidValueError
from wattstep.schema.operation_kinds import kind_of
from wattstep.schema.step_graph import (
    Convolution,
    Recurrent,
    StepFamily,
    StepGraph,
    alike,
    lies_on_line,
)
from wattstep.schema.workload import Preparation
from wattstep.workloads.data.samples import Samples
from wattstep.workloads.torch.supervised import evaluating
from wattstep.workloads.torch.workload import reading_once

Tensors = Callable[[], list[torch.Tensor]]

FAKE: Final = (2, 3)  # batch sizes of captures: of one sample, dimensions may vanish
RUN_THIRD: Final = 8  # where it is really run
VALUES_DIFFER: Final = 0.1  # part of a size that values may change
PAGES_DIFFER: Final = 0.05  # part of the size of a few samples that pages may add or miss
# Errors of what shapes alone do not tell; numpy's, of being handed a fake tensor, is a RuntimeError.
# Whatever else they stand for is raised again by the real run that follows.
NEEDS_VALUES: Final = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
    NotImplementedError,
    RuntimeError,
)
DEVICE: Final = torch.ops.prim.device.default
TRUNCATED: Final = "_no_grad_trunc_normal_"  # of torch.nn.init
LSTM: Final = "mkldnn_rnn_layer.default"
GATES: Final = {"LSTM": 4, "GRU": 3}
RUN: Final = "what its operations do depends on values ({error}): it was run to see them"
NO_EVALUATION: Final = (
    "its evaluation could not be captured ({error}): what one takes of memory is not known"
)
SPARSE: Final = "some of its gradients are sparse: what they take of memory depends on the values of a batch, and is left out"
SHAPES, BATCH, WHOLE = "shapes", "values of the batch", "a step that runs"  # what a capture takes
OF_BATCH: Final = (
    "which operations it has depends on values of its batch ({error}): they are those of one batch, and others "
    "take more or less"
)


class StepCapture(MemoryTracker):  # type: ignore[no-untyped-call]
    """While active, notes each operation with its FLOPs and bytes, beside the storages it follows.

    Args:
        model: Whose parameters and buffers are named.
        optimizers: Whose state is named.
        before: Bytes of tensors in this process that are none of the training's.
        there: Gives all tensors of this process.
        valued: Whether batches have values, as of `batch_values`.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizers: list[Any],
        *,
        before: int,
        there: Tensors,
        valued: bool = False,
    ) -> None:
        super().__init__(model, optimizers, there=there)
        self._before, self._valued = before, valued
        self.sizes: list[tuple[int, int, int]] = []  # FLOPs, bytes read, bytes written
        self.convolutions: dict[int, Convolution] = {}
        self.sparse = False
        self._paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What runs meanwhile is not noted."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled meanwhile, and hiding each call takes a while

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is DEVICE and isinstance(args[0], FakeTensor):  # asked for at every turn
            return args[0].device
        # Names of stretches, and questions for a tensor's device, are no operations.
        if self._paused or func.namespace in ("profiler", "prim"):
            return func(*args, **(kwargs or {}))
        return self._follow(func, args, kwargs or {})

    def _called(
        self, func: Any, args: Any, taken: list[torch.Tensor], made: list[torch.Tensor]
    ) -> None:
        """As `MemoryTracker._called`: sizes and shapes are noted."""
        shapes = _convolution(func, args, made)
        if shapes is not None:
            self.convolutions[len(self.sizes)] = shapes
        self.sparse = self.sparse or any(each.is_sparse for each in made)
        self.sizes.append(_sizes(func, args, taken, made))

    def _call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """As `MemoryTracker._call`; what fake tensors say of an LSTM's workspace, nothing, is put right."""
        if self._valued:
            made = batch_values.call(func, args, kwargs, data=self.ledger.phase == "data")
        else:
            made = super()._call(func, args, kwargs)
        if func.__name__ == LSTM and isinstance(made[0], FakeTensor):
            return (*made[:3], torch.empty(lstm_workspace(func, args), dtype=torch.uint8))
        return made

    def graph(self, batch_size: int, model: torch.nn.Module, *, accumulate: int = 1) -> StepGraph:
        """What was noted, once the capture has been left."""
        count = len(self.sizes)
        _, *names = self._names
        numbers = np.array(self.sizes, float).reshape(count, 3)
        # What is there before the step and outlives it is one storage a category, since the order in
        # which they are seen says nothing. The state of optimizers is there before all steps but the first.
        lasting = dict.fromkeys(CATEGORIES, 0)
        passing = []
        for each in self.ledger.storages:
            if each.freed is not None:
                passing.append(each)
            elif each.made == 0 or each.label == OPTIMIZER_STATE:
                lasting[each.category] += each.size
            elif each.phase == "data":
                lasting[HELD] += each.size
            else:
                passing.append(each)
        lasting[HELD] -= self._before
        made = [each.made for each in passing]
        freed = [count + 1 if each.freed is None else each.freed for each in passing]
        called = tuple("aten::" + name.split(".")[1] for name, _, _ in names)
        return StepGraph(
            batch_size=batch_size,
            accumulate=accumulate,
            names=called,
            kinds=tuple(
                "optimizer" if phase == "optimizer" else kind_of(name)
                for name, (_, phase, _) in zip(called, names, strict=True)
            ),
            phases=tuple(phase for _, phase, _ in names),
            layers=tuple(layer or "" for _, _, layer in names),
            flops=numbers[:, 0],
            read_bytes=numbers[:, 1],
            written_bytes=numbers[:, 2],
            sizes=np.array([*lasting.values(), *(each.size for each in passing)], float),
            categories=(*lasting, *(each.category for each in passing)),
            made=np.array([0] * len(lasting) + made, np.int64),
            freed=np.array([count + 1] * len(lasting) + freed, np.int64),
            counts=count_model(model),
            convolutions=self.convolutions,
            recurrent=_recurrent(model),
            libraries=tuple(name for name in LIBRARIES if name in sys.modules),
        )


def _convolution(func: Any, args: Any, made: list[torch.Tensor]) -> Convolution | None:
    """Shapes of a call that is a convolution, or the backward pass of one."""
    name = func.overloadpacket.__name__
    if name == "convolution":
        taken, weight, given, strides, dilation, transposed = (
            args[0], args[1], made[0], args[3], args[5], args[6],
        )  # fmt: skip
    elif name == "convolution_backward":
        given, taken, weight, strides, dilation, transposed = (
            args[0], args[1], args[2], args[4], args[6], args[7],
        )  # fmt: skip
    else:
        return None
    kernel = tuple(weight.shape[2:])
    return Convolution(
        images=float(taken.shape[0]),
        inputs=taken.shape[1],
        outputs=given.shape[1],
        kernel=kernel,
        stride=tuple(strides) * (len(kernel) // len(strides)),
        groups=args[9] if name == "convolution_backward" else args[8],
        input_size=tuple(taken.shape[2:]),
        output_size=tuple(given.shape[2:]),
        dilation=tuple(dilation) if max(dilation) > 1 else (),
        transposed=bool(transposed),
        bias=bool(args[10][2]) if name == "convolution_backward" else args[2] is not None,
        scattered=name == "convolution_backward" and not given.is_contiguous(),
    )


def _recurrent(model: torch.nn.Module) -> dict[str, Recurrent]:
    """Shapes of recurrent modules by path."""
    return {
        path: Recurrent(
            gates=GATES.get(module.mode, 1),
            inputs=module.input_size,
            hidden=module.hidden_size,
            layers=module.num_layers,
            directions=2 if module.bidirectional else 1,
        )
        for path, module in model.named_modules()
        if isinstance(module, torch.nn.RNNBase)
    }


def sizes_of(func: Any, args: Any, kwargs: Any, made: Any) -> tuple[int, int, int]:
    """FLOPs, bytes read and bytes written of a call."""
    return _sizes(func, args, tensors_in((args, kwargs)), tensors_in(made))


def _sizes(
    func: Any, args: Any, taken: list[torch.Tensor], made: list[torch.Tensor]
) -> tuple[int, int, int]:
    name = f"aten::{func.overloadpacket.__name__}"
    if func.namespace == "wattstep":  # of an offload: copies of whole storages
        size = next(each for each in args if isinstance(each, int))
        return 0, size, size
    flops = None
    if name in COUNTED:
        flops = flops_of(
            name,
            [tuple(each.shape) if isinstance(each, torch.Tensor) else None for each in args],
            [None if isinstance(each, torch.Tensor) else each for each in args],
        )
    if getattr(func, "is_view", False):
        return flops or 0, 0, 0
    if flops and any(each.is_complex() for each in taken):  # a product of four numbers each
        flops *= 4
    changed = tensors_in([args[place] for place in _changed(func) if place < len(args)])
    read, written = sum(_bytes(taken).values()), sum(_bytes([*changed, *made]).values())
    return flops or 0, read, written


@cache
def _changed(func: Any) -> tuple[int, ...]:
    """Places of the arguments that a call writes to."""
    return tuple(
        place
        for place, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )


def _bytes(tensors: Iterable[torch.Tensor]) -> dict[int, int]:
    """Bytes of tensors by the object that they are."""
    return {id(each): each.numel() * each.element_size() for each in tensors}


def captured_as_it_can(
    workload: Any,
    preparation: Preparation,
    precision: str,
    there: Tensors,
    evaluated: bool = False,
    follower: Callable[..., StepCapture] = StepCapture,
) -> tuple[StepGraph, str]:
    """A step, and what it took: shapes alone, values of its batch, or to be run."""
    taken = partial(
        _captured, workload, preparation, precision, there, evaluated=evaluated, follower=follower
    )
    try:
        return taken(fake=True), SHAPES
    except NEEDS_VALUES as error:
        line = _line(error)
    gc.collect()  # what the error held of fake tensors, which would be taken for the training's
    try:
        graph = taken(fake=True, valued=True)
        return replace(graph, notes=(OF_BATCH.format(error=line), *graph.notes)), BATCH
    except NEEDS_VALUES:  # of more than its batch
        pass
    gc.collect()
    graph = taken(fake=False)
    return replace(graph, notes=(RUN.format(error=line), *graph.notes)), WHOLE


def capture(
    workload: Any,
    preparation: Preparation,
    *,
    precision: str = "fp32",
    evaluated: bool = False,
) -> StepFamily:
    """The training step of a workload, at any batch size.

    A third capture, at a large batch, shows whether operations stay the same and sizes grow in
    proportion. Where they do not (distances between all samples, a branch on the batch), each
    batch size is captured by itself.

    Args:
        workload: As `TorchTrainer` takes it.
        preparation: Its batch size is the largest that anybody asks for.
        precision: As `TorchTrainer` takes it.
        evaluated: Whether `StepFamily.evaluation_at` is to know the forward pass of an evaluation.

    Raises:
        InvalidValueError: It depends on values, and does not grow in proportion to the batch.
    """
    samples: dict[str, Samples] = {}
    with finding_tensors() as there, reading_once(samples):
        return _family(workload, preparation, precision, there, evaluated, samples)


def _family(
    workload: Any,
    preparation: Preparation,
    precision: str,
    there: Tensors,
    evaluated: bool,
    samples: dict[str, Samples],
) -> StepFamily:
    def capture_with(size: int) -> tuple[StepGraph, str]:
        prepared = replace(preparation, batch_size=size)
        return captured_as_it_can(workload, prepared, precision, there, evaluated)

    (small, took), (large, other) = map(capture_with, FAKE)
    if WHOLE in (took, other):  # it really runs: at a small batch
        run = small if took == WHOLE else large
        named, *others = run.notes
        if not alike(small, large):
            raise InvalidValueError(
                f"{named}, and from batch {FAKE[0]} to {FAKE[1]} they are not the same: such a training cannot "
                f"be predicted; {_advice(named)}",
                id="data-dependent",
            )
        note = (
            f"{named}, at batch {FAKE[0]}, {FAKE[1]} and {RUN_THIRD}; others follow in proportion"
        )
        family = StepFamily(small=replace(small, notes=(note, *others)), large=large)
        if not lies_on_line(family, capture_with(RUN_THIRD)[0], tolerance=VALUES_DIFFER):
            raise InvalidValueError(
                f"{named}, and sizes are not in proportion to the batch: such a training cannot be predicted; "
                f"{_advice(named)}",
                id="data-dependent",
            )
        return family

    captured: dict[int, StepGraph] = {}
    at_a_time = small.evaluation_batch
    valued = BATCH in (took, other)

    def taken(size: int, there: Tensors, evaluated: bool) -> StepGraph:
        prepared = replace(preparation, batch_size=size)
        graph = _captured(
            workload, prepared, precision, there,
            fake=True, valued=valued, evaluated=evaluated,
        )  # fmt: skip  # never really run: that would take the memory of such a batch
        return replace(graph, notes=small.notes or large.notes)

    def at(size: int) -> StepGraph:
        if size not in captured:
            with reading_once(samples):
                captured[size] = taken(size, tensors_there, evaluated and is_asked(size))
        return captured[size]

    def is_asked(size: int) -> bool:
        """True if somebody may ask for the evaluation of a step of this size."""
        return at_a_time in (None, size)

    each = StepFamily(small=small, large=large, capture=at)
    try:
        third = taken(third_batch(preparation), there, False)  # its step alone is looked at
        if not is_asked(third_batch(preparation)):
            captured[third_batch(preparation)] = third
        if not alike(small, third) and _train_alike(
            small, third
        ):  # an epoch ends within such a step
            third = taken(third_batch(preparation) // 2, there, False)
    except (
        Exception
    ):  # of the user's own code: of a batch that somebody asks for it is raised again
        return each
    if not (alike(small, large) and alike(small, third)):
        return each
    near = StepFamily(small=small, large=large)
    if lies_on_line(near, third):
        return near
    # What oneDNN keeps of an LSTM's few samples fills pages of 4 KiB: from afar that is less of the slope.
    evaluation = near.evaluation_at(third.batch_size)
    far = StepFamily(small=small, large=replace(third, evaluation=evaluation))
    return far if not valued and lies_on_line(far, large, tolerance=PAGES_DIFFER) else each


def _advice(named: str) -> str:
    """Which trainings can be captured where this one cannot: a value decides operations, or sizes.

    Args:
        named: The note of a step that was run, with the error of its capture by shapes alone.
    """
    if DataDependentOutputException.__name__ in named:  # a tensor became a number of Python's
        return "one in which no branch and no loop depends on the value of a tensor can: take it out of that line"
    return "one whose samples are of one size can"


def _train_alike(one: StepGraph, other: StepGraph) -> bool:
    """True if two captures have the same operations but for what loads data."""
    trained = [
        [pair for pair in zip(each.names, each.phases, strict=True) if pair[1] != DATA]
        for each in (one, other)
    ]
    return trained[0] == trained[1]


def _line(error: BaseException) -> str:
    """What is wrong in one line, with the last line of code on the way there that is none of torch's or the engine's."""
    message = f"{type(error).__name__}: {error}".splitlines()[0]
    own = [Path(torch.__file__).parent, Path(__file__).parent]
    frames = [
        frame
        for frame in extract_tb(error.__traceback__)
        if not any(Path(frame.filename).is_relative_to(folder) for folder in own)
    ]
    if not frames:
        return message
    return f"{message}, in line {frames[-1].lineno} of {Path(frames[-1].filename).name}"


def _captured(
    workload: Any,
    preparation: Preparation,
    precision: str,
    there: Tensors,
    *,
    fake: bool,
    valued: bool = False,
    evaluated: bool = False,
    follower: Callable[..., StepCapture] = StepCapture,
) -> StepGraph:
    with (
        uncompiled(),
        without_compiler(),
        _threads_kept(),
        drawing_from(preparation.seed),
        warnings.catch_warnings(),
        _young(fake),
        _not_drawn() if fake else nullcontext(),
    ):
        if fake:  # of what fake tensors cannot do, which is refused anyway
            warnings.simplefilter("ignore")
        mode: AbstractContextManager[Any] = ShapeMode() if fake else nullcontext()
        with mode:
            before = bytes_of_tensors(tensors=there())
            with batch_values.real_data() if valued else nullcontext(None) as begin:
                if begin is not None:
                    preparation = replace(preparation, on_part=begin)
                trainer = TorchTrainer(workload, preparation, precision=precision)
            if valued:
                batch_values.check_unknown(trainer.model)
            taking = follower(
                trainer.model,
                [each.optimizer for each in trainer.updates],
                before=before,
                there=there,
                valued=valued,
            )
            drawn = drawn_so_far()
            with taking:
                losses = [  # kept, as a step keeps them
                    trainer.take(update, _Marks(taking, update.optimizer))
                    for update in trainer.updates
                ]
            graph = taking.graph(
                preparation.batch_size, trainer.model, accumulate=preparation.accumulate
            )
            said = {
                DRAWN: drawn != drawn_so_far(),
                COMPILED: is_compiled(trainer.model),
                SPARSE: taking.sparse,
            }
            graph = replace(
                graph,
                data_known=trainer.data is not None,
                notes=(*graph.notes, *(note for note, holds in said.items() if holds)),
            )
            del taking, losses
            if evaluated:
                evaluation, failure = _evaluation(trainer, preparation, before, there, valued)
                graph = replace(
                    graph,
                    evaluation=evaluation,
                    evaluation_batch=getattr(trainer.training, "evaluation_batch", None),
                    notes=(*graph.notes, *failure),
                )
            del trainer
    return graph


def _evaluation(
    trainer: TorchTrainer, preparation: Preparation, before: int, there: Tensors, valued: bool
) -> tuple[StepGraph | None, tuple[str, ...]]:
    """The forward pass of an evaluation with the training's batch, None where there is none, and why it fails.

    Of several updates none is it: a game is played, or two networks take turns.
    """
    if len(trainer.updates) > 1:
        return None, ()
    [update] = trainer.updates
    taking = StepCapture(
        trainer.model, [update.optimizer], before=before, there=there, valued=valued
    )
    try:
        with evaluating(trainer.model), taking:
            batch = update.next_batch(lambda name: nullcontext())
            taking.phase("forward")
            loss = update.loss(batch)
    except (
        Exception
    ) as error:  # of a network that does something else then, which nobody can foretell
        return None, (NO_EVALUATION.format(error=_line(error)),)
    del batch, loss
    return taking.graph(preparation.batch_size, trainer.model), ()


class _Marks:
    """Told of phases: before the first update the optimizer is stepped once, unseen, to make its state."""

    def __init__(self, taking: StepCapture, optimizer: Any) -> None:
        self._taking, self._optimizer = taking, optimizer

    def __call__(self, name: str) -> None:
        if name == "optimizer":
            with self._taking.paused():
                self._optimizer.step()
        self._taking.phase(name)


@contextmanager
def _young(fake: bool) -> Iterator[None]:
    """What is made within is gone in the end, so that the next capture sees tensors of its own alone.

    Without values nothing is collected meanwhile: what is made stays young, and only that is
    looked through in the end, not all that the process has, unless somebody asked for a collection.
    """
    collects, collected = gc.isenabled(), _collections()
    if fake:
        gc.disable()
    try:
        yield
    finally:
        gc.collect(0 if fake and _collections() == collected else 2)
        if collects:
            gc.enable()


def _collections() -> int:
    """How often garbage was collected in this process."""
    return sum(generation["collections"] for generation in gc.get_stats())


@contextmanager
def _not_drawn() -> Iterator[None]:
    """Weights of a truncated normal distribution are left as they are: torch draws them again until they fit.

    That asks for values, which decide nothing else: every vision transformer begins so.
    """
    draw = getattr(torch.nn.init, TRUNCATED, None)
    if draw is None:  # of another release: such a network is run
        yield
        return
    setattr(torch.nn.init, TRUNCATED, lambda tensor, *bounds, **options: tensor)
    try:
        yield
    finally:
        setattr(torch.nn.init, TRUNCATED, draw)


@contextmanager
def _threads_kept() -> Iterator[None]:
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
