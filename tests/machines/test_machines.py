"""Test that a sweep over two machines survives the loss of any (``pytest -m heavy tests/machines``)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")

from checkmate.solvers.compile.compilation import load_kernels
from tests.machines.losses import answers_here, lose_machine, lose_scheduler
from tests.machines.network import Machines, can_be_apart

pytestmark = pytest.mark.heavy  # schedulers and workers start, are killed and start again


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    load_kernels()
    return answers_here(tmp_path_factory.mktemp("right"))


@pytest.fixture
def machines() -> Iterator[Machines]:
    with Machines(apart=can_be_apart()) as made:
        made.start_all()
        yield made


@pytest.mark.parametrize("which", ["one", "two"])
def test_either_worker_is_lost(which: str, machines: Machines, right: dict[str, Any], tmp_path: Path) -> None:
    machine = getattr(machines, which)
    assert lose_machine(machines, machine, tmp_path, right, machine.lose).problems == []


@pytest.mark.skipif(not can_be_apart(), reason="no network namespaces here")
def test_a_worker_whose_cable_is_pulled_out(
    machines: Machines, right: dict[str, Any], tmp_path: Path
) -> None:
    two = machines.two
    found = lose_machine(machines, two, tmp_path, right, lambda: two.plug(into=False))
    assert found.problems == []


def test_the_scheduler_is_lost(
    machines: Machines, right: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert lose_scheduler(machines, tmp_path, right).problems == []
    assert "Traceback" not in capfd.readouterr().err  # one sentence says it
