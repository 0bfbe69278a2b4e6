"""Decide which heavy tests run, and what other tests may cost.

A run takes every fourth heavy test, and so a quarter of each parametrized test's cases. With which it starts,
the commit's hash decides; ``--shard all`` takes them all. What is marked ``whole`` is in every run.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SHARDS = 4
LIMIT_S = 5.0  # processor seconds of a test that is not marked heavy, and of the processes that it waited for

_ROOT = Path(__file__).resolve().parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shard",
        choices=[*map(str, range(SHARDS)), "all"],
        help="which quarter of the heavy tests to run (default: the commit decides)",
    )


def pytest_report_header(config: pytest.Config) -> str:
    shard = shard_of(config)
    return "heavy tests: all" if shard is None else f"heavy tests: --shard {shard} of 0 to {SHARDS - 1}"


def shard_of(config: pytest.Config) -> int | None:
    """The shard to run; None for all cases."""
    asked = config.getoption("--shard")
    if asked == "all":
        return None
    return _shard_of_commit() if asked is None else int(asked)


def _shard_of_commit() -> int:
    """The shard that HEAD's hash gives; 0 outside a git checkout."""
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return 0
    return int(answer.stdout[:8] or "0", 16) % SHARDS


@pytest.hookimpl(trylast=True)  # after -m and -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    shard = shard_of(config)
    if shard is None:
        return
    shared = (
        item for item in items if item.get_closest_marker("heavy") and not item.get_closest_marker("whole")
    )
    left = {id(item): item for number, item in enumerate(shared) if number % SHARDS != shard}
    if left:
        config.hook.pytest_deselected(items=list(left.values()))
        items[:] = [item for item in items if id(item) not in left]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    before = processor_seconds()
    yield
    spent = processor_seconds() - before
    # A file that is not named test_ is run by a heavy test, in a process of its own.
    limited = item.path.name.startswith("test_") and not any(map(item.get_closest_marker, ("heavy", "long")))
    # Two hyperthreads of a core do in up to twice the processor seconds what one does alone.
    limit = LIMIT_S * (2 if "PYTEST_XDIST_WORKER" in os.environ else 1)
    if limited and spent > limit:
        pytest.fail(f"took {spent:.1f} processor seconds: make it cheaper, or mark it heavy", pytrace=False)


def processor_seconds() -> float:
    """What this process and its ended children have used so far."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
