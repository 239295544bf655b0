"""Runs in the formats of other tools: timelines that they open, tables that they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, kw_only=True)
class ExportFormat:
    """A format that a run can be written in.

    Attributes:
        words: Description for readers.
        suffix: Of the file, or what the folder's name ends with.
        file: "module:function" that takes the run, a binary file and what is told how far it is;
            "" where it is a folder only.
        folder: Function that writes a folder, with the path of an empty one; "" where it is a file only.
        packed: Ending of a path that makes it a file packed so: ".gz" or ".zip".
    """

    words: str
    suffix: str
    file: str = ""
    folder: str = ""
    packed: str = ""

    @property
    def of_figures(self) -> bool:
        """True if it holds tables, which a run that was never recorded has, too."""
        return bool(self.folder)


FORMATS: Final[Mapping[str, ExportFormat]] = MappingProxyType(
    {
        "perfetto": ExportFormat(
            words="a trace that ui.perfetto.dev and trace_processor open",
            suffix=".perfetto-trace", file="wattstep.report.export.perfetto:write", packed=".gz",
        ),
        "chrome": ExportFormat(
            words="Chrome's JSON trace format, as PyTorch's profiler writes it",
            suffix=".json", file="wattstep.report.export.chrome:write", packed=".gz",
        ),
        "csv": ExportFormat(
            words="a folder of CSV files, or a zip archive of them",
            suffix="-csv", file="wattstep.report.export.csv_tables:write_zip",
            folder="wattstep.report.export.csv_tables:write_folder", packed=".zip",
        ),
        "parquet": ExportFormat(
            words="a folder of Parquet files with the figures",
            suffix="-parquet", folder="wattstep.report.export.parquet_tables:write_folder",
        ),
    }
)  # fmt: skip
