"""Facts that pieces of advice are made from, worked out once for a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from wattstep.device.roofline import Placed
from wattstep.insight.explain.device_gaps import DATA, FRAMEWORK, OPTIMIZER
from wattstep.insight.explain.gaps import idle_by_cause
from wattstep.insight.explain.operations import Work, attributed, ceilings_of, under_ceilings
from wattstep.insight.explain.threads import Cores, cores_of
from wattstep.recorded.instruments import TORCH
from wattstep.run import Run
from wattstep.schema.arrays import BoolArray, FloatArray
from wattstep.schema.ceilings import Ceilings
from wattstep.schema.figure import Figure, Missing
from wattstep.schema.run_info import RunInfo

WORTH: Final = 0.01  # of a step: advice that can bring less is none
WITHOUT_CEILINGS: Final = Missing(
    "which is faster here only ceilings tell (wattstep ceilings; why there are none: roofline)"
)


def profiling(info: RunInfo) -> str:
    """The command that records somebody's script again, as far as its run tells; "" of other trainings."""
    script, arguments = info.options.get("script", ""), info.options.get("arguments", "")
    return " ".join(filter(None, ("wattstep profile", script, arguments))) if script else ""


def _written(options: Mapping[str, object]) -> str:
    """Options as a command takes them; what is None or False is left out."""
    given = [
        f" --{name}" if value is True else f" --{name} {value}"
        for name, value in options.items()
        if value
    ]
    return "".join(given)


