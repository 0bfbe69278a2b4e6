"""Decide which heavy cases a run takes, and what a test that is not heavy may cost.

The cases of a parametrized heavy test are alike, so a run takes a quarter of them: which one, the commit's
hash decides. ``--shard all`` takes them all. A test that is marked ``whole`` is never divided.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SHARDS = 4
LIMIT_S = 5.0  # processor seconds of a test that is not marked heavy, and of the processes that it waited for

_ROOT = Path(__file__).resolve().parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--shard``."""
    parser.addoption(
        "--shard",
        choices=[*map(str, range(SHARDS)), "all"],
        help="which quarter of the heavy parametrized cases to run (default: the commit decides)",
    )


def pytest_report_header(config: pytest.Config) -> str:
    """Say which shard runs."""
    shard = shard_of(config)
    return "heavy cases: all" if shard is None else f"heavy cases: --shard {shard} of 0 to {SHARDS - 1}"


def shard_of(config: pytest.Config) -> int | None:
    """Return the shard to run; None for all cases."""
    asked = config.getoption("--shard")
    if asked == "all":
        return None
    return _shard_of_commit() if asked is None else int(asked)


def _shard_of_commit() -> int:
    """Return the shard that HEAD's hash gives; 0 outside a git checkout."""
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return 0
    return int(answer.stdout[:8] or "0", 16) % SHARDS


@pytest.hookimpl(trylast=True)  # after -m and -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the heavy parametrized cases of other shards."""
    shard = shard_of(config)
    if shard is None:
        return
    cases = defaultdict(list)
    for item in items:
        if (
            item.get_closest_marker("heavy")
            and not item.get_closest_marker("whole")
            and hasattr(item, "callspec")
        ):
            cases[item.nodeid.partition("[")[0]].append(item)
    # A test of one to three cases still runs one of them.
    taken = {id(case) for same in cases.values() for case in same[shard % len(same) :: SHARDS]}
    left = [case for same in cases.values() for case in same if id(case) not in taken]
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(map(id, left))
        items[:] = [item for item in items if id(item) not in gone]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that costs more than ``LIMIT_S`` and is not marked heavy."""
    before = processor_seconds()
    yield
    spent = processor_seconds() - before
    if spent > LIMIT_S and not any(map(item.get_closest_marker, ("heavy", "long"))):
        pytest.fail(f"took {spent:.1f} processor seconds: make it cheaper, or mark it heavy", pytrace=False)


def processor_seconds() -> float:
    """Return what this process and the children that it waited for have used so far."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
