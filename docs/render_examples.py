"""Write the page of example programs from what was measured of them.

``python -m tests.benchmarks.training -o docs/results/training/NAME.json`` makes such a file; with ``--exact``
one of runs with the same kernels. With ``--check`` this script only says whether the page is up to date (exit
code 1: it is not).
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

from page_file import write_or_check

from checkmate.units import format_bytes, parse_bytes

ROOT = Path(__file__).parent
RESULTS = ROOT / "results" / "training"
EXAMPLES = ROOT.parent / "examples"
PAGE = ROOT / "pages" / "examples.md"

_HEAD = """\
# Example programs

<!-- Written by docs/render_examples.py from docs/results/training. Change those files, not this page. -->

The folder `examples/` holds training programs as people write them. Each stands alone, builds its own data,
and trains within a budget: `python examples/vae.py --budget 60%`. With `--small` it takes seconds. Run them
with `TF_CPU_ALLOCATOR_USE_BFC=true`, so that the process has a memory meter ([install](install.md)).
"""
_COLUMNS = (
    "program",
    "plain peak",
    "budget",
    "measured peak",
    "recomputations",
    "step, plain",
    "step, within",
    "set-up, plain",
    "set-up, first",
    "set-up, again",
    "largest difference",
)
_PEAKS = """\

## Peaks at full size

