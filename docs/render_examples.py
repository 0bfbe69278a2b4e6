"""Write the page of example programs from what was measured of them.

``python -m tests.benchmarks.training -o docs/results/training/NAME.json`` makes such a file; with ``--exact``
one of runs with the same kernels. With ``--check`` this script only says whether the page is up to date (exit
code 1: it is not).
"""

from __future__ import annotations

import ast
import json
import re
import statistics
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
    "extra computation",
    "step, plain",
    "step, within",
    "set-up, plain",
    "set-up, first",
    "set-up, again",
    "difference of losses",
    "of all",
)
_MEANING = """\
Each program ran plainly, then within its budget with an empty cache folder, and again with what the first
run kept there, 20 steps or more each. *Peaks* are **measured**, by the allocator's meter: the highest of all
steps but the first. The *budget* is a share of the plain step's measured peak, with what others hold added;
the plain peak shown is that of the whole training. A plan's *extra computation* is **predicted**, the seconds
of a step are **measured**. *Set-up* is what the whole training took beyond its steps at their usual pace,
TensorFlow's own tracing included: of the plain program, of the first run within the budget, and of the next.
The *differences* are relative, over all steps, the largest of the losses and of everything that the steps
return: with default kernels fusions differ, and so does rounding, which a GAN's or an untrained translator's
metrics amplify. Where a program has several plans, the largest is shown.

A schedule runs the ops one after another, and each of them on all cores. Plain training on a CPU runs small
ops side by side too. So a network of many small ops may take longer than its extra computation says.
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
        parts += ["\n## Measured at full size\n", _MEANING, _machine(facts["machine"]), _table(facts["rows"])]
        parts.append(_setups(facts["rows"]))
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
    budgets = [parse_bytes(plan["budget"].replace(",", "")) for plan in plans]
    return [
        f"`{row['program']}`",
        format_bytes(row["plain_peak_bytes"]),
        format_bytes(max(budgets)) if budgets else "–",
        format_bytes(row["peak_bytes"]),
        max((plan["recomputations"] for plan in plans), key=int, default="0"),
        f"+{max((float(plan['predicted']) for plan in plans), default=0.0):.1f}%",
        f"{row['plain_step_s']:.2f} s",
        f"{row['step_s']:.2f} s ({row['step_s'] / row['plain_step_s'] - 1:+.0%})",
        f"{row['setup_plain_s']:.0f} s",
        f"{row['setup_s']:.0f} s",
        f"{row['setup_again_s']:.0f} s",
        *(f"{row[key]:.0e}" if row[key] else "none" for key in ("difference_of_losses", "difference")),
    ]


def _setups(rows: list[dict[str, Any]]) -> str:
    """Return the median and the longest set-up of each kind, as a sentence."""
    kinds = {"setup_plain_s": "plain", "setup_s": "first", "setup_again_s": "again"}
    ran = [row for row in rows if "problem" not in row]
    words = [
        f"{word} {statistics.median(found):.1f} and {max(found):.0f} s"
        for key, word in kinds.items()
        if (found := [row[key] for row in ran])
    ]
    return f"Set-up, median and longest of {len(ran)} programs: {', '.join(words)}.\n"


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
