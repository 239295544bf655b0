"""The export of a training whose memory is bounded: made before, since torch is in the export and not in the training."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from wattstep import engines, workloads
from wattstep.engines.exported.engine import ExportedEngine, export_in_child
from wattstep.schema.processes import tidied_at_sigterm
from wattstep.store.held import HeldFolder
from wattstep.train.child.limits import MemoryLimit
from wattstep.train.settings import TrainingSettings


@contextmanager
def exported_before(
    settings: TrainingSettings, limit: MemoryLimit | None
) -> Iterator[TrainingSettings]:
    """The settings as a bounded process gets them, with a folder to train from where its engine needs one.

    Args:
        settings: The training.
        limit: Of its memory; without one it exports by itself.

    Raises:
        WattstepError: It cannot be exported.
        KeyboardInterrupt: The user stopped it.
    """
    engine = engines.find(settings.engine)
    if limit is None or settings.exported is not None or not isinstance(engine, ExportedEngine):
        yield settings
        return
    workload, preparation = workloads.find(settings.workload), settings.preparation
    engine.check(workload, preparation, settings.precision)
    engine.load()
    with (
        tidied_at_sigterm(),
        HeldFolder(Path(tempfile.gettempdir()), "wattstep-export-") as made,
    ):
        place = made / "export"
        export_in_child(engine.name, workload, preparation, place)
        yield replace(settings, made_export=str(place))
