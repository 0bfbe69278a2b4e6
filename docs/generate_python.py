"""Write the page of all public names from their signatures and docstrings.

``python docs/generate_python.py`` writes ``docs/pages/reference/python.md``. With ``--check`` it only says
whether the page is up to date (exit code 1: it is not).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from page_file import write_or_check

import checkmate

PAGE = Path(__file__).parent / "pages" / "reference" / "python.md"

_HEAD = """\
# Python names

<!-- Written by docs/generate_python.py from the docstrings. Change those, not this page. -->

Every public name of `checkmate`. `help(checkmate.solve)` has all of its docstring: arguments, units, shapes
and errors. [Python](../python.md) shows how the names go together. `checkmate.jax` has three more, on
[a page of its own](../jax.md): `rematerialize`, `profile` and `export`. `checkmate.torch` has `rematerialize`
and `backend`, on [another](../pytorch.md). `checkmate.keras` has
[`MemoryReport`](../python.md#memory-in-the-logs).
"""
_GROUPS = {
    "Train within a budget": "rematerialize rematerialize_function train_step summary",
    "From a model to a training graph": "ModelRequest profile solve least_memory verify export "
    "export_within run",
    "The trade-off": "info policy frontier sweep max_batch plan report view",
    "Options and budgets": "SolveOptions Constraints Budget parse_budget resolve_budget keep_everything_peak "
    "known_minimum",
    "Checks and proofs": "check_schedule certify check_certificate",
    "Files": "read_graph write_graph read_schedule write_schedule write_matrices",
    "Values": "Graph GraphBuilder GraphInfo Schedule SolveResult SolveStatus LeastMemory TradeOff "
    "LargestBatch Policy Timeline CheckReport VerificationReport CheckmateError",
}
_BUILT = ("ModelRequest", "SolveOptions", "Constraints")  # the classes that a user calls


def page() -> str:
    """Return the page as Markdown."""
    parts = [_HEAD]
    for title, names in _GROUPS.items():
        parts += [f"## {title}\n", *map(_entry, names.split()), ""]
    left = set(checkmate.__all__) - set(" ".join(_GROUPS.values()).split())
    parts += ["## More\n", *map(_entry, sorted(left)), ""] if left else []
    return "\n".join(parts)


def _entry(name: str) -> str:
    found = getattr(checkmate, name)
    called = inspect.isfunction(found) or name in _BUILT
    signature = f"({', '.join(_parameters(found))})" if called else ""
    first = (inspect.getdoc(found) or "").partition("\n\n")[0].replace("\n", " ").replace("``", "`")
    return f"- `{name}{signature}`: {first}"


def _parameters(found: Any) -> Iterator[str]:
    keyword_only = False
    for each in inspect.signature(found).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            yield "*"
        if each.default is each.empty:
            yield each.name
        else:
            short = each.default is None or isinstance(each.default, bool | int | float | str)
            yield f"{each.name}={each.default!r}" if short else f"{each.name}=…"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), "docs/generate_python.py"))
