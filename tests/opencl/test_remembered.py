"""What tuning found is kept as data for a device and its driver, and found again for shapes like it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.opencl.conftest import made_device

from wattstep.opencl.config import BLOCKED, Config, default_config
from wattstep.opencl.device import Device
from wattstep.opencl.remembered import Tuned, exact, read, recall, remember

CONFIG = Config(kind=BLOCKED, x=4, y=4, rows=2, width=4, depth=8)
OTHER = Config(kind=BLOCKED, x=8, y=4, rows=2, width=4, depth=8)


def tuned(shape: tuple[int, int, int], config: Config = CONFIG, trans_a: bool = False) -> Tuned:
    return Tuned(shape=shape, trans_a=trans_a, trans_b=False, config=config, seconds=0.01)


def test_what_was_found_is_found_again(device: Device) -> None:
    remember(device, [tuned((64, 64, 64)), tuned((512, 512, 512), OTHER)])
    assert recall(device, (64, 64, 64), False, False) == CONFIG
    assert exact(device, (512, 512, 512), False, False) == tuned((512, 512, 512), OTHER)
    assert exact(device, (512, 512, 511), False, False) is None


def test_a_shape_like_it_takes_the_same_and_another_the_default(device: Device) -> None:
    remember(device, [tuned((64, 64, 64))])
    assert recall(device, (100, 30, 250), False, False) == CONFIG
    default = default_config(device, 64, 64)
    assert recall(device, (64, 64, 300), False, False) == default  # more than four times as deep
    assert recall(device, (64, 64, 64), True, False) == default  # another layout


def test_what_is_found_later_takes_its_place(device: Device) -> None:
    remember(device, [tuned((64, 64, 64))])
    remember(device, [tuned((64, 64, 64), OTHER)])
    assert [one.config for one in read(device)] == [OTHER]


@pytest.mark.parametrize("other", [{"driver": "2.2"}, {"name": "Mali-G57"}, {"target": "haswell"}])
def test_another_driver_or_device_knows_nothing_of_it(
    device: Device, other: dict[str, str]
) -> None:
    remember(device, [tuned((64, 64, 64))])
    assert read(made_device(**other)) == []


def test_a_device_that_shrank_takes_the_default(device: Device) -> None:
    remember(device, [tuned((64, 64, 64))])
    small = made_device(largest_group=8)
    assert recall(small, (64, 64, 64), False, False) == default_config(small, 64, 64)


@pytest.mark.parametrize(
    "damage",
    [
        lambda document: "{",
        lambda document: "[]",
        lambda document: json.dumps({**document, "schema": 2}),
        lambda document: json.dumps({**document, "device": "another"}),
        lambda document: json.dumps(
            {
                **document,
                "products": [{**document["products"][0], "config": {"kind": "__import__"}}],
            }
        ),
        lambda document: json.dumps(
            {
                **document,
                "products": [
                    {
                        **document["products"][0],
                        "config": {**document["products"][0]["config"], "rows": "1;system(1)"},
                    }
                ],
            }
        ),
    ],
)
def test_a_file_that_is_damaged_or_made_up_counts_as_none(device: Device, damage: object) -> None:
    path: Path = remember(device, [tuned((64, 64, 64))])
    path.write_text(damage(json.loads(path.read_text())))  # type: ignore[operator]
    assert read(device) == []
