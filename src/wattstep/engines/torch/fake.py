"""Fake tensors as torch makes them, with short ways for the calls of which a training has most.

What torch's own mode computes of such a call takes it up to milliseconds, in Python: of batch normalization it
computes each intermediate result. The short ways give the same shapes, strides, types and storages, and leave
whatever they do not know to torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch._decomp import decomposition_table, meta_table
from torch._library.simple_registry import singleton as registered
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorMode,
    in_kernel_invocation_manager,
    torch_decomp_decompositions,
)
from torch.utils._mode_utils import no_dispatch

from wattstep.engines.torch.memory import tensors_in

aten: Final = torch.ops.aten
_CPU: Final = torch.device("cpu")
IMAGE: Final = 2  # dimensions of an image
_VALUES: Final = (
    bool,
    int,
    float,
    str,
    torch.dtype,
    torch.layout,
    torch.memory_format,
    torch.device,
)


class _Layout(NamedTuple):
    """How a tensor lies in a storage of its own."""

    shape: Sequence[int]
    strides: Sequence[int]
    dtype: torch.dtype
    device: torch.device


class ShapeMode(FakeTensorMode):  # type: ignore[no-untyped-call]
    """While active, tensors have shapes and no values."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        # torch's own is shared by all modes, also with answers of a compiler whose sizes are symbols.
        self.cache_enabled = False
        self._functional: dict[Any, bool] = {}
        self._kernel: dict[Any, bool] = {}
        self._made: dict[Any, tuple[bool, list[_Layout | None]]] = {}
        self._alike: dict[torch.device, dict[str, Any]] = {}  # attributes of tensors by device

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled meanwhile, and hiding each call takes a while

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        rule = RULES.get(func)
        made = NotImplemented if rule is None else rule(self, func, args, named)
        if made is not NotImplemented:
            return made
        key = self._key(func, args, named)
        if key in self._made:
            several, layouts = self._made[key]
            tensors = [None if each is None else _laid(self, each) for each in layouts]
            return tuple(tensors) if several else tensors[0]
        made = NotImplemented if key is None else _by_shapes(self, func, args, named)
        if made is NotImplemented:
            made = super().__torch_dispatch__(func, types, args, named)
        if key is not None:
            several = isinstance(made, tuple)
            outputs: list[Any] = list(made) if isinstance(made, tuple) else [made]
            if _are_new(self, outputs, (args, named)):
                layouts = [None if each is None else _layout(each) for each in outputs]
                self._made[key] = several, layouts
        return made

    def __deepcopy__(self, memo: Any) -> ShapeMode:
        """Itself: the tensors of a layer that is copied stay of this mode, and are the ones that operations change."""
        return self

    def fake(self, meta: torch.Tensor, device: torch.device) -> FakeTensor:
        """A tensor of this mode upon one of the meta device, as FakeTensor's constructor makes it.

        That looks at all that it might be given, and sets a score of attributes, which tensors of a device share.
        """
        alike = self._alike.get(device)
        if alike is None:
            made = FakeTensor(self, meta, device)
            self._alike[device] = dict(vars(made))
            return made
        made = torch.Tensor._make_subclass(
            FakeTensor,
            meta,
            meta.requires_grad,
            dispatch_device=True,
            device_for_backend_keys=device,
        )
        if self._allow_unsafe_data_ptr_access:
            torch._C._set_warn_deprecated_on_mutable_data_ptr(made)
        else:
            torch._C._set_throw_on_mutable_data_ptr(made)
        vars(made).update(alike)
        return made

    def asks_kernel(self, func: Any) -> bool:
        """As `_asks_kernel`, of a function whose calls are functional."""
        asks = self._kernel.get(func)
        if asks is None:
            asks = self._kernel[func] = _asks_kernel(self, func)
        return asks

    def _key(self, func: Any, args: Any, kwargs: Any) -> Any:
        """All that decides on the shapes of what a call makes; None where that is more than these."""
        functional = self._functional.get(func)
        if functional is None:
            functional = self._functional[func] = _is_functional(func)
        if not functional:
            return None
        parts = [func, torch.get_default_dtype(), torch.is_inference_mode_enabled()]
        known = _describe(self, args, parts) and _describe(self, kwargs.values(), parts)
        return (*parts, *kwargs) if known else None


Rule = Callable[[ShapeMode, Any, Any, Any], Any]


