"""A callback for Lightning's Trainer: one line records a fit as a run."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

from wattstep.integrations.session import Beginning, CallbackSettings, Session, tell
from wattstep.integrations.steps import loss_in, samples_in
from wattstep.schema.extras import require

_lightning = require("lightning")
_callbacks: Any = require("lightning.pytorch.callbacks")
FETCH = "train_dataloader_next"  # how the trainer's profiler calls the request for a batch


class WattstepCallback(_callbacks.Callback):  # type: ignore[misc]  # of no type where it is missing
    """Records each `fit` as a run.

    >>> trainer = Trainer(callbacks=[WattstepCallback()])            # doctest: +SKIP

    The first process of each machine records. What it is asked for is explained at
    `wattstep.integrations.session.CallbackSettings`.

    Attributes:
        runs: Folders of the runs of this process, the last fit's last.

    Raises:
        InvalidValueError: A setting cannot be used.
    """

    def __init__(self, folder: str | Path = "runs", **settings: Any) -> None:
        self._settings = CallbackSettings(folder=folder, **settings)
        self._session: Session | None = None
        self._steps = 0  # of the optimizer, as far as they have been told
        self.runs: list[Path] = []

    # --- beginning and end ------------------------------------------------------------------

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The first batch comes next."""
        if trainer.local_rank != 0:
            return
        self._steps = trainer.global_step
        session = Session(self._settings)
        session.begin(_beginning(trainer, pl_module, self._settings.log))
        if session.path is None:
            return
        self._session = session
        self.runs.append(session.path)
        session.wrap(trainer.profiler, "start", self._data_begins)
        session.wrap(
            trainer, "save_checkpoint", lambda plain: self._within_span("checkpointing", plain)
        )
        for logger in trainer.loggers:
            session.wrap(logger, "log_metrics", lambda plain: self._within_span("logging", plain))
        bar = trainer.progress_bar_callback
        if self._settings.progress and bar is not None:
            session.wrap(bar, "get_metrics", self._shown)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """The loggers are still open."""
        self._end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Ctrl-C too."""
        if self._session is not None:
            self._session.failed(exception)
            self._session = None

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Whatever way the fit ended."""
        self._end()

    def _end(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.end()

    def __getstate__(self) -> dict[str, Any]:
        """Spawned processes begin recordings of their own."""
        return {**self.__dict__, "_session": None}

    # --- the loop ---------------------------------------------------------------------------

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """The batch is on its device."""
        tell(self._session, lambda session: session.marks.batch(samples_in(batch)))

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """A step ends if the optimizer has made one; several optimizers make one step together."""
        tell(self._session, lambda session: self._batch_ends(session, trainer, outputs))

    def _batch_ends(self, session: Session, trainer: Any, outputs: Any) -> None:
        # Lightning has divided it by the batches that are accumulated.
        session.marks.loss(loss_in(outputs) * trainer.accumulate_grad_batches)
        if trainer.global_step > self._steps:
            self._steps = trainer.global_step
            session.step_ends(self._steps, mean=True)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Between steps, or between batches of a step."""
        tell(self._session, lambda session: session.marks.span_begins("evaluation"))

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Training goes on."""
        tell(self._session, lambda session: session.marks.span_ends())

    # --- what no hook tells -----------------------------------------------------------------

    def _data_begins(self, plain: Any) -> Any:
        """The trainer tells its profiler when it asks for a batch, and no callback."""

        @functools.wraps(plain)
        def start(action: str) -> Any:
            if action.endswith(FETCH):
                tell(self._session, lambda session: session.marks.asks_for_data())
            return plain(action)

        return start

    def _within_span(self, name: str, plain: Any) -> Any:
        """Wraps what is no training: a span, unless it lies within a step or another span."""

        @functools.wraps(plain)
        def within_span(*args: Any, **kwargs: Any) -> Any:
            marks = self._session.marks if self._session and self._session.open else None
            if marks is None or marks.within or marks.span:
                return plain(*args, **kwargs)
            tell(self._session, lambda session: session.marks.span_begins(name))
            try:
                return plain(*args, **kwargs)
            finally:
                tell(self._session, lambda session: session.marks.span_ends())

        return within_span

    def _shown(self, plain: Any) -> Any:
        """Wraps the progress bar's metrics and adds joules and battery."""

        @functools.wraps(plain)
        def get_metrics(*args: Any, **kwargs: Any) -> Any:
            items = plain(*args, **kwargs)
            session = self._session
            words = session.live.words() if session is not None and session.open else ""
            return {**items, "energy": words} if words else items

        return get_metrics


def _beginning(trainer: Any, module: Any, log: bool) -> Beginning:
    coming = trainer.estimated_stepping_batches - trainer.global_step  # infinite: nobody knows
    return Beginning(
        name=type(module).__name__,
        model=module,
        batch_size=getattr(trainer.train_dataloader, "batch_size", None),
        accumulate=trainer.accumulate_grad_batches,
        first_step=trainer.global_step,
        total_steps=int(coming) if 0 < coming < math.inf else None,
        processes=trainer.num_devices,
        trainer=f"lightning {_lightning.__version__}",
        loggers=trainer.loggers if log else (),
    )
