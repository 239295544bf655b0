from __future__ import annotations

import subprocess
import sys

import numpy as np
from sklearn import datasets
from tests.refusals import refused

from wattstep.workloads.data import scikit_images


def test_photographs_and_digits_are_those_of_scikit_learn() -> None:
    for ours, theirs in zip(
        scikit_images.read_photographs(), datasets.load_sample_images().images, strict=True
    ):
        assert np.array_equal(ours, theirs)
    images, digits = scikit_images.read_handwritten()
    theirs = datasets.load_digits()
    assert np.array_equal(images, theirs.images)
    assert np.array_equal(digits, theirs.target)


def test_scikit_learn_is_not_imported_for_them() -> None:
    program = (
        "import sys; from wattstep.workloads.data import scikit_images as s\n"
        "s.read_photographs(); s.read_handwritten(); assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_files_that_another_scikit_learn_lacks_are_named(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(scikit_images, "find_part", lambda library: tmp_path)
    with refused("missing-stand-in", "data/digits.csv.gz"):
        scikit_images.read_handwritten()
