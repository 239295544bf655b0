"""Writes docs/suite.md: every workload with our counts, and the paper's beside them.

    python docs/suite_table.py docs/suite.md

The counts are those of `wattstep suite --json`, run here; nothing is typed in.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HEAD = """\
# The suite: our counts, and the paper's

Written by `python docs/suite_table.py docs/suite.md` from `wattstep suite --json`; the counts come \
from our own code, the published ones from the same code built at the published configuration \
(`tests/workloads` hold the numbers of the literature, with sources). A FLOP is an addition or a \
multiplication: a multiply-add counts as two. Forward FLOP: what the forward passes of one \
training step compute for a sample, counted from the operations as they ran (products of matrices \
and convolutions). For an adversarial training that is both updates; for deep RL a sample is a \
transition of the replay memory, and the older copy of the network computes, too.

Images are 32×32 by default where the paper trained on CIFAR-10, 224×224 for the five networks of \
Cai et al. Up to 64×64 the ResNets begin with a 3×3 convolution of stride 1 and no pooling, the \
form that is usual for CIFAR, and AlexNet and Xception leave out early strides: an image of 32×32 \
would be a single pixel before the last stage, and batch normalisation of one image needs more \
than one. `--image-size 224 --classes 1000` trains the published network.

## All workloads

| name | network | data | input | parameters as it trains | of them trainable | as published | forward FLOP a sample |
|---|---|---|---|---:|---:|---:|---:|
"""
PAPER = """
## Beside the paper's table II

{paper}. It prints one row for each of sixteen networks; the text speaks of ten. `#Parameters` \
mixes numbers of parameters with sizes of files in MB, and `#Flops` mixes image sizes (most are \
multiply-adds at 224×224, where it trained on CIFAR-10's 32×32). Our layers with weights count \
every module that holds a matrix or a kernel, shortcuts and both networks of DCGAN and DQN \
included; an LSTM is one whatever its depth.

| workload | paper: layers | ours, layers with weights | paper: FLOPs | ours, forward, a sample | paper: parameters | ours as it trains | ours as published | where the paper errs |
|---|---:|---:|---:|---:|---:|---:|---:|---|
"""


def main() -> None:
    """Writes the page named on the command line."""
    command = [sys.executable, "-m", "wattstep", "suite", "--json", "--quiet"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["workloads"]
    Path(sys.argv[1]).write_text(document(rows), encoding="utf-8")


def document(rows: list[dict[str, Any]]) -> str:
    """Text of docs/suite.md from the rows of `wattstep suite --json`."""
    papers = [row for row in rows if row["paper_table"]]
    text = HEAD + "".join(map(_line, rows))
    text += PAPER.format(paper=papers[0]["paper_table"]["paper"])
    return text + "".join(map(_paper_line, papers))


def _line(row: dict[str, Any]) -> str:
    cells = (
        f"`{row['name']}`",
        row["title"],
        row["dataset"],
        "×".join(map(str, row["input_shape"])),
        f"{row['parameters']:,}",
        f"{row['trainable_parameters']:,}",
        _published(row["published"]),
        _large(row["forward_flops_per_sample"]),
    )
    return f"| {' | '.join(cells)} |\n"


def _published(facts: dict[str, Any]) -> str:
    size = facts["image_size"]
    at = [f"{facts['classes']:,} classes"] if facts["classes"] else []
    at += [f"{size}×{size}"] if size else []
    return f"{facts['parameters']:,}" + (f" ({', '.join(at)})" if at else "")


def _paper_line(row: dict[str, Any]) -> str:
    paper = row["paper_table"]
    cells = (
        f"`{row['name']}`",
        str(paper["layers"]),
        str(row["weight_layers"]),
        paper["flops"],
        _large(row["forward_flops_per_sample"]),
        paper["parameters"],
        _large(row["parameters"]),
        _large(row["published"]["parameters"]),
        "; ".join(paper["errors"]) or "–",
    )
    return f"| {' | '.join(cells)} |\n"


def _large(number: float) -> str:
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {prefix}"
    return f"{number:g}"


if __name__ == "__main__":
    main()
