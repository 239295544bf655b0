"""Kinds of operations by their names, as torch, its autograd engine and its compiler give them."""

from __future__ import annotations

import pytest

from wattstep.schema.operation_kinds import kind_of


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::native_batch_norm", "normalization"),
        ("aten::normalize", "normalization"),
        ("NativeLayerNormBackward0", "normalization"),
        ("aten::normal_", "other"),
        ("aten::normal", "other"),
        ("aten::log_normal_", "other"),
    ],
)
def test_random_numbers_of_a_normal_distribution_normalize_nothing(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::_fused_adam_", "optimizer"),
        ("aten::_fused_adamw_", "optimizer"),
        ("aten::_fused_sgd_", "optimizer"),
        ("aten::_foreach_addcdiv_", "optimizer"),
        ("aten::_fused_sdp_choice", "attention"),
        ("aten::_fused_rms_norm", "normalization"),
        ("aten::_fused_dropout", "activation"),
        ("triton_poi_fused_add_relu_0", "elementwise"),
        ("triton_poi_fused_convolution_relu_3", "elementwise"),
        ("triton_red_fused_native_layer_norm_1", "reduction"),
        ("triton_per_fused_sum_2", "reduction"),
    ],
)
def test_what_is_fused_is_an_optimizer_only_if_it_updates_weights(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("AddmmBackward0", "matrix product"),
        ("ConvolutionBackward0", "convolution"),
        ("SumBackward1", "reduction"),
        ("MulBackward0", "elementwise"),
    ],
)
def test_backward_is_of_the_kind_of_its_forward(name: str, kind: str) -> None:
    assert kind_of(name) == kind
