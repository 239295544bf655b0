"""Products are those of float64, of any shape, layout and kernel."""

from __future__ import annotations

import numpy as np
import pytest
from tests.opencl.conftest import made_device
from tests.refusals import refused

from wattstep.opencl.config import BLOCKED, NAIVE, PACKED, REGISTERS, TILED, Config, default_config
from wattstep.opencl.device import Device, Opened
from wattstep.opencl.gemm import Gemm

CONFIGS = (
    Config(kind=NAIVE),
    Config(kind=TILED, x=8, y=8, depth=8),
    Config(kind=BLOCKED, x=4, y=2, rows=3, vectors=2, width=4, depth=8),
    Config(kind=REGISTERS, x=2, y=1, rows=3, vectors=2, width=4, depth=2),
    Config(kind=PACKED, x=1, y=2, rows=3, vectors=2, width=4, depth=2),
)
SHAPES = ((1, 1, 1), (37, 45, 29), (3, 1, 50), (1, 33, 7), (16, 16, 16), (5, 3, 0))


@pytest.mark.parametrize("config", CONFIGS, ids=[config.kind for config in CONFIGS])
def test_any_shape_is_the_product_of_float64(opened: Opened, config: Config) -> None:
    for m, n, k in SHAPES:
        computed, expected, bound = product(opened, m, n, k, config)
        assert (np.abs(computed - expected) <= bound).all(), (m, n, k)


@pytest.mark.system  # a program each, which PoCL takes a while to build
@pytest.mark.parametrize("config", CONFIGS, ids=[config.kind for config in CONFIGS])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_any_layout_is_the_product_of_float64(
    opened: Opened, config: Config, trans_a: bool, trans_b: bool
) -> None:
    for m, n, k in SHAPES:
        computed, expected, bound = product(opened, m, n, k, config, trans_a, trans_b)
        assert (np.abs(computed - expected) <= bound).all(), (m, n, k)


def product(
    opened: Opened, m: int, n: int, k: int, config: Config, trans_a: bool = False,
    trans_b: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """What the device computes, the same in float64, and what rounding may make of it."""
    numbers = np.random.default_rng(m * 100 + n * 10 + k)
    a, b = numbers.standard_normal((m, k)), numbers.standard_normal((k, n))
    a, b = (each.astype(np.float32).astype(np.float64) for each in (a, b))
    gemm = Gemm(opened, m, n, k, trans_a=trans_a, trans_b=trans_b, config=config)
    held = np.full((m, n), np.nan)  # of which nothing may stay
    buffers = [opened.upload(x) for x in (a.T if trans_a else a, b.T if trans_b else b, held)]
    gemm(opened.queue, *buffers)[-1].wait()
    computed = opened.download(buffers[2], (m, n))
    gemm.release()
    for buffer in buffers:
        opened.release(buffer)
    return computed, a @ b, (k + 1) * 2.0**-24 * (np.abs(a) @ np.abs(b))


def test_parts_of_buffers_are_multiplied_and_the_rest_is_left_alone(opened: Opened) -> None:
    numbers = np.random.default_rng(1)
    a, b = numbers.standard_normal((2, 3, 4)), numbers.standard_normal((2, 4, 5))
    c = opened.upload(np.full((3, 3, 5), 7.0))
    gemm = Gemm(opened, 3, 5, 4, config=CONFIGS[4])
    gemm(opened.queue, opened.upload(a), opened.upload(b), c, offsets=(12, 20, 15))
    computed = opened.download(c, (3, 3, 5))
    assert np.allclose(computed[1], a[1] @ b[1], atol=1e-5)
    assert (computed[[0, 2]] == 7.0).all()


@pytest.mark.parametrize("shape", [(0, 1, 1), (1, 0, 1), (1, 1, -1), (2**16, 2**15, 1)])
def test_a_shape_that_is_none_or_too_large_is_refused(
    opened: Opened, shape: tuple[int, int, int]
) -> None:
    with refused("out-of-range", *shape[:2]):
        Gemm(opened, *shape)


@pytest.mark.parametrize(
    ("config", "id"),
    [
        (Config(kind=REGISTERS, x=32, y=32), "opencl-work-group"),
        (Config(kind=REGISTERS, x=1, y=512), "opencl-work-group"),
        (
            Config(kind=BLOCKED, x=16, y=16, rows=8, vectors=2, width=8, depth=32),
            "opencl-local-memory",
        ),
    ],
)
def test_what_is_larger_than_the_device_is_refused(device: Device, config: Config, id: str) -> None:
    with refused(id, device.name):
        config.check(device)


@pytest.mark.parametrize(
    "wrong", [{"kind": "magic"}, {"width": 3}, {"rows": 0}, {"x": True}, {"kind": TILED, "x": 2}]
)
def test_a_configuration_that_is_none_is_refused(wrong: dict[str, object]) -> None:
    with refused("opencl-config"):
        Config(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["cpu", "gpu", "accelerator"])
@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (1000, 3), (2048, 2048)])
@pytest.mark.parametrize("local_memory", [0, 1024, 65536])
def test_the_default_fits_any_device(kind: str, shape: tuple[int, int], local_memory: int) -> None:
    device = made_device(kind=kind, local_memory=local_memory, largest_group=1, group_sizes=(1, 1))
    default_config(device, *shape).check(device)
