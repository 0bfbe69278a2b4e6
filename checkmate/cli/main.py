from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from checkmate import __version__
from checkmate.cli import output
from checkmate.cli.commands import (
    cards,
    certify,
    check,
    doctor,
    explain,
    frontier,
    info,
    max_batch,
    measured_steps,
    page,
    solve,
    window,
)
from checkmate.cli.parser import Parser
from checkmate.errors import CancelledError, CheckmateError, ExitCode, UsageError
from checkmate.machine.supported import steps_are_tensorflows
from checkmate.terminal import Interrupt, without_native_chatter


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = build_parser().parse_args(given or ["--help"])
    except UsageError as error:
        options = argparse.Namespace(json="--json" in given, debug=False)
        return _failed(options, str(error), error.hint, error.exit_code, error.details)
    logging.basicConfig(level=logging.DEBUG if options.debug else logging.ERROR, stream=sys.stderr)
    # Silence TensorFlow's C++ start-up messages, in this process only, unless the user has set the level.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if options.debug else "3")
    if steps_are_tensorflows():  # the command that needs TensorFlow reports it
        from checkmate.backends.tf.environment import prepare_own_process

        prepare_own_process()
    interrupt = Interrupt()
    try:
        with interrupt.listening():
            command: Callable[[argparse.Namespace, Interrupt], int] = options.command
            with (
                _interrupted_by(interrupt),
                nullcontext() if options.debug or not _uses_tensorflow(options) else without_native_chatter(),
            ):
                return command(options, interrupt)
    except (CancelledError, KeyboardInterrupt) as error:
        kept = getattr(error, "details", {}).get("kept", "nothing was written")
        return _failed(options, f"interrupted; {kept}", getattr(error, "hint", ""), ExitCode.INTERRUPTED, {})
    except CheckmateError as error:
        return _failed(options, str(error), error.hint, error.exit_code, error.details)
    except ModuleNotFoundError as error:
        if (error.name or "checkmate").partition(".")[0] in ("checkmate", "app"):
            return _unexpected(options, error)
        sentence = f"this command needs {error.name}, which is not installed"
        hint = "pip install checkmate-explorer installs everything needed"
        return _failed(options, sentence, hint, ExitCode.BAD_INPUT, {})
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # the outermost level: one sentence; the traceback with --debug
        return _unexpected(options, error)


@contextmanager
def _interrupted_by(interrupt: Interrupt) -> Iterator[None]:
    """Treat any error after Ctrl-C as the interrupt: libraries may turn it into an error of their own."""
    try:
        yield
    except Exception as error:
        if interrupt.asked and not isinstance(error, CancelledError):
            raise KeyboardInterrupt from error
        raise


def _uses_tensorflow(options: argparse.Namespace) -> bool:
    traced = getattr(options, "tensorflow", False) or max_batch.traces(options) or cards.traces(options)
    return traced or getattr(options, "what", "") == "devices"


def _unexpected(options: argparse.Namespace, error: Exception) -> int:
    sentence = (
        f"unexpected {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".strip()
    )
    hint = "run again with --debug for the traceback, and please report it"
    return _failed(options, sentence, hint, ExitCode.UNEXPECTED, {})


def _failed(options: argparse.Namespace, message: str, hint: str, code: int, details: dict[str, Any]) -> int:
    noted = False
    if options.debug:
        traceback.print_exc()
        noted = hint in getattr(sys.exc_info()[1], "__notes__", ())  # the traceback ends with it
    if options.json:
        error = {"message": message, "hint": hint, "details": details}
        output.emit(json.dumps({"error": error, "exit_code": code}, default=str))
    output.complain(message, "" if noted else hint)
    return code


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="checkmate",
        description="Explore, solve and export rematerialized training steps of Keras models.",
        epilog="Start with: checkmate explore unet   or: checkmate run unet --budget 60% -o out",
    )
    parser.add_argument("--version", action="version", version=f"checkmate {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    common = Parser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    common.add_argument("--quiet", action="store_true", help="no progress on standard error")
    common.add_argument("--debug", action="store_true", help="show tracebacks and logs")
    for add in (
        window.add_explore,
        measured_steps.add_profile,
        info.add_info,
        solve.add_solve,
        max_batch.add_max_batch,
        frontier.add_frontier,
        cards.add_cards,
        cards.add_plan,
        check.add_check,
        certify.add_certify,
        measured_steps.add_export,
        measured_steps.add_verify,
        measured_steps.add_run,
        page.add_report,
        explain.add_explain,
        window.add_desktop,
        doctor.add_doctor,
        info.add_list,
    ):
        add(commands, common)
    return parser


__all__ = ["build_parser", "main"]

if __name__ == "__main__":
    sys.exit(main())
