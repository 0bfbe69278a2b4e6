"""Train as before where a step cannot be planned: ``planned`` lets no fault of planning end a training."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from checkmate.errors import (
    CheckmateError,
    DynamicShapeError,
    JitCompiledError,
    TraceError,
    UsageError,
    one_line,
)
from checkmate.machine.fault_report import as_known
from checkmate.request import OnMiss

Plan = TypeVar("Plan")
_LOG = logging.getLogger(__name__)
_OF_AN_EXAMPLE = (JitCompiledError, TraceError, UsageError)  # it may be a wrong one


def planned(
    make: Callable[[], Plan],
    otherwise: Callable[[CheckmateError], Plan],
    on_miss: OnMiss,
    *,
    example: bool = False,
    passes: tuple[type[CheckmateError], ...] = (),
) -> Plan:
    """Return ``make()``; if that fails, ``otherwise(error)``.

    ``example``: the plan is for an example batch, before training.

    Raises:
        CheckmateError: ``make`` failed, and ``on_miss`` is to raise, the error is one of ``passes``, or the
        example may be wrong. An unexpected exception becomes the cause of a PlanningError.
    """
    try:
        return make()
    except Exception as error:  # the edge of planning: training needs no plan
        known = as_known(error)
        about_example = isinstance(known, _OF_AN_EXAMPLE) and not isinstance(known, DynamicShapeError)
        _LOG.debug("a step could not be planned", exc_info=error)  # Keras cuts what it raises again
        if on_miss is OnMiss.RAISE or isinstance(known, passes) or (example and about_example):
            raise known from (error if known is not error else error.__cause__)
    return otherwise(known.with_traceback(None))  # its frames hold the tensors of the batch


def unplanned(
    error: CheckmateError, what: str = "this step cannot be scheduled", then: str = "It trains as before."
) -> str:
    """Say what could not be planned and why, what happens then, and what to do."""
    way_out = f" To change that, {error.hint.rstrip('.')}." if error.hint else ""
    return f"{what}: {one_line(str(error)).rstrip('. ')}. {then}{way_out}"
