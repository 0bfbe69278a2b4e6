from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from checkmate.cli import common_options
from checkmate.doctor.diagnosis import Diagnosis
from checkmate.doctor.lines import diagnose
from checkmate.doctor.look import LIMIT_S, look_around
from checkmate.doctor.proofs import LIMIT_S as PROVE_S
from checkmate.doctor.proofs import Proof, prove
from checkmate.doctor.rendering import lines_on_screen, proofs_on_screen, prove_report
from checkmate.errors import CancelledError, ExitCode, UsageError
from checkmate.terminal import Interrupt, emit, progress_line

CANNOT_RUN = 1
_REPORT = Path("checkmate-doctor.md")


def add_doctor(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _doctor,
        "Look at Python, TensorFlow, the devices, the memory meter, the profiler, Qt and the caches. Exit "
        "code 0: the main job (profile, solve, measure, export) can run.",
        example="checkmate doctor --prove   (also runs four small networks and writes a report to attach to "
        "a bug report)",
    )
    add = parser.add_argument
    add(
        "--prove",
        action="store_true",
        help="run four small networks through all stages, in ten minutes at most",
    )
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE.md",
        help=f"the report that --prove writes (default {_REPORT})",
    )
    add(
        "--time-limit",
        type=common_options.seconds,
        metavar="SECONDS",
        help=f"seconds for each library to answer (default {LIMIT_S:.0f}); with --prove: for all "
        f"networks (default {PROVE_S:.0f})",
    )


def _doctor(options: argparse.Namespace, interrupt: Interrupt) -> int:
    if options.output is not None and not options.prove:
        raise UsageError("only --prove writes a report", hint="run: checkmate doctor --prove -o FILE.md")
    output = options.output or _REPORT
    if options.prove:
        _write(output, "checkmate doctor --prove is still running\n")
    limit_s = LIMIT_S if options.prove or options.time_limit is None else options.time_limit
    with progress_line(quiet=options.quiet) as report:
        diagnosis = _diagnosis(limit_s, report, interrupt)
    if not options.prove:
        _show(options, diagnosis)
        return 0 if diagnosis.ok else CANNOT_RUN
    return _prove(options, diagnosis, output, interrupt)


def _diagnosis(limit_s: float, report: Any, interrupt: Interrupt) -> Diagnosis:
    started = time.monotonic()
    facts = look_around(limit_s=limit_s, report=report, cancelled=interrupt)
    return diagnose(facts, time.monotonic() - started)


def _prove(options: argparse.Namespace, diagnosis: Diagnosis, output: Path, interrupt: Interrupt) -> int:
    if not options.json:
        _show(options, diagnosis)
    proofs: list[Proof] = []

    def write() -> None:
        _write(output, prove_report(diagnosis, proofs, datetime.now()))

    if diagnosis.ok:
        try:
            with progress_line(quiet=options.quiet) as report:
                limit_s = PROVE_S if options.time_limit is None else options.time_limit
                prove(limit_s=limit_s, done=proofs.append, report=report, cancelled=interrupt)
        except (CancelledError, KeyboardInterrupt) as error:
            write()
            kept = f"{output} has what was found so far"
            raise CancelledError("cancelled", details={"kept": kept}) from error
    write()
    if options.json:
        _emit_json(
            {**diagnosis.to_json(), "networks": [one.to_json() for one in proofs], "output": str(output)}
        )
    else:
        _show_proofs(proofs, diagnosis, output)
    if not diagnosis.ok:
        return CANNOT_RUN
    return 0 if all(proof.ok for proof in proofs) else ExitCode.NOT_AS_PROMISED


def _write(output: Path, text: str) -> None:
    """``checkmate.formats`` is not used: it needs numpy, which may be broken."""
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        sentence = f"cannot write {output}: {error.strerror or error}"
        raise UsageError(sentence, hint="choose another place with -o FILE.md") from error


def _emit_json(data: dict[str, Any]) -> None:
    emit(json.dumps(data, ensure_ascii=False, default=str))


def _show(options: argparse.Namespace, diagnosis: Diagnosis) -> None:
    if options.json:
        _emit_json(diagnosis.to_json())
        return
    emit(lines_on_screen(diagnosis, sys.stdout))


def _show_proofs(proofs: list[Proof], diagnosis: Diagnosis, output: Path) -> None:
    if proofs:
        emit(proofs_on_screen(proofs, sys.stdout))
    else:
        emit("No network was tried, because the main job cannot run here.")
    emit(f"wrote {output}: attach it to a bug report")
