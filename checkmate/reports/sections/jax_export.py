"""Make the section of ``export.json``: a step of JAX in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkmate.formats.files import Fields
from checkmate.reports.page.parts import Block, Note, Section, Table
from checkmate.units import format_bytes

_COLUMNS = ("", "whole", "arguments", "results", "shared", "temporary")
_STEPS = (
    ("plain_bytes", "the plain step"),
    ("reached_bytes", "the scheduled step"),
    ("reloaded_bytes", "the step read from the file"),
)


def sections(path: Path, data: Any) -> list[Section]:
    """Return the section of a ``checkmate-jax-export``.

    Raises:
        FormatError: a field is missing or wrong.
    """
    told = Fields(path, data)
    ok, calls = told.get("ok", bool), told.get("call", str)
    rows = [(words, *_sizes(Fields(path, told.get(name, dict), name))) for name, words in _STEPS]
    blocks: list[Block] = [Table.of("Bytes, read from XLA's compiled steps", _COLUMNS, rows)]
    if problems := told.get("problems", list):
        blocks.append(Note(tuple(map(str, problems))))
    reached = told.get("reloaded_bytes", dict).get("whole")
    facts = (
        f"exported for the {told.get('platform', str)} by JAX {told.get('versions', dict).get('jax')}",
        f"budget {format_bytes(told.whole('budget_bytes'))}",
        "called as the step is" if calls == "tree" else "called with flat arrays",
    )
    cards = (
        ("as promised" if ok else "NOT as promised", "the step read from its file"),
        (format_bytes(reached), "peak of it, as XLA says"),
        (f"{100 * told.get('predicted_overhead', (int, float)):+.1f} %", "extra cost, predicted by counts"),
    )
    return [Section(f"{told.get('step', str)}: exported by jax.export", facts, cards, tuple(blocks))]


def _sizes(told: Fields) -> list[str]:
    return [format_bytes(told.whole(name)) for name in _COLUMNS[1:]]
