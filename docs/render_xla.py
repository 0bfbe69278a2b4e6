"""Write the page of steps under XLA from ``docs/results/xla/steps.json``.

``python -m tests.benchmarks.xla -o docs/results/xla/steps.json`` measures it, then
``python docs/render_xla.py`` writes ``docs/pages/benchmarks/xla.md``. With ``--check`` it only says whether
the page is up to date (exit code 1: it is not).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from page_file import write_or_check

MEASURED = Path(__file__).parent / "results" / "xla" / "steps.json"
PAGE = Path(__file__).parent / "pages" / "benchmarks" / "xla.md"

_HEAD = """\
# Steps compiled by XLA

<!-- Written by docs/render_xla.py from docs/results/xla/steps.json. Change that, not this page. -->

Each step is compiled by XLA: plainly, by schedules for shares of the plain step's temporaries, and under
what Keras and TensorFlow offer. *Temporaries* are the bytes of XLA's own assignment of buffers, read from the
compiled step; parameters and the batch come on top and are the same for all. *Predicted* is the extra
time, estimated from operations and bytes. *Measured* is the processor time beside the plain step's, the
median of rounds in which all ways ran in turn. *Difference* is the largest one of any variable after one step
(weights, momenta, statistics): the norm of the difference beside the variable's own norm, or beside a
ten-thousandth of the largest variable's where that is more. `tests/tf/xla` holds loss and gradients to 1e-6,
and to 5e-6 where results of convolutions are held.
"""
_FOOT = """\
Ops that XLA will probably fuse are one op of the graph; XLA decides for itself, so what a schedule takes is
read from the compiled step. Convolutions on a CPU are a poor stand-in for a GPU: XLA's are slow there. No GPU
was measured. The MLP-Mixer ran again by itself, in nine rounds. Beside the others all of its ways took 7 to
19 points more of time, the peers' too: +36 % within 30 %, and +28 % for `recompute_grad` around blocks.

To measure again, run `python -m tests.benchmarks.xla -o docs/results/xla/steps.json`, then
`python docs/render_xla.py`.
"""
_TITLES = (
    "way",
    "temporaries, MiB",
    "of plain",
    "recomputations",
    "predicted",
    "measured",
    "difference",
    "compilations",
    "compiling, s",
)


def page(found: dict[str, Any]) -> str:
    """Return the page as Markdown."""
    parts = [_HEAD, _made_on(found), ""]
    for network in found["networks"]:
        parts += [f"## {network['network']}\n", f"Batch {network['batch']}, {network['ops']} ops.\n"]
        parts += [*_table(network["ways"]), ""]
        parts += [f"- *{each['way']}* could not be used: {_cell(each['why'])}" for each in network["refused"]]
        parts += [""] if network["refused"] else []
    return "\n".join([*parts, _FOOT])


def _made_on(found: dict[str, Any]) -> str:
    machine = found["machine"]
    return (
        f"*Measured on {machine['processor']}, {machine['cores']} cores, with TensorFlow "
        f"{machine['tensorflow']} and Keras {machine['keras']}, beside other programs: the load was "
        f"{machine['load']:.1f} at the start. Medians of {found['rounds']} rounds. "
        "From `docs/results/xla/steps.json`.*"
    )


def _table(ways: list[dict[str, Any]]) -> Iterator[str]:
    yield "| " + " | ".join(_TITLES) + " |"
    yield "|---|" + "---:|" * (len(_TITLES) - 1)
    plain = ways[0]["temp_bytes"]
    for way in ways:
        predicted = f"{100 * way['predicted_overhead']:+.1f} %" if "predicted_overhead" in way else ""
        error = "same bits" if way["bitwise"] else f"{way['state_error']:.1e}"
        missed = "" if way.get("fits", True) else " (over)"
        yield (
            f"| {way['way']} | {way['temp_bytes'] / 2**20:.1f}{missed} | "
            f"{100 * way['temp_bytes'] / plain:.0f} % | {way.get('recomputations', '')} | {predicted} | "
            f"{100 * (way['cpu_ratio'] - 1):+.0f} % | {error} | {way.get('attempts', 1)} | "
            f"{way['compile_seconds']:.0f} |"
        )


def _cell(text: str) -> str:
    return text.strip().replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


if __name__ == "__main__":
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    sys.exit(write_or_check(PAGE, page(measured), "docs/render_xla.py"))
