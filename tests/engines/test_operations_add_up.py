"""Operations of each engine and what is named beside them make the step, in a run that is recorded here."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.exporting import export

from wattstep import engines, workloads
from wattstep.errors import MissingPartError
from wattstep.record.recorder import Recorder
from wattstep.run import load
from wattstep.schema.workload import Preparation

pytest.importorskip("torch")
STEPS = 40


@pytest.mark.parametrize("name", ["mnn", "onnxruntime", "executorch", "opencl"])
def test_operations_and_named_rests_make_the_step(name: str, tmp_path: Path) -> None:
    engine = engines.find(name)
    try:
        engine.load()
    except MissingPartError as error:
        pytest.skip(str(error))
    exported = export(engine, tmp_path, "lenet", 4)
    trainer = engine.prepare(
        workloads.find("lenet"),
        Preparation(batch_size=4, exported=exported),
        threads=None if name == "opencl" else 1,  # a device has its own
        processor=engine.processors[0],
    )
    with Recorder(
        tmp_path / "run", trace="every:4", model=trainer.model, engine=trainer.engine
    ) as recorder:
        for _ in range(STEPS):
            begun = recorder.steps.begin()
            recorder.steps.end(begun, trainer.step(recorder.steps.mark))
    run = load(tmp_path / "run")
    document = run.document()
    rests = document["rests"]
    assert set(rests) <= {"framework", "data"}
    step = run.metrics()["step_time"].value
    whole = sum(row["time"]["value"] for row in (*document["operations"], *rests.values()))
    assert whole == pytest.approx(step)
    share = run.metrics()["operations_share"]
    beside = sum(row["share"]["value"] for row in rests.values())
    assert share.value == pytest.approx(1 - beside)
    assert 0 < share.value <= 1
    assert {row["phase"] for row in document["operations"]} >= {"forward", "backward", "optimizer"}
