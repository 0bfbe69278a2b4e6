"""Measure in fresh processes: what ran before changes where an allocator puts things."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from checkmate.backends.tf.environment import measuring_environment


def ask(task: str, environment: Mapping[str, str] = {}, **arguments: Any) -> dict[str, Any]:
    """Return what the function ``task`` of ``peer_tasks`` returns in a process of its own.

    ``environment`` is added to the child's. Where the child ends without an answer, it is ``failed``.
    """
    own = {"TF_CPP_MIN_LOG_LEVEL": "3", **measuring_environment(), **environment}
    with ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), initializer=_prepare, initargs=(own,)
    ) as child:
        try:
            return child.submit(_do, task, arguments).result()
        except BrokenProcessPool as error:
            return {"failed": f"the measuring process ended: {error}"}


def _prepare(environment: Mapping[str, str]) -> None:
    os.environ.update(environment)


def _do(task: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = getattr(importlib.import_module("tests.benchmarks.peer_tasks"), task)(**arguments)
    return found
