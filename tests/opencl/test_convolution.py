"""Convolutions are those of float64 in every way: direct, by patches, Winograd's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.refusals import refused

from wattstep.opencl.convolution import (
    BLOCKED,
    DIRECT,
    PATCHES,
    WAYS,
    WINOGRAD,
    Convolution,
    Geometry,
)
from wattstep.opencl.device import Opened
from wattstep.opencl.measuring import convolved

GEOMETRIES = (
    Geometry(batch=2, channels=3, height=7, width=9, filters=5),
    Geometry(batch=1, channels=2, height=6, width=8, filters=11, padding=0),
    Geometry(batch=3, channels=1, height=3, width=3, filters=1),
)
LARGE_STEPS = Geometry(
    batch=2, channels=2, height=11, width=8, filters=3, size=5, stride=2, padding=2
)


@pytest.mark.parametrize("way", WAYS)
def test_any_geometry_is_the_convolution_of_float64(opened: Opened, way: str) -> None:
    for geometry in GEOMETRIES:
        _compare(opened, geometry, way)


@pytest.mark.parametrize("way", [DIRECT, BLOCKED, PATCHES])
def test_larger_filters_and_strides_too(opened: Opened, way: str) -> None:
    _compare(opened, LARGE_STEPS, way)


def _compare(opened: Opened, geometry: Geometry, way: str) -> None:
    g = geometry
    numbers = np.random.default_rng(g.outputs)
    images = numbers.standard_normal((g.batch, g.channels, g.height, g.width)).astype(np.float32)
    weights = numbers.standard_normal((g.filters, g.channels, g.size, g.size)).astype(np.float32)
    out = opened.upload(np.full((g.batch, g.filters, g.out_height, g.out_width), np.nan))
    convolution = Convolution(opened, g, way)
    convolution(opened.queue, opened.upload(images), opened.upload(weights), out)[-1].wait()
    computed = opened.download(out, (g.batch, g.filters, g.out_height, g.out_width))
    convolution.release()
    expected = one_by_one(images.astype(np.float64), weights.astype(np.float64), g)
    assert np.abs(computed - expected).max() <= 2e-5
    assert np.allclose(convolved(images, weights, g), expected, atol=1e-12)


def one_by_one(images: np.ndarray, weights: np.ndarray, g: Geometry) -> np.ndarray:
    """Output by output, as a convolution is defined."""
    out = np.zeros((g.batch, g.filters, g.out_height, g.out_width))
    around = ((0, 0), (0, 0), (g.padding, g.padding), (g.padding, g.padding))
    padded = np.pad(images, around)
    for y in range(g.out_height):
        for x in range(g.out_width):
            top, left = y * g.stride, x * g.stride
            patch = padded[:, :, top : top + g.size, left : left + g.size]
            out[:, :, y, x] = np.einsum("bcij,fcij->bf", patch, weights)
    return out


@pytest.mark.parametrize("way", [WINOGRAD, "by magic"])
def test_a_way_that_is_not_one_for_the_geometry_is_refused(opened: Opened, way: str) -> None:
    with refused("opencl-config"):
        Convolution(opened, LARGE_STEPS, way)


@pytest.mark.parametrize("wrong", [{"height": 2, "padding": 0}, {"filters": 0}, {"batch": 10**8}])
def test_a_geometry_without_outputs_or_with_too_many_is_refused(wrong: dict[str, int]) -> None:
    sizes = {"batch": 1, "channels": 3, "height": 8, "width": 8, "filters": 4, **wrong}
    with refused("out-of-range"):
        Geometry(**sizes)
