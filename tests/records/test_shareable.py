"""Of a script's arguments a run keeps names of options and numbers, and nothing that tells who or where."""

from __future__ import annotations

import pytest

from wattstep.store.shareable import shareable


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ((), ""),
        (("--epochs", "3", "--lr", "1e-3"), "--epochs 3 --lr 1e-3"),
        (("--epochs=3", "-b", "16", "--amp"), "--epochs=3 -b 16 --amp"),
        (("--data", "/home/me/private", "--depth", "-2"), "--data ... --depth -2"),
        (("--data=/home/me", "--name=me"), "--data=... --name=..."),
        (("--api-key", "123456", "--pin=1234", "7"), "--api-key ... --pin=... ..."),
        (("config.yaml", "a b", "8"), "... 8"),
    ],
)
def test_names_of_options_and_numbers_are_kept(arguments: tuple[str, ...], kept: str) -> None:
    assert shareable(arguments) == kept