def _in_place(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """A change of values: of numbers alone, and of tensors of the same shape and type; a constant's is made, too."""
    changed = args[0]
    if type(changed) is FakeTensor and changed.constant is not None and changed.fake_mode is mode:
        drawn = torch.Tag.nondeterministic_seeded in func.tags  # real random numbers would be taken
        if drawn or kwargs or not all(isinstance(each, (int, float)) for each in args[1:]):
            return NotImplemented
        with no_dispatch():
            func(changed.constant, *args[1:])
        return changed
    if not _is_plain(mode, changed):
        return NotImplemented
    for each in args[1:]:
        if isinstance(each, torch.Tensor):
            if not (
                _is_plain(mode, each)
                and each.dtype == changed.dtype
                and each.device == changed.device
                and each.shape == changed.shape
            ):
                return NotImplemented
        elif not isinstance(each, (int, float)):
            return NotImplemented
    if not changed.dtype.is_floating_point or not kwargs.keys() <= {"alpha", "value", "generator"}:
        return NotImplemented
    return changed


def _elementwise(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """As large as what it takes: tensors of one shape and type that lie as they are read, and numbers."""
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    numbers = (each for each in (*args, *kwargs.values()) if not isinstance(each, torch.Tensor))
    first = args[0]
    if not all(type(each) in (int, float) for each in numbers) or not all(
        _is_float32(mode, each) and each.shape == first.shape and each.device == first.device
        for each in tensors
    ):
        return NotImplemented
    return _empty(mode, first, first.shape)


def _copied(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """A tensor that takes the values of another one of its shape, of whatever type."""
    into, of, *_ = args
    if not (_is_plain(mode, into) and _is_plain(mode, of)) or into.shape != of.shape:
        return NotImplemented
    return into


def _number(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """What `torch.tensor` makes of a number, whose value stays known."""
    [of] = args
    if type(of) is not torch.Tensor or of.dim() or of.layout != torch.strided or of.device != _CPU:
        return NotImplemented
    made = mode.fake(torch.empty((), dtype=of.dtype, device="meta"), _CPU)
    with no_dispatch():
        made.constant = of.clone()
    mode.fake_tensor_converter.add_constant_storage_mapping(made)
    return made


def _view(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Another look at a tensor's storage, or several."""
    of, *given = args
    if not _is_plain(mode, of) or tensors_in((given, kwargs)):
        return NotImplemented
    with in_kernel_invocation_manager(mode):
        made = func(*args, **kwargs)
    if isinstance(made, torch.Tensor):
        return mode.fake(made, of.fake_device)
    return type(made)(mode.fake(each, of.fake_device) for each in made)


def _created(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """A tensor of a shape that is given: of zeros, of ones, or of memory that nobody filled."""
    if len(args) != 1 or not all(type(each) is int for each in args[0]):
        return NotImplemented
    others = kwargs.keys() - {"dtype", "device", "pin_memory"}
    if others or kwargs.get("pin_memory") or kwargs.get("device") not in (None, _CPU):
        return NotImplemented
    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    return mode.fake(torch.empty(args[0], dtype=dtype, device="meta"), _CPU)


def _convolution(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Of images, by a kernel that fits."""
    inputs, weight, bias, strides, padding, dilation, transposed, _, groups = args
    if transposed or kwargs or not _are_images(mode, (inputs, weight)):
        return NotImplemented
    if bias is not None and not _is_float32(mode, bias):
        return NotImplemented
    if any(len(each) != IMAGE for each in (strides, padding, dilation)):
        return NotImplemented
    sizes = [
        (inputs.shape[2 + i] + 2 * padding[i] - dilation[i] * (weight.shape[2 + i] - 1) - 1)
        // strides[i]
        + 1
        for i in range(IMAGE)
    ]
    if min(sizes) < 1 or inputs.shape[1] != groups * weight.shape[1] or weight.shape[0] % groups:
        return NotImplemented  # torch refuses it
    return _empty(mode, inputs, (inputs.shape[0], weight.shape[0], *sizes))


def _convolution_backward(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Gradients of input, weight and bias, as far as they are wanted."""
    gradient, inputs, weight, *_, transposed, _, _, wanted = args
    if transposed or kwargs or not _are_images(mode, (gradient, inputs, weight)):
        return NotImplemented
    shapes = (inputs.shape, weight.shape, weight.shape[:1])
    return tuple(
        _empty(mode, inputs, shape) if asked else None
        for shape, asked in zip(shapes, wanted, strict=True)
    )


def _are_images(mode: ShapeMode, tensors: Iterable[Any]) -> bool:
    return all(_is_float32(mode, each) and each.dim() == 2 + IMAGE for each in tensors)


def _of_classes(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Logarithms of the probabilities of classes, or gradients of their scores: as large as the scores."""
    first = args[0]
    for each in args:
        if isinstance(each, torch.Tensor):
            if not _is_float32(mode, each) or each.shape != first.shape:
                return NotImplemented
        elif type(each) is not int and each not in (False, torch.float32):
            return NotImplemented
    return NotImplemented if kwargs else _empty(mode, first, first.shape)


def _batch_norm(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Output, and mean and inverse deviation of each channel."""
    inputs, weight, bias, mean, variance, training, *_ = args
    given = [each for each in (inputs, weight, bias, mean, variance) if each is not None]
    if kwargs or not all(_is_float32(mode, each) for each in given):
        return NotImplemented
    channels = inputs.shape[1:2] if training else (0,)  # else it makes no statistics
    return tuple(_empty(mode, inputs, shape) for shape in (inputs.shape, channels, channels))


def _batch_norm_backward(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Gradients of input, weight and bias."""
    gradient, inputs, weight, mean, variance, kept_mean, kept, training, _, wanted = args
    given = (gradient, inputs, weight, mean, variance, kept_mean, kept)
    if not training or kwargs or not all(wanted):
        return NotImplemented
    if not all(_is_float32(mode, each) for each in given):
        return NotImplemented
    channels = inputs.shape[1:2]
    return tuple(_empty(mode, inputs, shape) for shape in (inputs.shape, channels, channels))


def _by_shapes(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """What torch's kernel of shapes makes of tensors that have nothing else, which are quicker to be asked than fakes."""
    if not mode.asks_kernel(func):
        return NotImplemented
    given = tensors_in((args, kwargs))
    if not given or any(each.fake_device != _CPU for each in given):  # type: ignore[attr-defined]
        return NotImplemented
    bare, named = [*map(_bare, args)], {name: _bare(each) for name, each in kwargs.items()}
    made = func(*bare, **named)
    outputs = made if isinstance(made, tuple) else (made,)
    if not all(each is None or type(each) is torch.Tensor for each in outputs):
        return NotImplemented
    before = {each.untyped_storage()._cdata for each in tensors_in((bare, named))}
    if any(each is not None and each.untyped_storage()._cdata in before for each in outputs):
        return NotImplemented  # of what it was given, not of its own
    fakes = {id(each): mode.fake(each, _CPU) for each in outputs if each is not None}
    given_back = [fakes.get(id(each)) for each in outputs]  # one that is there twice stays one
    return tuple(given_back) if isinstance(made, tuple) else given_back[0]


def _bare(value: Any) -> Any:
    """An argument with its fake tensors as ones of the meta device."""
    if isinstance(value, torch.Tensor):
        shape, strides, offset = value.shape, value.stride(), value.storage_offset()
        if not offset:
            return torch.empty_strided(shape, strides, dtype=value.dtype, device="meta")
        layout = _Layout(shape, strides, value.dtype, _CPU)
        items = offset + _bytes_of(layout) // value.element_size()
        whole = torch.empty(items, dtype=value.dtype, device="meta")
        return whole.as_strided(shape, strides, offset)
    if isinstance(value, (list, tuple)):
        return [_bare(each) for each in value]
    return value


def _asks_kernel(mode: ShapeMode, func: Any) -> bool:
    """True if torch's mode hands a call to the kernel of shapes as it is, with no rule or decomposition of its own."""
    if func not in meta_table and not mode.cpp_meta_supports_symint(func):
        if func._can_decompose():
            return False
        if func in decomposition_table and torch_decomp_decompositions(func):
            return False
    if registered.find(func.name()).fake_impl.kernel:
        return False
    rules = fake_impls.op_implementations_checks
    return not any(applies(func) for applies, _ in rules) and fake_impls.has_meta(func)


def _layer_norm(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Output, and mean and inverse deviation of what is normalized together."""
    inputs, together, weight, bias, _ = args
    given = [each for each in (inputs, weight, bias) if each is not None]
    if kwargs or not all(_is_float32(mode, each) for each in given):
        return NotImplemented
    statistics = (*inputs.shape[: inputs.dim() - len(together)], *[1] * len(together))
    return tuple(_empty(mode, inputs, shape) for shape in (inputs.shape, statistics, statistics))


def _is_functional(func: Any) -> bool:
    """True if calls make tensors of their own whose shapes follow from those of what they take."""
    if func.namespace != "aten" or func.is_view or func._schema.is_mutable:
        return False
    return not {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags)


def _describe(mode: ShapeMode, values: Iterable[Any], parts: list[Any]) -> bool:
    """Appends what counts of the arguments of a call; False where one is of another kind."""
    for each in values:
        if isinstance(each, torch.Tensor):
            if not _is_plain(mode, each):
                return False
            parts += (
                each.shape,
                each.stride(),
                each.storage_offset(),
                each.dtype,
                each.fake_device,  # type: ignore[attr-defined]  # it is a FakeTensor
            )
        elif isinstance(each, (list, tuple)):
            parts.append(len(each))
            if not _describe(mode, each, parts):
                return False
        elif each is None or isinstance(each, _VALUES):
            parts += (type(each), each)  # 1 and 1.0 are equal, and make other types
        else:
            return False
    return True


def _are_new(mode: ShapeMode, outputs: list[Any], given: Any) -> bool:
    """True if tensors fill storages of their own, which nothing that a call was given lies in."""
    tensors = [each for each in outputs if each is not None]
    if not tensors or not all(_is_plain(mode, each) for each in tensors):
        return False
    storages = {each.untyped_storage()._cdata for each in tensors}
    before = {each.untyped_storage()._cdata for each in tensors_in(given)}
    return (
        len(storages) == len(tensors)
        and not storages & before
        and all(each.untyped_storage().nbytes() == _bytes_of(_layout(each)) for each in tensors)
    )


def _layout(of: Any) -> _Layout:
    return _Layout(tuple(of.shape), of.stride(), of.dtype, of.fake_device)


def _bytes_of(layout: _Layout) -> int:
    if 0 in layout.shape:
        return 0
    last = sum((n - 1) * stride for n, stride in zip(layout.shape, layout.strides, strict=True))
    return (last + 1) * layout.dtype.itemsize


def _laid(mode: ShapeMode, layout: _Layout) -> FakeTensor:
    shape, strides, dtype, device = layout
    empty = torch.empty_strided(shape, strides, dtype=dtype, device="meta")
    return mode.fake(empty, device)


def _is_plain(mode: ShapeMode, value: Any) -> bool:
    """True of a dense fake tensor of this mode whose values are not known either."""
    return (
        type(value) is FakeTensor
        and value.fake_mode is mode
        and value.constant is None
        and value.layout is torch.strided
        and not (value.dtype.is_complex or value.is_quantized or value.is_neg())
    )


def _is_float32(mode: ShapeMode, value: Any) -> bool:
    return _is_plain(mode, value) and value.dtype == torch.float32 and value.is_contiguous()


def _empty(mode: ShapeMode, like: Any, shape: Any) -> FakeTensor:
    return mode.fake(torch.empty(shape, dtype=like.dtype, device="meta"), like.fake_device)


RULES: Final[dict[Any, Rule]] = {
    **dict.fromkeys(
        (
            aten.add_.Tensor, aten.add_.Scalar, aten.sub_.Tensor, aten.mul_.Tensor, aten.mul_.Scalar, aten.div_.Tensor,
            aten.addcmul_.default, aten.addcdiv_.default, aten.lerp_.Scalar, aten.sqrt_.default, aten.relu_.default,
            aten.hardtanh_.default, aten.hardswish_.default, aten.hardsigmoid_.default, aten.leaky_relu_.default,
            aten.silu_.default, aten.zero_.default, aten.fill_.Scalar, aten.normal_.default, aten.uniform_.default,
        ),
        _in_place,
    ),
    **dict.fromkeys((aten.empty.memory_format, aten.zeros.default, aten.ones.default), _created),
    **dict.fromkeys(
        (aten._log_softmax.default, aten._log_softmax_backward_data.default), _of_classes
    ),
    **dict.fromkeys(
        (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.clone.default, aten.threshold_backward.default), _elementwise
    ),
    **dict.fromkeys(
        (
            aten.detach.default, aten.alias.default, aten.view.default, aten._unsafe_view.default,
            aten._reshape_alias.default, aten.t.default, aten.transpose.int, aten.permute.default, aten.expand.default,
            aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.slice.Tensor,
            aten.select.int, aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int, aten.as_strided.default,
        ),
        _view,
    ),
    aten.copy_.default: _copied,
    aten.lift_fresh.default: _number,
    aten.convolution.default: _convolution,
    aten.convolution_backward.default: _convolution_backward,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_batch_norm.default: _batch_norm,
    aten.native_batch_norm_backward.default: _batch_norm_backward,
}  # fmt: skip
