from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

from checkmate import __version__
from checkmate.cli.parser import Parser
from checkmate.errors import CancelledError, ExitCode, UsageError
from checkmate.machine.fault_report import as_known
from checkmate.machine.supported import steps_are_tensorflows
from checkmate.request import as_options
from checkmate.terminal import Interrupt, complain, emit, without_native_chatter

# Each command's module, where ``add_NAME`` says the rest, and its line in the list of commands.
COMMANDS = {
    "explore": ("window", "open the window"),
    "profile": ("measured_steps", "trace a model's training step and find the cost of every op"),
    "info": ("info", "show what a graph holds and what fills its peak"),
    "solve": ("solve", "find a schedule for a budget"),
    "policy": ("policy", "print code that keeps a budget by the framework's own recomputation"),
    "max-batch": ("max_batch", "find the largest batch that fits a budget"),
    "frontier": (
        "frontier",
        "trace the trade-off curve: extra cost at many budgets, with bounds and baselines",
    ),
    "cards": ("cards", "which card do I need: whether the step fits common cards, and at what cost"),
    "plan": ("cards", "before renting a card: the largest batch and the time of an example on each"),
    "check": ("check", "check a schedule by an independent replay"),
    "certify": ("certify", "write a proof that others can check: no schedule costs less, or none fits"),
    "export": ("measured_steps", "verify a schedule, and write it as a TensorFlow training graph"),
    "verify": ("measured_steps", "measure a scheduled step, and compare it with the plain step"),
    "run": ("measured_steps", "profile, solve, measure, verify and export in one go"),
    "assert": ("assert_memory", "for CI: whether the plain step holds no more than a maximum or a baseline"),
    "report": ("page", "make one page of curves and tables from result files"),
    "explain": (
        "explain",
        "say what filled the memory, from an out-of-memory log or a profile of TensorFlow",
    ),
    "desktop": ("window", "add the window to the desktop's applications menu"),
    "doctor": ("doctor", "show what this machine can do, what is missing, and how to fix it"),
    "list": ("info", "list what is available, and why something is not"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = argparse.Namespace(json="--json" in given, debug=False)
    interrupt = Interrupt()
    try:
        with interrupt.listening():
            options = _parsed(given)
            command: Callable[[argparse.Namespace, Interrupt], int] = options.command
            with (
                _interrupted_by(interrupt),
                nullcontext() if options.debug or not options.tensorflow else without_native_chatter(),
            ):
                return command(options, interrupt)
    except (CancelledError, KeyboardInterrupt) as error:
        kept = getattr(error, "details", {}).get("kept", "nothing was written")
        return _failed(options, f"interrupted; {kept}", getattr(error, "hint", ""), ExitCode.INTERRUPTED, {})
    except ModuleNotFoundError as error:
        if (error.name or "checkmate").partition(".")[0] in ("checkmate", "app"):
            return _ended(options, error)
        sentence = f"this command needs {error.name}, which is not installed"
        hint = "pip install checkmate-explorer installs everything needed"
        return _failed(options, sentence, hint, ExitCode.BAD_INPUT, {})
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # the outermost level: one sentence; the traceback with --debug
        return _ended(options, error)


def _parsed(given: Sequence[str]) -> argparse.Namespace:
    chosen = next((word for word in given if not word.startswith("-")), "")
    try:
        parser = build_parser(chosen)
    except ModuleNotFoundError:
        raise
    except ImportError as error:
        raise UsageError(
            f"a library cannot be imported: {error}",
            hint="run checkmate doctor: it says what is broken, and how to fix it",
        ) from error
    options = parser.parse_args(given or ["--help"])
    logging.basicConfig(level=logging.DEBUG if options.debug else logging.ERROR, stream=sys.stderr)
    # Silence TensorFlow's C++ start-up messages, in this process only, unless the user has set the level.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if options.debug else "3")
    if steps_are_tensorflows():  # the command that needs TensorFlow reports it
        from checkmate.backends.tf.environment import prepare_own_process

        prepare_own_process()
    return options


@contextmanager
def _interrupted_by(interrupt: Interrupt) -> Iterator[None]:
    """Treat any error after Ctrl-C as the interrupt: libraries may turn it into an error of their own."""
    try:
        yield
    except Exception as error:
        if interrupt.asked and not isinstance(error, CancelledError):
            raise KeyboardInterrupt from error
        raise


def _ended(options: argparse.Namespace, error: Exception) -> int:
    known = as_known(error)
    hint = as_options(known.hint, vars(options))
    return _failed(options, str(known), hint, known.exit_code, known.details)


def _failed(options: argparse.Namespace, message: str, hint: str, code: int, details: dict[str, Any]) -> int:
    noted = False
    if options.debug:
        traceback.print_exc()
        noted = hint in getattr(sys.exc_info()[1], "__notes__", ())  # the traceback ends with it
    if options.json:
        error = {"message": message, "hint": hint, "details": details}
        emit(json.dumps({"error": error, "exit_code": code}, default=str))
    complain(message, "" if noted else hint)
    return code


def build_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """With a ``chosen`` command, only that one is imported and has its options."""
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
    for name, (module, words) in COMMANDS.items():
        command = commands.add_parser(name, parents=[common], help=words, description=words)
        if chosen in (None, name):
            found = import_module(f"checkmate.cli.commands.{module}")
            getattr(found, f"add_{name.replace('-', '_')}")(command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
