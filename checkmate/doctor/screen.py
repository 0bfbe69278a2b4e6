"""Print the doctor's tables for a terminal or a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from checkmate.doctor.diagnosis import Diagnosis, Line, PartState
from checkmate.doctor.prove.networks import Proof
from checkmate.doctor.prove.report import row
from checkmate.units import format_seconds

_STYLES = {PartState.OK: "green", PartState.LIMITED: "yellow", PartState.MISSING: "bold red"}
_MOST_WIDTH = 120  # longer lines are hard to read


def lines_on_screen(diagnosis: Diagnosis, stream: TextIO) -> str:
    """Return the lines as a table as wide as ``stream``. It is in colour where ``stream`` is a terminal."""
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), expand=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for line in diagnosis.lines:
        table.add_row(
            Text(line.state.value, style=_STYLES[line.state]), Text(line.title, style="bold"), _text(line)
        )
    verdict = Text(f"\n{diagnosis.verdict}", style="bold" if diagnosis.ok else "bold red")
    return _rendered(stream, table, verdict)


def _text(line: Line) -> Text:
    """Return the sentence, with the remedy below it."""
    text = Text(line.text)
    if line.mend and line.state is not PartState.OK:
        text.append(f"\n→ {line.mend}" if _can_draw("→") else f"\n{line.mend}", style="cyan")
    return text


def _can_draw(sign: str) -> bool:
    import locale

    try:
        sign.encode(locale.getpreferredencoding(False))
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def proofs_on_screen(proofs: Sequence[Proof], stream: TextIO) -> str:
    """Return the outcome of each network as a table."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for title in ("network", "budget", "predicted", "measured", "gradients", "took"):
        table.add_column(title, no_wrap=True)
    table.add_column("", overflow="fold")
    for proof in proofs:
        cells = row(proof)
        style = _STYLES[PartState.OK if proof.ok else PartState.MISSING]
        verdict = Text(proof.verdict, style=style)
        table.add_row(
            proof.kind, cells[1], cells[2], cells[3], cells[6], format_seconds(proof.seconds), verdict
        )
    return _rendered(stream, table)


def _rendered(stream: TextIO, *parts: RenderableType) -> str:
    console = Console(file=stream, highlight=False, soft_wrap=False)
    with console.capture() as captured:
        console.print(*parts, sep="\n", width=min(console.width, _MOST_WIDTH))
    return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())
