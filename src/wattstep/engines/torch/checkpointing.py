"""Activation checkpointing of any model: blocks drop what they saved, and compute it again in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial, wraps
from itertools import chain
from typing import Any, Final

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import CheckpointError, checkpoint

from wattstep.errors import InvalidValueError

LEAST_LAYERS: Final = 2  # of a block: one layer keeps little more than its input, as a block would
Modules = Sequence[nn.Module]
_CHANGED: Final = "modified by an inplace operation"  # in torch's words


def checkpoint_blocks(model: nn.Module, workload: str) -> Callable[[], None]:
    """Has each block of a model save its input alone; what the model computes stays bit for bit.

    Random numbers are drawn again as they were. BatchNorm counts a batch once: computed again, it
    normalises with the batch and leaves its running statistics.

    Returns:
        Refuses, once the model has been trained a step, one that called none of its blocks.

    Raises:
        InvalidValueError: It has no blocks: no part of it holds two layers or more, but itself.
    """
    blocks = find_blocks(model)
    if not blocks:
        raise InvalidValueError(
            f"--checkpointing: {workload} has no blocks, parts with two layers or more of their own",
            id="no-blocks",
        )
    called: set[int] = set()
    whole = {id(block[0]): block for parent, block in blocks if parent is None}
    of_sequence: dict[int, tuple[nn.Sequential, list[Modules]]] = {}
    for parent, block in blocks:
        if parent is not None:
            of_sequence.setdefault(id(parent), (parent, []))[1].append(block)
    for block in whole.values():  # each once, however many places call it
        module = block[0]
        module.forward = _recomputed(module.forward, block, workload, called)
    for sequence, runs in of_sequence.values():
        parts = list(_parts(list(sequence), runs, workload, called))
        sequence.forward = partial(_in_turn, parts)  # type: ignore[method-assign]
    return partial(_check_called, called, workload)


def _check_called(called: set[int], workload: str) -> None:
    if not called:
        raise InvalidValueError(
            f"--checkpointing: {workload} calls none of its blocks, but the layers in them, so that all "
            "activations would stay",
            id="no-blocks",
        )


def find_blocks(model: nn.Module) -> list[tuple[nn.Sequential | None, Modules]]:
    """Blocks of a model: parts of its tree of modules, and runs of a plain sequence's children.

    A block holds at least two and at most L layers that own parameters, and is the outermost such
    part. Beside the inputs of all blocks, the activations of one are there at a time: of all L, the
    one whose blocks and single layers, counted, and layers of the largest block add up to the least
    is taken, and of equal ones the smallest. In a chain of n layers alike that makes √n blocks.

    Source: Chen et al., arXiv 1604.06174, section 4.1, here by the boundaries that a model has.

    Returns:
        Each block's modules; with the sequence whose children they are, where it is a run of them.
    """
    sizes = {id(module): _layers_in(module) for module in model.modules()}
    cuts = [_cut(model, most, sizes) for most in sorted(set(range(LEAST_LAYERS, sizes[id(model)])))]

    def cost(blocks: list[tuple[nn.Sequential | None, Modules]]) -> int:
        held = [sum(sizes[id(module)] for module in block) for _, block in blocks]
        within = {id(module): sizes[id(module)] for _, block in blocks for module in block}
        return sizes[id(model)] - sum(within.values()) + len(held) + max(held)

    return min((blocks for blocks in cuts if blocks), key=cost, default=[])


def _layers_in(module: nn.Module) -> int:
    return sum(
        1 for each in module.modules() if next(each.parameters(recurse=False), None) is not None
    )


def _cut(
    module: nn.Module, most: int, sizes: dict[int, int]
) -> list[tuple[nn.Sequential | None, Modules]]:
    """The outermost blocks of at most so many layers."""
    blocks: list[tuple[nn.Sequential | None, Modules]] = []
    if isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward:
        # Not of `children()`, which names a module once that is called at several places.
        for run in _runs(list(module), most, sizes):
            held = sum(sizes[id(each)] for each in run)
            if held > most:
                blocks += _cut(run[0], most, sizes)
            elif held >= LEAST_LAYERS:
                composite = len(run) == 1 or sizes[id(run[0])] == held
                blocks.append((None, run[:1]) if composite else (module, run))
        return blocks
    for child in module.children():
        if LEAST_LAYERS <= sizes[id(child)] <= most and not _is_list(child):
            blocks.append((None, [child]))
        else:
            blocks += _cut(child, most, sizes)
    return blocks


def _is_list(module: nn.Module) -> bool:
    """True if it is never called: its parent calls its children."""
    return isinstance(module, (nn.ModuleList, nn.ModuleDict)) and (
        getattr(type(module), "forward", None) is nn.Module.forward
    )


def _runs(children: Modules, most: int, sizes: dict[int, int]) -> Iterator[Modules]:
    """Children in runs that begin with layers, of at most so many each; one larger is a run of its own."""
    run: list[nn.Module] = []
    held = 0
    for child in children:
        size = sizes[id(child)]
        if size and (held + size > most or not held):
            if held:
                yield run
            run, held = [], 0
        run.append(child)
        held += size
    if held:
        yield run


def _parts(
    children: list[nn.Module], runs: list[Modules], workload: str, called: set[int]
) -> Iterator[Callable[[Any], Any]]:
    """What a sequence calls one after the other: its children, and in their place runs of them, in order."""
    n = 0
    waiting = list(runs)
    while n < len(children):
        run = waiting[0] if waiting else ()
        if run and list(map(id, children[n : n + len(run)])) == list(map(id, run)):
            yield _recomputed(partial(_in_turn, run), run, workload, called)
            n += len(run)
            del waiting[0]
        else:
            yield children[n]
            n += 1


def _in_turn(parts: Sequence[Callable[[Any], Any]], given: Any) -> Any:
    for part in parts:
        given = part(given)
    return given


def _recomputed(
    forward: Callable[..., Any], block: Modules, workload: str, called: set[int]
) -> Callable[..., Any]:
    """A forward pass that is computed again when its backward pass begins."""
    norms = [each for module in block for each in module.modules() if isinstance(each, _BatchNorm)]
    checked = False

    @wraps(forward)
    def computing(*arguments: Any, **named: Any) -> Any:
        nonlocal checked
        if not torch.is_grad_enabled():
            return forward(*arguments, **named)
        states = [] if checked else _buffers(block)
        made = checkpoint(
            forward, *arguments, use_reentrant=False, context_fn=partial(_contexts, norms), **named
        )
        if not checked:
            _check_buffers(states, workload)
            checked = True
            called.add(id(block))
        return made

    return computing


def _contexts(
    norms: Sequence[_BatchNorm],
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    return nullcontext(), _statistics_left(norms)


@contextmanager
def _statistics_left(norms: Sequence[_BatchNorm]) -> Iterator[None]:
    """Meanwhile those that normalise with the batch leave their running statistics as they are.

    They still take them: a block computed again is to save just as many tensors.
    """
    counting = [each for each in norms if each.training and each.track_running_stats]
    before = [(each, each.momentum, each.num_batches_tracked) for each in counting]
    for each in counting:
        each.momentum, each.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for each, momentum, batches in before:
            each.momentum, each.num_batches_tracked = momentum, batches


def _buffers(block: Modules) -> list[tuple[str, torch.Tensor, int]]:
    """Buffers that a forward pass is not to change: all but those of BatchNorm."""
    modules = chain.from_iterable(module.modules() for module in block)
    return [
        (f"{name} of {type(each).__name__}", buffer, buffer._version)
        for each in modules
        if not isinstance(each, _BatchNorm)
        for name, buffer in each.named_buffers(recurse=False)
    ]


def _check_buffers(states: Sequence[tuple[str, torch.Tensor, int]], workload: str) -> None:
    for name, buffer, version in states:
        if buffer._version != version:
            raise InvalidValueError(
                f"--checkpointing: {workload} changes the {name} in each forward pass, so that it "
                "cannot be computed again",
                id="state-changed",
            )


@contextmanager
def explaining(workload: str) -> Iterator[None]:
    """Turns what torch says of a block that cannot be computed again into one line.

    Raises:
        InvalidValueError: Its input was changed in place, or it computed something else.
    """
    try:
        yield
    except CheckpointError as error:
        line = str(error).strip().splitlines()[0]
        raise InvalidValueError(
            f"--checkpointing: {workload} computes something else the second time: {line}",
            id="computed-otherwise",
        ) from error
    except RuntimeError as error:
        if _CHANGED not in str(error):
            raise
        raise InvalidValueError(
            f"--checkpointing: {workload} changes the input of a block in place, so that it cannot "
            "be computed again",
            id="input-changed",
        ) from error
