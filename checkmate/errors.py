"""The errors that a user can meet::

    CheckmateError
    ├─ UsageError: UnknownNameError
    ├─ ContentError: those below that are marked with *, and ``checkmate.processes``' MessageError
    ├─ LoadError*: UnsupportedFormatError, ModelReadError, UnsafeModelError
    ├─ TraceError: DynamicShapeError, OnlySmallTensorsError
    ├─ ProfileError: StepTooLargeError, MeterMissingError
    ├─ GraphError*
    ├─ ScheduleError*: FingerprintMismatchError, OtherStepError
    ├─ SolveError: SolverUnavailableError, SolverCrashedError
    │   └─ NoScheduleError: InfeasibleError (BudgetBelowMinimumError), SolveCancelledError, SolveFailedError
    ├─ ExportError: CycleError, JitCompiledError
    ├─ VerificationError*
    ├─ FormatError*: SchemaVersionError
    ├─ PlanningError
    ├─ WorkerDiedError
    ├─ EngineUnavailableError
    ├─ UnsupportedVersionError
    └─ CancelledError

Solves that are infeasible, cancelled or out of time are results (``checkmate.ir.result``); only
``require_schedule`` raises.
"""

from __future__ import annotations

import os
import re
import traceback
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar

from checkmate.units import format_bytes_apart, format_bytes_up


class ExitCode(IntEnum):
    """How a command ended; ``docs/pages/reliability.md`` says what each means."""

    DONE = 0
    UNEXPECTED = 1
    BAD_INPUT = 2
    INFEASIBLE = 3
    NO_SCHEDULE = 4
    NOT_AS_PROMISED = 5
    INTERRUPTED = 130


class CheckmateError(Exception):
    """An expected error, with a hint and an exit code.

    ``str(error)`` is one sentence that says what was found. ``hint`` says what to do about it; a traceback
    ends with it. ``exit_code`` is the command line's, one for each class.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_INPUT

    def __init__(self, message: str, *, hint: str = "", details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.details: dict[str, Any] = dict(details or {})
        if hint:
            self.add_note(hint)

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of its traceback: the lines of whoever called, the sentence and the
        hint.
        """
        theirs = [
            entry for entry in traceback.extract_tb(self.__traceback__) if not _is_library(entry.filename)
        ]
        shown = traceback.format_list(theirs) + traceback.format_exception_only(self)
        return "".join(shown).rstrip().splitlines()


def _is_library(file: str) -> bool:
    packages = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return bool(packages) or file.startswith((os.path.dirname(__file__), os.path.dirname(os.__file__)))


class ContentError(CheckmateError):
    """What came from a file or from another process is wrong.

    The sentence is one line of at most ``LONGEST`` characters, whatever names are in it.
    """

    def __init__(self, message: str, *, hint: str = "", details: dict[str, Any] | None = None) -> None:
        super().__init__(one_line(message), hint=hint, details=details)


LONGEST = 280  # characters of a sentence about what came from outside
_CUT = 200  # of them before what is left out
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def one_line(text: str) -> str:
    """Return ``text`` without line breaks and control characters. It is cut in the middle if it is long."""
    if len(text) > LONGEST:
        text = f"{text[:_CUT]} … {text[_CUT + 3 - LONGEST :]}"
    return _UNSHOWN.sub("\ufffd", text)


class UsageError(CheckmateError):
    """The command line or the arguments of a call are wrong."""


class UnknownNameError(UsageError):
    """The graph has no value, op or layer of this name. ``near`` are names it has that look alike."""

    def __init__(self, *, kind: str, name: str, near: tuple[str, ...] = ()) -> None:
        like = " or ".join(repr(entry) for entry in near)
        super().__init__(
            f"there is no {kind} {name!r} in the graph",
            hint=f"did you mean {like}?"
            if near
            else "checkmate info G.json lists the layers alive at the peak",
            details={"kind": kind, "name": name, "near": list(near)},
        )


class LoadError(ContentError):
    """A model could not be loaded."""


class UnsupportedFormatError(LoadError):
    """The file is not of a kind that can be opened."""


class ModelReadError(LoadError):
    """The file is of a known kind but cannot be read."""


class UnsafeModelError(LoadError):
    """Opening the model would run code that is stored inside it. Nobody has allowed that."""


class TraceError(CheckmateError):
    """The training step could not be traced."""


class DynamicShapeError(TraceError):
    """An input's shape is not known, so sizes cannot be computed."""


class OnlySmallTensorsError(TraceError):
    """The step has no tensor that is large enough to rematerialize."""


class ProfileError(CheckmateError):
    """Costs could not be measured."""


class StepTooLargeError(ProfileError):
    """A step does not fit the device's memory: it was not run, ran out of it, or its process died.

    If it was not run, ``details`` may hold ``needed_bytes`` and ``free_bytes``, both beside the graph's
    ``fixed_bytes``.
    """