class Facts:
    """A run with traced operations, looked at for advice.

    Args:
        run: The run; `run.breakdown.reason` is None.
        work: Its operations.
        beside: Other runs that were given with it.
    """

    def __init__(self, run: Run, work: Work, beside: Sequence[Run] = ()) -> None:
        self.run = run
        self.work = work
        self.beside = beside

    @cached_property
    def step_s(self) -> float:
        """Mean step in s."""
        return self.run.breakdown.step_time.value or float("nan")

    @cached_property
    def idle_s(self) -> Mapping[str, FloatArray]:
        """Time in s without operations by cause, of each traced step, as the section of gaps has it."""
        return idle_by_cause(self.run)

    @cached_property
    def ceilings(self) -> Ceilings | Missing:
        """Those that fit the run, or why there are none."""
        return ceilings_of(self.run)

    @cached_property
    def placed(self) -> Placed | None:
        """Operations under the ceilings; None without any."""
        if isinstance(self.ceilings, Missing):
            return None
        return under_ceilings(self.run, self.work, self.ceilings)

    @cached_property
    def cores(self) -> Cores:
        """Cores used and free."""
        return cores_of(self.run)

    @property
    def tried_by(self) -> str:
        """The command that makes such a run again."""
        if not self.ours:
            again = "trace and import" if self.run.tables.imported.is_import else "record"
            return profiling(self.run.info) or f"{again} the training again"
        return self.run_with()

    def run_with(self, *, batch: int | None = None, threads: int | None = None) -> str:
        """The command that trains one of our workloads with another batch or other threads.

        A record does not say which board it was, or where a recording or an export lies: that is left open.
        """
        info, chosen = self.run.info, self.run.info.options
        framework = None if self.on_torch else self.run.breakdown.instruments.framework
        scheme = info.target.partition(":")[0]
        target = {"local": None, "emulate": info.target}.get(scheme, f"{scheme}:...")
        size: dict[str, object] = {"engine": framework, "batch": batch or info.batch_size}
        precision, accumulate = info.precision, chosen.get("accumulate") or 1
        how: dict[str, object] = {
            "precision": None if precision == "fp32" else precision,
            "channels-last": chosen.get("channels_last"),
            "compile": chosen.get("compiled"),
            "policy": chosen.get("policy"),
            "opencl-mode": chosen.get("opencl_mode"),
            "optimizer-kernel": chosen.get("optimizer_kernel"),
            "interop-threads": chosen.get("interop_threads"),
            "accumulate": accumulate if accumulate > 1 else None,
            "train-last": chosen.get("train_last"),
            "lora": chosen.get("lora"),
            "optimizer": chosen.get("optimizer"),
            "checkpointing": chosen.get("checkpointing"),
            "offload": chosen.get("offload"),
        }
        processor = None if info.processor == "cpu" or framework == "opencl" else info.processor
        place: dict[str, object] = {
            "processor": processor, "threads": threads or info.threads, "cores": chosen.get("cores"),
            "allocator": chosen.get("allocator"), "target": target,
        }  # fmt: skip
        run = "wattstep run"
        if framework == "opencl":  # whose threads are the driver's
            del place["threads"]
            run = run if threads is None else f"POCL_MAX_PTHREAD_COUNT={threads} {run}"
        if not chosen.get("exported"):
            return f"{run} {info.workload}{_written(size | place | how)}"
        place["opencl-mode"] = how.pop("opencl-mode")  # of the training, not of its export
        if batch is None:
            return f"{run} --from EXPORTED-FOLDER{_written(place)}"
        folder = f"{info.workload}-batch-{batch}"
        export = f"wattstep engines export {info.workload}{_written(size | how)} -o {folder}"
        return f"{export}, then {run} --from {folder}{_written(place)}"

    @property
    def script(self) -> str:
        """Script that `wattstep profile` recorded, as the command takes it; "" of other trainings."""
        return self.run.info.options.get("script", "")

    def in_code(self, change: str, with_torch: str | None = None) -> str:
        """A change to the code that trains, where it goes, and how it is recorded.

        Args:
            change: In general words.
            with_torch: In torch's calls, where it has some.
        """
        if self.on_torch and with_torch is not None:
            change = with_torch
        if self.ours:
            return f"in a script of your own: {change}"
        place = f" in {self.script.removeprefix('-m ')}" if self.script else ""
        return f"{change}{place}, then {self.tried_by}"

    @property
    def on_torch(self) -> bool:
        """True if what trains can call torch."""
        return self.run.breakdown.instruments.framework == TORCH

    @property
    def ours(self) -> bool:
        """True if it is one of wattstep's workloads, which options can change."""
        return self.run.info.options.get("rate_rule") is not None

    def in_phase(self, phase: str) -> BoolArray:
        """Rows of the table of operations of a phase."""
        return np.array([row.phase == phase for row in self.work.rows], bool)

    def within(self, scope: str) -> BoolArray:
        """Rows of the table that ran within scopes of this name; all, where the trace has none."""
        breakdown, work = self.run.breakdown, self.work
        name, parent = breakdown.label("name"), breakdown.rows.parent
        opens = np.array([str(text).startswith(scope) for text in name.texts], bool)[name.code]
        if not opens.any():
            return np.ones(len(work.rows), bool)
        inside, above = opens.copy(), parent.copy()
        while (above >= 0).any():
            inside |= opens[above] & (above >= 0)
            above = np.where(above >= 0, parent[above], -1)
        mask = np.zeros(len(work.rows), bool)
        mask[work.group[inside[work.members]]] = True
        return mask

    def span_of(self, phase: str) -> float:
        """Seconds of a mean clean step in a phase, by its own marks; infinite without marks."""
        spans = self.run.breakdown.phase_spans
        span = None if spans is None else spans.of_phase(phase)
        return float("inf") if span is None or span.value is None else span.value

    def of_kind(self, *kinds: str) -> BoolArray:
        """Rows of the table of operations of some kinds."""
        return np.array([row.kind in kinds for row in self.work.rows], bool)

    @cached_property
    def time_s(self) -> FloatArray:
        """Share of wall time of each row of the table in a step in s."""
        return np.array([row.figure("time").value or 0.0 for row in self.work.rows])

    def time_of(self, rows: BoolArray, words: str) -> Figure:
        """Time of a step in these rows of the table."""
        return attributed(self.run.breakdown, self._seconds_of(rows), words)

    def _seconds_of(self, rows: BoolArray) -> FloatArray:
        """Time in s of each traced step in these rows of the table, shape (windows,)."""
        breakdown, work = self.run.breakdown, self.work
        mine = work.members[rows[work.group]]
        windows = len(breakdown.compensated.unattributed_s)
        window, time = breakdown.rows.window[mine], breakdown.compensated.time_s[mine]
        return np.bincount(window, time, minlength=windows).astype(np.float64)

    @cached_property
    def optimizer_time(self) -> Figure:
        """Time of a step in the operations of its optimizer."""
        return self.time_of(self.in_phase("optimizer"), "operations of the phase `optimizer`")

    @cached_property
    def time_between(self) -> Figure:
        """Time of a step in code between operations, data and the game apart."""
        seconds = self.idle_s[FRAMEWORK] + self.idle_s[OPTIMIZER]
        return attributed(self.run.breakdown, seconds, "gaps of the framework and the optimizer")

    @cached_property
    def data_time(self) -> Figure:
        """Time of a step in its data phase: operations and waiting."""
        seconds = self._seconds_of(self.in_phase("data")) + self.idle_s[DATA]
        return attributed(self.run.breakdown, seconds, "operations and gaps of the phase `data`")
