"""Draw PyTorch's ways to save memory beside ours, as ``docs/pages/pictures/torch-peers.svg``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from page_file import write_or_check

from checkmate.charts.svg_chart import ACCENT, GRAY, Chart

ROOT = Path(__file__).parent
PICTURE = ROOT / "pages" / "pictures" / "torch-peers.svg"
_MODEL = "gpt"
_KINDS = (
    ("activation_memory_budget", "square", "#c75400", "PyTorch's activation_memory_budget, 0.1 to 0.9"),
    ("checkpoint", "triangle", "#007f5b", "torch.utils.checkpoint: each block; all but products"),
    ("aot_eager", "diamond", GRAY, "torch.compile, nothing recomputed"),
)


def svg() -> str:
    facts = json.loads((ROOT / "results" / "torch" / "peers-cpu.json").read_text(encoding="utf-8"))
    rows = [row for row in facts["rows"] if row["model"] == _MODEL and "failed" not in row]
    eager = rows[0]

    def point(row: dict[str, float]) -> tuple[float, float]:
        return row["peak_bytes"] / 2**20, 100 * row["seconds_over_plain"]

    theirs = {
        kind: [
            row for row in rows if row["way"].startswith(kind[0]) and not row["way"].endswith((" 0", " 1"))
        ]
        for kind in _KINDS
    }
    ours = sorted(point(row) for row in rows if row["way"] == "ours")
    every = [point(row) for each in theirs.values() for row in each] + ours
    chart = Chart(x=(0.0, 1.04 * eager["peak_bytes"] / 2**20), y=(0.0, 1.1 * max(y for _, y in every)))
    chart.axes("measured peak of a step, MiB", "measured time over eager PyTorch, %")
    chart.line(ours, ACCENT, width=2)
    chart.legend_line(ACCENT, "Checkmate Explorer: gradients equal to the bit")
    for x, y in ours:
        chart.mark("dot", x, y, ACCENT, f"ours: {x:.1f} MiB, +{y:.0f} %")
    for (_, mark, color, name), each in theirs.items():
        for row in each:
            x, y = point(row)
            bits = "" if row["gradients_bitwise"] else ", other gradients"
            chart.mark(mark, x, y, color, f"{row['way']}: {x:.1f} MiB, +{y:.0f} %{bits}")
        chart.legend_mark(mark, color, name)
    return chart.svg(
        "A small GPT with dropout: time against memory",
        f"PyTorch {facts['torch']}, {facts['cores']} CPU cores; eager's peak is "
        f"{eager['peak_bytes'] / 2**20:.1f} MiB",
    )


if __name__ == "__main__":
    sys.exit(write_or_check(PICTURE, svg(), "docs/torch_picture.py"))
