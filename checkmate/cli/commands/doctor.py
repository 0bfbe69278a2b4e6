from __future__ import annotations

import argparse
import json
import shutil
import time

from checkmate.cli import common_options
from checkmate.doctor.lines import diagnose
from checkmate.doctor.look import LIMIT_S, look_around
from checkmate.terminal import Interrupt, emit, progress_line

CANNOT_RUN = 1
_MOST_WIDTH = 120  # longer lines are hard to read


def add_doctor(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _doctor,
        "Look at Python, TensorFlow, the devices, the memory meter, the profiler, Qt and the caches. Exit "
        "code 0: the main job (profile, solve, measure, export) can run.",
    )
    common_options.add_time_limit(parser, LIMIT_S, "seconds for each library to answer")


def _doctor(options: argparse.Namespace, interrupt: Interrupt) -> int:
    started = time.monotonic()
    with progress_line(quiet=options.quiet) as report:
        facts = look_around(limit_s=options.time_limit, report=report, cancelled=interrupt)
    diagnosis = diagnose(facts, time.monotonic() - started)
    if options.json:
        emit(json.dumps(diagnosis.to_json(), ensure_ascii=False, default=str))
    else:
        emit(diagnosis.text(min(shutil.get_terminal_size().columns, _MOST_WIDTH)).rstrip("\n"))
    return 0 if diagnosis.ok else CANNOT_RUN
