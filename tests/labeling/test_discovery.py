"""What becomes of new classes from one look to the next."""

from __future__ import annotations

import numpy as np

from wattstep.labeling.discovery import Cluster, Discovery


def test_two_new_classes_that_have_become_one_are_other_classes_than_before() -> None:
    draw = np.random.default_rng(0)
    cloud = draw.normal(8.0, 0.5, (120, 2))
    known = draw.normal(0.0, 0.5, (400, 2))
    recent = np.concatenate([known, cloud])
    unknown = np.arange(len(recent)) >= len(known)
    found = Discovery()
    found.clusters = [
        Cluster(name="unknown-1", core=cloud[:20]),
        Cluster(name="unknown-2", core=cloud[20:40]),
    ]
    cores = [each.core for each in found.clusters]
    assert found.look(recent, recent, unknown, cores)
    assert [each.name for each in found.stable()] == ["unknown-1"]
    assert not found.look(recent, recent, unknown, [found.clusters[0].core])
