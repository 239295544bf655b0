"""Pictures that scikit-learn ships, read from its files: importing it would take seconds."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.schema.extras import find_part, require
from wattstep.workloads.data.samples import Bytes


def read_photographs() -> list[Bytes]:
    """The two sample photographs (china, flower), each uint8 of shape (427, 640, 3).

    Raises:
        MissingPartError: scikit-learn or Pillow is not installed.
        InvalidValueError: This scikit-learn has no such files.
    """
    image = require("PIL.Image")
    return [
        np.asarray(image.open(_path(f"images/{name}.jpg")), np.uint8)
        for name in ("china", "flower")
    ]


def read_handwritten() -> tuple[Bytes, Bytes]:
    """Handwritten digits: images of 0 to 16, uint8 (1797, 8, 8), and what they are, uint8 (1797,).

    Raises:
        MissingPartError: scikit-learn is not installed.
        InvalidValueError: This scikit-learn has no such file.
    """
    with gzip.open(_path("data/digits.csv.gz"), "rt", encoding="ascii") as file:
        table = np.loadtxt(file, delimiter=",").astype(np.uint8)
    return table[:, :-1].reshape(-1, 8, 8), table[:, -1]


def _path(name: str) -> Path:
    path = find_part("sklearn") / "datasets" / name
    if not path.is_file():
        raise InvalidValueError(
            f"scikit-learn has no {name}, which stands in for the data: "
            'pip install --force-reinstall "scikit-learn>=1.4,<2"',
            id="missing-stand-in",
        )
    return path