Nineteen programs, 20 steps or more each, with a step's memory in [one region](reliability.md#known-limits).
*Peaks* are **measured**, by the allocator's meter: the highest of all steps but the first. A plan's *extra
computation* is **predicted**. Other programs shared the two cores, at a load of 14 and of 22 when it was
read meanwhile, so seconds of a step are left out, and *set-up* is in **measured** seconds of the processors:
with an empty cache folder, where the search is compiled too, and again with what the first run kept there.
The *difference* is the largest of the losses, relative, over all steps, with default kernels; other metrics
differ by more, by 0.34 at most (a GAN's and an untrained translator's). Where a program has several plans,
the largest is shown; a budget is a share of the plain step's peak where it was planned, and the plain peak
shown is that of the whole training.
"""
_PEAK_COLUMNS = (
    "program",
    "plain peak",
    "budget",
    "measured peak",
    "recomputations",
    "extra computation",
    "set-up, first",
    "set-up, again",
    "difference of losses",
)
_MEANING = """\
*Peaks* are **measured**, by the allocator's meter: the highest of all steps but the first. The *budget* is
a share of the plain step's measured peak. *Set-up* is what the whole training took beyond its steps at
their usual pace, TensorFlow's own tracing included: of the plain program, then within the budget with an
empty cache folder, and again with what the first run kept there. The *largest difference* is that of
everything that the steps return (losses, metrics), relative, over all steps: with default kernels fusions
differ, and so does rounding. Where a program has several plans, the largest is shown. Programs that are not
in the table were not measured at full size. The table is from before a step got its memory in
[one region](reliability.md#known-limits), which changes peaks and plans.
"""
_EXACT = """\
## The same bits with the same kernels

With default kernels TensorFlow fuses ops where it can, and a schedule changes where it can. Here a plain run
and one within the budget are compared that both have Eigen's kernels, with TensorFlow's graph rewriting off.
**Measured** at the small size, over all steps; everything that the steps return is compared. Where nothing
was recomputed, the order alone is the schedule's, or the step trained plainly because nothing kept the
budget. Where bits differ, a sum begins with another term ([Gradients](reliability.md#gradients)). Programs
that are not in the table were not measured so.
"""


def page(results: Path = RESULTS) -> str:
    """Return the page as Markdown."""
    parts = [_HEAD, "| program | what it does |\n|---|---|"]
    parts += [f"| `{path.name}` | {_summary(path)} |" for path in sorted(EXAMPLES.glob("*.py"))]
    for path in sorted(results.glob("*.json")):
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts.get("exact"):
            parts += [_EXACT, _machine(facts["machine"]), _exact_table(facts["rows"])]
            continue
        if facts.get("shared"):
            parts += [_PEAKS, _machine(facts["machine"]), _peak_table(facts["rows"])]
            parts += [f"`{row['program']}`: {_exceeded(row)}\n" for row in facts["rows"] if _exceeded(row)]
            continue
        parts += ["\n## Measured at full size\n", _MEANING, _machine(facts["machine"]), _table(facts["rows"])]
        parts += [f"`{row['program']}`: {_told(row)}\n" for row in facts["rows"] if _told(row)]
    return "\n".join(parts) + "\n"


def _summary(path: Path) -> str:
    words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first = words.splitlines()[0].removesuffix(".")
    return first.partition(" within a ")[0].removesuffix(",")


def _machine(machine: dict[str, Any]) -> str:
    return (
        f"*{machine['processor']}, {machine['cores']} cores, load {machine['load']:.1f} at the start, "
        f"Python {machine['python']}, checkmate {machine['checkmate']}.*\n"
    )


def _table(rows: list[dict[str, Any]]) -> str:
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|---|" + "---:|" * (len(_COLUMNS) - 1)]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows if "problem" not in row]
    return "\n".join(lines) + "\n"


def _cells(row: dict[str, Any]) -> list[str]:
    plans = row["plans"]
    budget = max((plan["budget"] for plan in plans), key=parse_bytes, default="–")
    return [
        f"`{row['program']}`",
        format_bytes(row["plain_peak_bytes"]),
        budget,
        format_bytes(row["peak_bytes"]),
        max((plan["recomputations"] for plan in plans), key=int, default="0"),
        f"{row['plain_step_s']:.2f} s",
        f"{row['step_s']:.2f} s ({row['step_s'] / row['plain_step_s'] - 1:+.0%})",
        f"{row['setup_plain_s']:.0f} s",
        f"{row['setup_s']:.0f} s",
        f"{row['setup_again_s']:.0f} s",
        "none" if row["difference"] == 0 else f"{row['difference']:.0e}",
    ]


def _peak_table(rows: list[dict[str, Any]]) -> str:
    lines = ["| " + " | ".join(_PEAK_COLUMNS) + " |", "|---|" + "---:|" * (len(_PEAK_COLUMNS) - 1)]
    for row in rows:
        name, plain, budget, peak, recomputations, *_ = _cells(row)
        extra = max((float(plan["predicted"]) for plan in row["plans"]), default=0.0)
        apart = f"{row['difference_of_losses']:.0e}" if row["difference_of_losses"] else "none"
        setups = [f"{row[key]:.0f} s" for key in ("setup_processor_s", "setup_again_processor_s")]
        cells = [name, plain, budget, peak, recomputations, f"+{extra:.1f}%", *setups, apart]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _exceeded(row: dict[str, Any]) -> str:
    """Return how often the allocator held more than the budget, and the most."""
    found = []
    for run, key in (("first", "told"), ("second", "told_second")):
        held = re.findall(r"the allocator held ([\d.,]+ \w+)", " ".join(row[key]))
        if held:
            most = max(held, key=lambda text: parse_bytes(text.replace(",", "")))
            found.append(f"in the {run} run the allocator was said to hold more {len(held)}×, at most {most}")
    return f"over the budget: {'; '.join(found)}." if found else ""


def _exact_table(rows: list[dict[str, Any]]) -> str:
    lines = ["| program | recomputations | steps | steps with other bits | largest difference |"]
    lines += ["|---|---:|---:|---:|---:|"]
    for row in rows:
        if "problem" not in row:
            told = re.findall(r"(\d+) recomputation", " ".join(row.get("told", ())))
            told += [plan["recomputations"] for plan in row["plans"]]
            most = max(told, key=int, default="0")
            apart = f"{row['difference']:.0e}" if row["difference"] else "none"
            lines.append(
                f"| `{row['program']}` | {most} | {row['steps']} | {row['differing_steps']} | {apart} |"
            )
    return "\n".join(lines) + "\n"


def _told(row: dict[str, Any]) -> str:
    """Return what was said where a program did not keep its budget."""
    if "problem" in row:
        return "it did not run."
    missed = [line.partition(": ")[2] for line in row["told"] if "closest" in line][:1]
    missed += [line.partition(": ")[2] for line in row["told"] if "over the budget" in line]
    again = [line.partition(": ")[2] for line in row["told_second"] if "over the budget" in line]
    return " ".join([f"{line}." for line in missed] + [f"In the second run: {line}." for line in again])


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), "docs/render_examples.py"))
