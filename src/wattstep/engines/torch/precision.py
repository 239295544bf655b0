"""Precisions of a training on torch: what each needs of a GPU, and what is set for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from wattstep.errors import InvalidValueError
from wattstep.schema.run_documents import TrainingOptions

# bfloat16 and TF32 came with compute capability 8.0 (Ampere); torch would imitate them before,
# slowly, or leave TF32 out without a word: neither is what was asked for.
_FROM_AMPERE: Final = {"tf32": "TF32", "bf16": "bfloat16", "amp": "bfloat16"}
AMPERE: Final = (8, 0)
WITHOUT_TF32: Final = (
    "fp32 is fp32 here: TF32 is off in products of matrices and in convolutions, where torch's own "
    "default has it on in convolutions (cudnn.allow_tf32); --precision tf32 has it on in both"
)
_AUTOCAST: Final = {"amp": torch.bfloat16, "amp-fp16": torch.float16}
_MOST_NAMED: Final = 5


def check_hardware(precision: str, name: str, capability: tuple[int, int]) -> None:
    """Refuses a precision for which a GPU has no hardware.

    Args:
        precision: One of `PRECISIONS`.
        name: Of the GPU.
        capability: Its compute capability.

    Raises:
        InvalidValueError: It has none.
    """
    if precision in _FROM_AMPERE and capability < AMPERE:
        raise InvalidValueError(
            f"--precision {precision}: {name} has compute capability "
            f"{capability[0]}.{capability[1]}, and {_FROM_AMPERE[precision]} begins with 8.0: "
            "it trains in fp32 and amp-fp16",
            id="precision-needs-newer-gpu",
        )


def set_tf32(on: bool) -> TrainingOptions:
    """Whether products of matrices and convolutions of fp32 tensors are rounded to TF32.

    torch's own default is halfway: products are not, convolutions are. Here it is all or nothing.

    Returns:
        What was set, in torch's words, for the options of a run.
    """
    matmul = "high" if on else "highest"
    torch.set_float32_matmul_precision(matmul)
    torch.backends.cudnn.allow_tf32 = on
    return {"matmul_precision": matmul, "cudnn_allow_tf32": on}


def autocast_of(precision: str, device: torch.device) -> Callable[[], Any]:
    """Makes the context that a forward pass runs in."""
    if precision not in _AUTOCAST:
        return nullcontext
    return partial(torch.autocast, device.type, dtype=_AUTOCAST[precision])


def to_bfloat16(model: torch.nn.Module) -> None:
    """Weights in place, so that the optimizer keeps them, and whatever enters the model."""
    tensors = [each for each in (*model.parameters(), *model.buffers()) if each.is_floating_point()]
    if any(isinstance(each, FakeTensor) for each in tensors):  # which `Module.to` cannot swap
        for each in tensors:
            each.data = each.data.to(torch.bfloat16)
    else:
        model.to(torch.bfloat16)
    model.register_forward_pre_hook(_narrow, with_kwargs=True)


def _narrow(module: Any, arguments: Any, named: Any) -> Any:
    return pytree.tree_map(_to_bf16, (arguments, named))


def _to_bf16(value: Any) -> Any:
    floats = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(torch.bfloat16) if floats else value


class Scaling:
    """Scale of the loss in amp-fp16, which keeps gradients from vanishing, and the updates it leaves out.

    An update whose gradients overflow is left out and the scale is halved, as torch does it.

    Args:
        device: Where the gradients are.
    """

    def __init__(self, device: torch.device) -> None:
        self._scaler = torch.amp.GradScaler(device.type)
        self._updates = 0
        self._left_out: list[int] = []
        self._made = 0
        self._watched: set[int] = set()

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss, times the scale."""
        scaled: torch.Tensor = self._scaler.scale(loss)
        return scaled

    def update(self, optimizer: Any, step: int) -> None:
        """Takes the optimizer's step, unless a gradient overflowed.

        Args:
            optimizer: Whose gradients are there.
            step: Number of the training step, for what is said later.
        """
        if id(optimizer) not in self._watched:
            # The optimizer itself says that it was called: to ask the scale would wait for the GPU.
            optimizer.register_step_post_hook(self._count)
            self._watched.add(id(optimizer))
        before = self._made
        self._scaler.step(optimizer)
        self._scaler.update()
        self._updates += 1
        if self._made == before:
            self._left_out.append(step)

    def _count(self, *_: Any) -> None:
        self._made += 1

    @property
    def remark(self) -> str | None:
        """How many updates it left out; None: none."""
        if not self._left_out:
            return None
        named = ", ".join(str(step) for step in self._left_out[:_MOST_NAMED])
        more = ", ..." if len(self._left_out) > _MOST_NAMED else ""
        return (
            f"amp-fp16: gradients overflowed in {len(self._left_out)} of {self._updates} updates, "
            f"which were left out (steps {named}{more}, from 0); the loss is scaled by "
            f"{self._scaler.get_scale():g} at the end"
        )

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        state: dict[str, Any] = self._scaler.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._scaler.load_state_dict(dict(state))
