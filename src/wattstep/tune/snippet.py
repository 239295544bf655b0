"""Settings as lines for one's own script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wattstep.train.script import script_environment


def snippet_of(changes: Mapping[str, Any]) -> str:
    """Lines of Python, and the command that starts them; for nothing changed, a line that says so."""
    if not changes:
        return "# keep the default: nothing is better beyond doubt"
    environment = script_environment(
        {name: value for name, value in changes.items() if name != "threads"}
    )
    start = [f"{name}={value}" for name, value in environment.items()]
    if "cores" in changes:
        start += ["taskset", "-c", str(changes["cores"]).replace("+", ",")]
    lines = ["import torch", ""]
    if start:
        lines.insert(0, f"# start it so: {' '.join(start)} python SCRIPT")
    if "threads" in changes:
        lines.append(f"torch.set_num_threads({changes['threads']})")
    if "interop_threads" in changes:
        lines.append(f"torch.set_num_interop_threads({changes['interop_threads']})")
    if changes.get("channels_last"):
        lines.append("model = model.to(memory_format=torch.channels_last)")
        lines.append(
            "# of each batch: images = images.contiguous(memory_format=torch.channels_last)"
        )
    if changes.get("compiled"):
        lines.append("model.compile()")
    if "optimizer_kernel" in changes:
        kernel = changes["optimizer_kernel"]
        lines.append(f"# where the optimizer is made: torch.optim.SGD(..., {kernel}=True)")
    if "loader_workers" in changes:
        workers = changes["loader_workers"]
        lines.append(
            f"# where data are loaded: DataLoader(..., num_workers={workers}, persistent_workers=True)"
        )
    if "policy" in changes:
        lines.append(f"# policy {changes['policy']}: no line for a script; wattstep run has it")
    if "precision" in changes:
        if changes["precision"] == "bf16":
            lines.append("model = model.to(torch.bfloat16)")
            lines.append("# of each batch: images = images.to(torch.bfloat16)")
        else:
            lines.append('# around the forward pass: with torch.autocast("cpu", torch.bfloat16):')
    return "\n".join(lines)