class MeterMissingError(ProfileError):
    """This process's allocator counts nothing. So no peak can be measured in this process."""

    def __init__(self, meter: str) -> None:
        super().__init__(
            f"this process has no memory meter for {meter}",
            hint="set TF_CPU_ALLOCATOR_USE_BFC=true before TensorFlow is imported",
            details={"meter": meter},
        )


class GraphError(ContentError):
    """A graph breaks a rule of ``checkmate.ir.graph``."""


class ScheduleError(ContentError):
    """A schedule breaks a rule of ``checkmate.ir.schedule``."""


class FingerprintMismatchError(ScheduleError):
    """A schedule was made for another graph; ``why`` is added to the sentence."""

    def __init__(
        self,
        *,
        found: str,
        expected: str,
        graph_name: str,
        why: str = "",
        hint: str = "solve this graph again, or pass the graph file that the schedule was solved on",
    ) -> None:
        sentence = f"the schedule was made for graph {found[:19]}…, not for {graph_name!r} ({expected[:19]}…)"
        super().__init__(
            f"{sentence}: {why}" if why else sentence,
            hint=hint,
            details={"found": found, "expected": expected},
        )


class OtherStepError(FingerprintMismatchError):
    """A schedule's graph is not the step just traced: ops, or tensors of ops, differ."""

    def __init__(
        self,
        *,
        found: str,
        expected: str,
        graph_name: str,
        model: str,
        batch_size: int | None,
        budget_bytes: int,
    ) -> None:
        batch = "" if batch_size is None else f" -b {batch_size}"
        super().__init__(
            found=found,
            expected=expected,
            graph_name=graph_name,
            why="the model has changed, or it was traced for another kind of device, or by another "
            "version of TensorFlow or of this program",
            hint=f"trace and solve it anew: checkmate run {model}{batch} --budget {budget_bytes} -o out; or "
            f"checkmate profile {model}{batch} -o G.json, and solve that",
        )


class SolveError(CheckmateError):
    """A solver could not be run, or gave no schedule where one was required."""

    exit_code = ExitCode.NO_SCHEDULE


class SolverUnavailableError(SolveError):
    """The solver is unknown or its library is not installed."""

    exit_code = ExitCode.BAD_INPUT


class SolverCrashedError(SolveError):
    """The solver stopped without an answer, or its answer failed the independent check."""

    exit_code = ExitCode.UNEXPECTED


class NoScheduleError(SolveError):
    """A schedule was required, and the solve ended without one. None was found within a limit."""


class InfeasibleError(NoScheduleError):
    """It is proved that no schedule exists."""

    exit_code = ExitCode.INFEASIBLE


class SolveCancelledError(NoScheduleError):
    """The user cancelled before a schedule was found."""

    exit_code = ExitCode.INTERRUPTED


class SolveFailedError(NoScheduleError):
    """The solver failed before it found a schedule."""

    exit_code = ExitCode.UNEXPECTED


class BudgetBelowMinimumError(InfeasibleError):
    """The budget is below what one op needs by itself. So no schedule exists in any order."""

    def __init__(
        self, *, budget: int, needed: int, op: str, values: tuple[str, ...] = (), at_end: bool = False
    ) -> None:
        held = f" (with {', '.join(values[:4])}{', …' if len(values) > 4 else ''})" if values else ""
        who = "the values kept at the end need" if at_end else f"op {op!r} needs by itself"
        given, least = format_bytes_apart(budget, needed)
        super().__init__(
            f"budget {given} is below the {least} that {who}{held}",
            hint=f"raise the budget to at least {format_bytes_up(needed)}, or use a smaller batch",
            details={"budget_bytes": budget, "needed_bytes": needed, "op": op, "values": list(values)},
        )


class ExportError(CheckmateError):
    """The optimized training graph could not be written."""


class CycleError(ExportError):
    """TensorFlow's graph passes turned the emitted control order into a cycle."""


class JitCompiledError(ExportError):
    """The target is compiled by XLA, where only the executor is supported."""


class NotCompiledError(ExportError):
    """XLA cannot compile the step, or tells nothing of its memory."""


class VerificationError(ContentError):
    """The emitted step's loss, gradients or peak are not what was promised."""

    exit_code = ExitCode.NOT_AS_PROMISED


class FormatError(ContentError):
    """A file is not what it should be. The message names the file and the field."""


class SchemaVersionError(FormatError):
    """The file was written by a newer version."""


class PlanningError(CheckmateError):
    """Planning a step failed by a fault of this program: the cause."""

    exit_code = ExitCode.UNEXPECTED


class WorkerDiedError(CheckmateError):
    """A worker process ended without an answer."""

    exit_code = ExitCode.UNEXPECTED


class EngineUnavailableError(CheckmateError):
    """What a sweep should run on is not installed, does not answer, or was lost."""


class UnsupportedVersionError(CheckmateError):
    """A library's installed release does not work with this program."""


class CancelledError(CheckmateError):
    """The user cancelled; nothing was written."""

    exit_code = ExitCode.INTERRUPTED
