"""Operations, sizes and memory of a training step without running it: from fake tensors, which have shapes and no values.

What only values decide (a game that is played, boxes that are matched) cannot be captured so: such
a training is built and run for real at two small batch sizes, and says so.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from math import prod
from typing import Any, Final

import numpy as np
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils import _pytree as pytree

from wattstep.engines.torch.allocations import CATEGORIES, HELD, OPTIMIZER_STATE
from wattstep.engines.torch.flops import flops_of
from wattstep.engines.torch.memory import MemoryTracker, bytes_of_tensors
from wattstep.engines.torch.trainer import TorchTrainer, count_model
from wattstep.schema.operation_kinds import kind_of
from wattstep.schema.step_graph import StepFamily, StepGraph, alike
from wattstep.schema.workload import Preparation

FAKE: Final = (2, 3)  # batch sizes of captures: of one sample, dimensions may vanish
# Errors of what shapes alone do not tell; a RuntimeError is numpy's being handed a fake tensor.
NEEDS_VALUES: Final = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
    NotImplementedError,
    RuntimeError,
)
RUN: Final = (
    "what its operations do depends on values ({error}): it was run at batch {small} and {large} "
    "to see them, and sizes at other batches follow from these two"
)


class StepCapture(MemoryTracker):
    """While active, notes each operation with its FLOPs and bytes, beside the storages it follows.

    Args:
        model: Whose parameters and buffers are named.
        optimizers: Whose state is named.
        before: Bytes of tensors in this process that are none of the training's.
    """

    def __init__(self, model: torch.nn.Module, optimizers: list[Any], *, before: int) -> None:
        super().__init__(model, optimizers)
        self._before = before
        self.sizes: list[tuple[int, int, int]] = []  # FLOPs, bytes read, bytes written
        self._paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What runs meanwhile is not noted."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._paused or func.namespace == "profiler":  # names of stretches are no operations
            return func(*args, **(kwargs or {}))
        made = super().__torch_dispatch__(func, types, args, kwargs)
        self.sizes.append(_sizes(func, args, kwargs or {}, made))
        return made

    def graph(self, batch_size: int, model: torch.nn.Module) -> StepGraph:
        """What was noted, once the capture has been left."""
        count = len(self.sizes)
        _, *names = self._names
        numbers = np.array(self.sizes, float).reshape(count, 3)
        # What is there before the step and outlives it is one storage a category, since the order in
        # which they are seen says nothing. The state of optimizers is there before all steps but the first.
        lasting = dict.fromkeys(CATEGORIES, 0)
        passing = []
        for each in self.ledger.storages:
            if each.freed is None and (each.made == 0 or each.label == OPTIMIZER_STATE):
                lasting[each.category] += each.size
            else:
                passing.append(each)
        lasting[HELD] -= self._before
        made = [each.made for each in passing]
        freed = [count + 1 if each.freed is None else each.freed for each in passing]
        facts = count_model(model)
        called = tuple("aten::" + name.split(".")[1] for name, _, _ in names)
        return StepGraph(
            batch_size=batch_size,
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
            parameters=facts["parameters"],
            trainable=facts["trainable_parameters"],
        )


def _sizes(func: Any, args: Any, kwargs: Any, made: Any) -> tuple[int, int, int]:
    """FLOPs, bytes read and bytes written of a call."""
    name = f"aten::{func.overloadpacket.__name__}"
    flops = flops_of(
        name,
        [tuple(each.shape) if isinstance(each, torch.Tensor) else None for each in args],
        [None if isinstance(each, torch.Tensor) else each for each in args],
    )
    if getattr(func, "is_view", False):
        return flops or 0, 0, 0
    changed = [
        value
        for argument, value in zip(func._schema.arguments, args, strict=False)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    taken = _bytes((args, kwargs))
    return flops or 0, sum(taken.values()), sum((_bytes(changed) | _bytes(made)).values())


def _bytes(tree: Any) -> dict[int, int]:
    """Bytes of tensors by the object that they are."""
    return {
        id(leaf): prod(leaf.shape) * leaf.element_size()
        for leaf in pytree.tree_leaves(tree)
        if isinstance(leaf, torch.Tensor)
    }


def capture(
    workload: Any, preparation: Preparation, *, precision: str = "fp32"
) -> StepFamily:
    """The training step of a workload, at any batch size.

    Args:
        workload: As `TorchTrainer` takes it.
        preparation: Its batch size says nothing here: the family has all.
        precision: As `TorchTrainer` takes it.

    Raises:
        InvalidValueError: It can be captured neither from shapes nor by running it.
    """
    try:
        graphs = [
            _captured(workload, replace(preparation, batch_size=size), precision, fake=True)
            for size in FAKE
        ]
        reason = "" if alike(*graphs) else "its operations differ from batch to batch"
    except NEEDS_VALUES as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
    if reason:
        note = RUN.format(error=reason, small=FAKE[0], large=FAKE[1])
        graphs = [
            replace(
                _captured(workload, replace(preparation, batch_size=size), precision, fake=False),
                notes=(note,),
            )
            for size in FAKE
        ]
    return StepFamily(small=graphs[0], large=graphs[1])


def _captured(
    workload: Any, preparation: Preparation, precision: str, *, fake: bool
) -> StepGraph:
    with _threads_kept(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what fake tensors cannot do, which is refused anyway
        mode: AbstractContextManager[Any] = (
            FakeTensorMode(allow_non_fake_inputs=True) if fake else nullcontext()
        )
        with mode:
            before = bytes_of_tensors()
            trainer = TorchTrainer(workload, preparation, precision=precision)
            taking = StepCapture(trainer.model, [each.optimizer for each in trainer.updates], before=before)
            with taking:
                for update in trainer.updates:
                    trainer.take(update, _Marks(taking, update.optimizer))
        graph = taking.graph(preparation.batch_size, trainer.model)
    del trainer, taking
    gc.collect()  # the next capture is to see tensors of its own alone
    return graph


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
def _threads_kept() -> Iterator[None]:
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
