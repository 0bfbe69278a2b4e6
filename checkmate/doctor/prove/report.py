"""Write the report of ``doctor --prove``.

It is one Markdown file to attach to a bug report, with the same facts as JSON at its end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from checkmate.doctor.diagnosis import Diagnosis
from checkmate.doctor.prove.networks import Proof
from checkmate.text_table import markdown_lines
from checkmate.units import format_bytes, format_seconds

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


def prove_report(diagnosis: Diagnosis, proofs: Sequence[Proof], when: datetime) -> str:
    """Return the page.

    The user's home folder is written as ``~``, so that a bug report does not show the user's name.
    """
    lines = [
        "# What this machine can do",
        "",
        f"`checkmate doctor --prove`, {when:%Y-%m-%d %H:%M}. {diagnosis.verdict}",
        "",
    ]
    lines += ["| | | | how to fix it |", "|---|---|---|---|"]
    lines += [
        f"| {line.title} | {line.state.value} | {_cell(line.text)} | {_cell(line.mend)} |"
        for line in diagnosis.lines
    ]
    lines += ["", "## Small networks through all stages", "", *_proved(proofs)]
    lines += _logs(diagnosis)
    data = {**diagnosis.to_json(), "networks": [proof.to_json() for proof in proofs]}
    lines += [
        "",
        "## The same as JSON",
        "",
        *_fenced(json.dumps(data, ensure_ascii=False, default=str), "json"),
    ]
    return _without_home("\n".join(lines) + "\n")


def row(proof: Proof) -> tuple[str, ...]:
    """Return the table's cells for one network, as texts."""
    name = f"{proof.kind} ({proof.model}, batch {proof.batch_size})"
    took = format_seconds(proof.seconds)
    report = proof.report
    if report is None:
        return (name, *["–"] * (len(_COLUMNS) - 3), took, proof.verdict)
    peak, seconds = report["peak_bytes"], report["seconds"]
    return (
        name,
        format_bytes(report["budget_bytes"]),
        _bytes(peak.get("predicted")),
        _bytes(peak.get("measured")),
        _bytes(peak.get("plain_measured")),
        _bytes(peak.get("reloaded_measured")),
        gradients(report),
        _seconds(seconds.get("measured")),
        _seconds(seconds.get("plain_measured")),
        took,
        proof.verdict,
    )


def gradients(report: Mapping[str, Any]) -> str:
    """Return how the gradients compare with the plain step's, in a word."""
    found = report["gradients"]
    if found.get("bitwise"):
        return "bitwise"
    error = found.get("max_relative_error")
    return "differ" if error is None else f"{error:.1e} apart"


def _proved(proofs: Sequence[Proof]) -> list[str]:
    if not proofs:
        return ["No network got through all stages."]
    good = sum(proof.ok for proof in proofs)
    lines = [
        f"{good} of {len(proofs)} got through all stages; each budget is a share of the plain step's "
        "measured peak.",
        "",
    ]
    lines += markdown_lines(_COLUMNS, ([*map(_cell, row(proof))] for proof in proofs))
    for proof in proofs:
        lines += _details(proof)
    return lines


def _details(proof: Proof) -> list[str]:
    notes = [] if proof.report is None else [*proof.report["problems"], *proof.report["notes"]]
    if not notes and not proof.error:
        return []
    lines = ["", f"### {proof.kind}", ""]
    lines += [f"* {note}" for note in notes] + ([proof.error] if proof.error else [])
    return lines + (["", *_fenced(proof.trace)] if proof.trace else [])


def _logs(diagnosis: Diagnosis) -> list[str]:
    """Return the logs of the child processes. Often only the log tells what is wrong."""
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


def _bytes(count: int | None) -> str:
    return "–" if count is None else format_bytes(count)


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else format_seconds(seconds)


def _without_home(text: str) -> str:
    home = str(Path.home())
    return text.replace(home, "~") if len(home) > 1 else text
