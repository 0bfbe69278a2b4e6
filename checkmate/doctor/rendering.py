"""The doctor's lines and proofs: tables for a terminal, and the Markdown report of ``doctor --prove``."""

from __future__ import annotations

import json
import locale
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from checkmate.doctor.diagnosis import Diagnosis, Line, PartState
from checkmate.doctor.proofs import Proof
from checkmate.text_table import markdown_lines
from checkmate.units import format_bytes, format_seconds

_STYLES = {PartState.OK: "green", PartState.LIMITED: "yellow", PartState.MISSING: "bold red"}
_MOST_WIDTH = 120  # longer lines are hard to read


def lines_on_screen(diagnosis: Diagnosis, stream: TextIO) -> str:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), expand=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for line in diagnosis.lines:
        state = Text(line.state.value, style=_STYLES[line.state])
        table.add_row(state, Text(line.title, style="bold"), _sentence(line))
    verdict = Text(f"\n{diagnosis.verdict}", style="bold" if diagnosis.ok else "bold red")
    return _rendered(stream, table, verdict)


def _sentence(line: Line) -> Text:
    text = Text(line.text)
    if line.mend:
        text.append(f"\n→ {line.mend}" if _can_draw("→") else f"\n{line.mend}", style="cyan")
    return text


def _can_draw(sign: str) -> bool:
    try:
        sign.encode(locale.getpreferredencoding(False))
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def proofs_on_screen(proofs: Sequence[Proof], stream: TextIO) -> str:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for title in ("network", "budget", "predicted", "measured", "gradients", "took"):
        table.add_column(title, no_wrap=True)
    table.add_column("", overflow="fold")
    for proof in proofs:
        cells = _row(proof)
        verdict = Text(proof.verdict, style=_STYLES[PartState.OK if proof.ok else PartState.MISSING])
        table.add_row(proof.kind, *cells[1:4], cells[6], cells[9], verdict)
    return _rendered(stream, table)


def _rendered(stream: TextIO, *parts: RenderableType) -> str:
    console = Console(file=stream, highlight=False, soft_wrap=False)
    with console.capture() as captured:
        console.print(*parts, sep="\n", width=min(console.width, _MOST_WIDTH))
    return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


_COLUMNS = (
    "network",
    "budget",
    "peak predicted",
    "measured",
    "plain",
    "reloaded",
    "gradients",
    "step",
    "plain step",
    "took",
    "",
)


def _row(proof: Proof) -> tuple[str, ...]:
    name = f"{proof.kind} ({proof.model}, batch {proof.batch_size})"
    took = format_seconds(proof.seconds)
    report = proof.report
    if report is None:
        return (name, *["–"] * (len(_COLUMNS) - 3), took, proof.verdict)
    peaks = ("predicted", "measured", "plain_measured", "reloaded_measured")
    return (
        name,
        format_bytes(report["budget_bytes"]),
        *(format_bytes(report["peak_bytes"].get(one)) for one in peaks),
        "bitwise" if report["gradients"].get("bitwise") else "differ",
        *(format_seconds(report["seconds"].get(one)) for one in ("measured", "plain_measured")),
        took,
        proof.verdict,
    )


def prove_report(diagnosis: Diagnosis, proofs: Sequence[Proof], when: datetime) -> str:
    """``~`` stands for the user's home folder, so that a bug report shows no user's name."""
    data = {**diagnosis.to_json(), "networks": [proof.to_json() for proof in proofs]}
    lines = [
        "# What this machine can do",
        "",
        f"`checkmate doctor --prove`, {when:%Y-%m-%d %H:%M}. {diagnosis.verdict}",
        "",
        "| | | | how to fix it |",
        "|---|---|---|---|",
        *(
            f"| {line.title} | {line.state.value} | {_cell(line.text)} | {_cell(line.mend)} |"
            for line in diagnosis.lines
        ),
        "",
        "## Small networks through all stages",
        "",
        *_proved(proofs),
        *_logs(diagnosis),
        "",
        "## The same as JSON",
        "",
        *_fenced(json.dumps(data, ensure_ascii=False, default=str), "json"),
    ]
    text, home = "\n".join(lines) + "\n", str(Path.home())
    return text.replace(home, "~") if len(home) > 1 else text


def _proved(proofs: Sequence[Proof]) -> list[str]:
    if not proofs:
        return ["No network got through all stages."]
    good = sum(proof.ok for proof in proofs)
    lines = [
        f"{good} of {len(proofs)} got through all stages; each budget is a share of the plain step's "
        "measured peak.",
        "",
        *markdown_lines(_COLUMNS, ([*map(_cell, _row(proof))] for proof in proofs)),
    ]
    for proof in proofs:
        notes = [] if proof.report is None else [*proof.report["problems"], *proof.report["notes"]]
        if notes or proof.error:
            lines += ["", f"### {proof.kind}", "", *(f"* {note}" for note in notes)]
            lines += [proof.error] if proof.error else []
            lines += ["", *_fenced(proof.trace)] if proof.trace else []
    return lines


def _logs(diagnosis: Diagnosis) -> list[str]:
    lines: list[str] = []
    for name, title in (("tensorflow", "TensorFlow's log"), ("window", "Qt's log")):
        log = str(diagnosis.facts.get(name, {}).get("log", "")).strip()
        if log:
            lines += ["", f"## {title}", "", *_fenced(log)]
    return lines


def _fenced(text: str, language: str = "") -> list[str]:
    fence = "```"
    while fence in text:
        fence += "`"
    return [f"{fence}{language}", text.rstrip(), fence]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
