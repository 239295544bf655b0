"""The device's part: the days of one batch size, each recorded, judged and kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from wattstep import workloads
from wattstep.errors import InvalidValueError, RecordingError
from wattstep.record.recorder import Recorder
from wattstep.schema.engine import Classifier, Trainer
from wattstep.schema.run_documents import with_processor
from wattstep.schema.workload import DataFacts, kind_of
from wattstep.train.daily.folder import DailyFolder, DayRow, new_run
from wattstep.train.daily.pretraining import Tell, accuracy, prepare
from wattstep.train.daily.settings import DailySettings
from wattstep.train.daily.split import Split

# After a day, before it is kept: the samples that its energy rests on are taken by then, whatever
# happens next.
SAMPLED_S = 0.2


def train_days(settings: DailySettings, folder: DailyFolder, batch_size: int, tell: Tell) -> None:
    """Goes on after the last day that was kept; all of it is one run of its own.

    Raises:
        InvalidValueError: A day has fewer samples than a batch, or the data are not the server's.
        RecordingError: Recording ended early.
    """
    if batch_size > settings.images_per_day * settings.epochs_per_day:
        raise InvalidValueError(
            f"--batch {batch_size}: a day has {settings.images_per_day} images only"
        )
    trainer, classifier, parts = prepare(settings, batch_size, settings.precision)
    _check_data(folder, trainer.data)
    device = _Device(settings, folder, batch_size, trainer, classifier, parts)
    device.take_up()
    recorder = Recorder(
        new_run(folder.batch(batch_size)),
        trace="none",
        warmup=0,
        power_model=settings.power_model,
        engine=trainer.engine,
        about=_describe(settings, batch_size, trainer),
    )
    with recorder:
        facts = trainer.engine.device_facts(settings.processor)
        recorder.about(device=with_processor(recorder.info.device, facts))
        for day in range(len(device.days), settings.days + 1):
            device.live(day, recorder)
            tell(
                {
                    "stage": "day",
                    "batch_size": batch_size,
                    "day": day,
                    "accuracy": device.accuracy,
                }
            )
            if recorder.problem is not None:
                raise RecordingError(recorder.problem)
        for text in trainer.remarks():
            recorder.note(text)


class _Device:
    """State of the training on the device."""

    def __init__(
        self,
        settings: DailySettings,
        folder: DailyFolder,
        batch_size: int,
        trainer: Trainer,
        classifier: Classifier,
        parts: Split,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._batch_size = batch_size
        self._trainer = trainer
        self._classifier = classifier
        self._parts = parts
        self.days = folder.days(batch_size)
        self._labels = folder.labels() if settings.labels == "auto" else None
        self.accuracy = 0.0

    def take_up(self) -> None:
        """The server's weights, or where the last day left off."""
        size = self._batch_size
        if self.days:
            last = self._folder.checkpoint(size, self.days[-1]["day"])
            self._trainer.load(last)
            return
        self._classifier.load_weights(self._folder.weights)
        self._folder.batch(size).mkdir(exist_ok=True)
        weights = self._classifier.hash_weights()
        self._keep({"day": 0, "weights_sha256": weights, **self._judge(0)})

    def live(self, day: int, recorder: Recorder) -> None:
        """Trains on the day's samples, judges, and keeps both."""
        settings, trainer = self._settings, self._trainer
        samples, classes = self._samples_of(day)
        # An order and a stream of random numbers for each day: a continued training takes the same.
        self._classifier.restrict(samples, seed=_day_seed(settings.seed, day), classes=classes)
        self._classifier.seed(_day_seed(settings.seed, day))
        steps = settings.steps_per_day(self._batch_size, len(samples))
        loss = None  # a day of which nothing is labeled trains on nothing
        begin = time.perf_counter_ns()
        for _ in range(steps):
            with recorder.step(samples=self._batch_size) as step:
                step.loss = trainer.step(recorder.phase)
            loss = float(step.loss)
        end = time.perf_counter_ns()
        with recorder.exclude("evaluation"):
            judged = self._judge(day)
            recorder.evaluation("accuracy", self.accuracy)
            recorder.evaluation("judged", len(self._parts.held_out))
            time.sleep(max(0.0, SAMPLED_S - (time.perf_counter_ns() - end) * 1e-9))
            self._keep(
                {
                    "day": day,
                    "run": recorder.path.name,
                    "begin_ns": begin,
                    "end_ns": end,
                    "steps": steps,
                    "samples": steps * self._batch_size,
                    "loss": loss,
                    **judged,
                }
            )

    def _samples_of(self, day: int) -> tuple[Sequence[int], list[int] | None]:
        """What a day trains on, and as which classes; None: their own."""
        samples = self._parts.days[day - 1]
        if self._labels is None:
            return samples, None
        told = zip(samples, self._labels[day - 1]["classes"], strict=True)
        pairs = [(sample, label) for sample, label in told if label >= 0]
        return [sample for sample, _ in pairs], [label for _, label in pairs]

    def _judge(self, day: int) -> DayRow:
        """Correctness of each sample, "1" or "0", as text by kind."""
        classifier, parts = self._classifier, self._parts
        held_out = classifier.right_on(parts.held_out, held_out=True)
        self.accuracy = accuracy(held_out)
        new = classifier.right_on(parts.days[day - 1]) if day else None
        return {
            "held_out": _bits(held_out),
            "remembered": _bits(classifier.right_on(parts.remembered)),
            "new": None if new is None else _bits(new),
        }

    def _keep(self, row: DayRow) -> None:
        path = self._folder.checkpoint(self._batch_size, row["day"])
        self._trainer.save(path)
        self.days.append(row)
        self._folder.keep_days(self._batch_size, self.days)


def _check_data(folder: DailyFolder, data: DataFacts) -> None:
    """Refuses other data than those of the pre-training, as when a folder was filled meanwhile."""
    known = (folder.server() or {}).get("data")
    if known is not None and known["sha256"] != data.sha256:
        raise InvalidValueError(
            f"the server's model was trained on {known['name']} (SHA-256 {known['sha256'][:12]}), "
            f"the data are now {data.name} ({data.sha256[:12]}): give the same --data, or choose "
            "another --out",
            id="other-data",
        )


def _describe(settings: DailySettings, batch_size: int, trainer: Trainer) -> dict[str, Any]:
    facts = workloads.find(settings.workload).facts
    return {
        "workload": facts.name,
        "title": facts.title,
        "engine": trainer.engine.version(),
        "batch_size": batch_size,
        "threads": trainer.threads,
        "precision": settings.precision,
        "processor": kind_of(settings.processor),
        "seed": settings.seed,
        "data": trainer.data,
        "model": trainer.model_facts(),
        "options": {
            "rate_rule": settings.rate_rule,
            "images_per_day": settings.images_per_day,
            "days": settings.days,
            "epochs_per_day": settings.epochs_per_day,
            **({"labels": settings.labels} if settings.labels != "given" else {}),
            **trainer.options,
            **({"channels_last": True} if settings.channels_last else {}),
            **({"compiled": True} if settings.compiled else {}),
        },
    }


def _day_seed(seed: int, day: int) -> int:
    return seed * 100_003 + day


def _bits(right: list[bool]) -> str:
    return "".join("01"[each] for each in right)
