"""Write the page of JAX steps from ``docs/results/jax/*.json``.

``python -m tests.benchmarks.jax -o docs/results/jax/NAME.json`` measures them. With ``--check`` this script
only says whether the page is up to date (exit code 1: it is not).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from page_file import write_or_check

from checkmate.units import format_bytes

RESULTS = Path(__file__).parent / "results" / "jax"
PAGE = Path(__file__).parent / "pages" / "benchmarks" / "jax.md"

_HEAD = """\
# JAX steps

<!-- Written by docs/render_jax.py from docs/results/jax. Change those files, not this page. -->

Small networks in plain JAX, each a chain of equal blocks (`tests/benchmarks/jax_networks.py`). *Temporary* is
what XLA holds beside arguments and results, read from the compiled step. A share is the budget, of the plain
step's temporary bytes. *Extra time* is **measured**: two steps in turns in one process, the least of each;
the machine was busy, so it is rough: rows that hold as much as the plain step show how rough. *Predicted* is
from counted operations and bytes; it does not know what XLA fuses less. The *difference* is the largest of
loss and updated weights. The other rows put `jax.checkpoint` with a policy around each block. All was
measured before the order alone was tried, and with XLA's usual scheduler.

`python -m tests.benchmarks.jax -o docs/results/jax/NAME.json` measures it, and `python docs/render_jax.py`
writes this page.
"""
_COLUMNS = (
    "step",
    "temporary",
    "of plain",
    "kept",
    "recomputed",
    "predicted",
    "extra time",
    "compiled",
    "difference",
)


def page(results: Path = RESULTS) -> str:
    """Return the page as Markdown."""
    parts = [_HEAD]
    for path in sorted(results.glob("*.json")):
        facts = json.loads(path.read_text(encoding="utf-8"))
        loads = facts["load"]
        parts.append(
            f"*{facts['processor']}, {facts['cores']} cores, load {min(loads):.0f} to {max(loads):.0f}, "
            f"JAX {facts['jax']} on {facts['platform']}. From `docs/results/jax/{path.name}`.*\n"
        )
        for name in dict.fromkeys(row["network"] for row in facts["rows"]):
            parts += [f"## {name}\n", _table([row for row in facts["rows"] if row["network"] == name])]
    return "\n".join(parts)


def _table(rows: list[dict[str, Any]]) -> str:
    plain = rows[0]["temporary"]
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|---|" + "---:|" * (len(_COLUMNS) - 1)]
    lines += ["| " + " | ".join(_cells(row, plain)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cells(row: dict[str, Any], plain: int) -> list[str]:
    kept = "–" if "budget" not in row else "yes" if row["temporary"] <= row["budget"] else "no"
    way = row["way"] if "budget" in row or row["way"] == "plain" else f"`{row['way']}`"
    return [
        way,
        format_bytes(row["temporary"]),
        f"{row['temporary'] / plain:.0%}",
        kept,
        str(row.get("recomputations", "–")),
        f"{max(0.0, row['predicted']):+.1%}" if "predicted" in row else "–",
        f"{row['measured']:+.0%}" if "measured" in row else "–",
        f"{row['compilations']} times" if "compilations" in row else "–",
        "–" if "difference" not in row else "none" if row["difference"] == 0 else f"{row['difference']:.0e}",
    ]


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), "docs/render_jax.py"))
