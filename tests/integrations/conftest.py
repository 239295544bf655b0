"""No test of another library's logger asks anything of a network, or tells anybody of its use."""

from __future__ import annotations

import os

os.environ.update(
    {
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ALLOW_FILE_STORE": "true",  # the one store that mlflow-skinny has by itself
        "DO_NOT_TRACK": "1",
    }
)
