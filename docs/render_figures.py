"""Write the tables of figures into the pages and the README.

A region of a page begins with ``<!-- figures: NAME -->`` and ends with ``<!-- end of figures -->``. What
stands between them is made from ``docs/results/NAME.json``. With ``--check`` nothing is written: the exit
code 1 says that a page is out of date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import tables
from page_file import write_or_check
from readme_rows import readme_rows
from tables import ways

ROOT = Path(__file__).parent
RESULTS = ROOT / "results"
VIEWS: dict[str, Callable[[tables.Facts], str]] = {
    "records/four-models": tables.record,
    "records/run-gpu": tables.record,
    "records/peers": tables.peers,
    "fidelity-eigen": tables.fidelity,
    "paper-batches": tables.batches,
    "solvers-paper": tables.solved,
    "solvers/corners": tables.corners,
    "xla/steps": ways("plain", "60 %", "30 %", "recompute_grad, blocks", "recompute_grad, √n layers"),
    "jax/keras-cpu": ways("plain", "60 %", "30 %", "keras.remat", "keras.remat, memory scheduler"),
    "jax/h200": ways("plain", "75 %", "60 %", "45 %", "30 %", "nothing_saveable", "dots_saveable"),
    "torch/peers-cpu": tables.torch_peers,
    "training/programs": tables.programs,
    "training/same_kernels": tables.same_bits,
}
_REGION = re.compile(r"(?<=<!-- figures: )([\w./-]+)( -->\n)(.*?)(?=<!-- end of figures -->)", re.DOTALL)


def filled(page: str, render: Callable[[str], str]) -> str:
    """Return the page with every region made anew by ``render(NAME)``."""
    return _REGION.sub(lambda found: f"{found[1]}{found[2]}\n{render(found[1])}\n", page)


def outside(page: str) -> str:
    """Return the page without what stands in its regions."""
    return _REGION.sub(lambda found: found[1] + found[2], page)


def pages() -> Iterator[Path]:
    """Yield the pages that may have regions."""
    yield ROOT.parent / "README.md"
    yield from sorted((ROOT / "pages").rglob("*.md"))


def figures(name: str) -> str:
    """Return the result ``name`` as Markdown."""
    if name == "readme":
        return tables.table(("what", "result", "status"), readme_rows(RESULTS))
    facts = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return f"{VIEWS[name](facts)}\n*{tables.made_on(facts)} From `docs/results/{name}.json`.*\n"


if __name__ == "__main__":
    texts = {path: path.read_text(encoding="utf-8") for path in pages()}
    codes = [
        write_or_check(path, filled(text, figures), "docs/render_figures.py") for path, text in texts.items()
    ]
    sys.exit(max(codes))
