"""Test ``train_step`` on two worker processes of one machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from checkmate.backends.tf.environment import EXACT, METERED
from tests.quick_start import QUICK

SCRIPT = Path(__file__).parents[1] / "workers.py"


def free_ports(count: int) -> list[str]:
    """Return ports of the loopback interface that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    found = [str(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return found


def trained(folder: Path) -> list[dict[str, Any]]:
    """Return what each of two workers found."""
    ports = free_ports(2)
    environment = {**os.environ, **EXACT, **METERED, **QUICK}
    workers, logs = [], [folder / "log0", folder / "log1"]
    for task, log in enumerate(logs):
        command = [sys.executable, str(SCRIPT), str(folder / f"{task}.json"), str(task), *ports]
        with log.open("w") as file:
            workers.append(subprocess.Popen(command, env=environment, stdout=file, stderr=file))
    try:
        codes = [worker.wait(timeout=500) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert codes == [0, 0], "\n".join(log.read_text(errors="replace")[-2000:] for log in logs)
    return [json.loads((folder / f"{task}.json").read_text()) for task in range(2)]


@pytest.mark.heavy
def test_two_workers_train_the_same_within_the_budget(tmp_path: Path) -> None:
    """Check the measured peak too. It must be that of the whole step, with its backward pass."""
    found = trained(tmp_path)
    for each in found:
        plan = each["scheduled"]["plan"]
        assert each["replicas"] == 2 and each["same"]
        assert each["scheduled"]["losses"] == each["plain"]["losses"] == found[0]["plain"]["losses"]
        assert plan["recomputations"] > 0 and plan["measured"]
        assert 0.3 * plan["everything"] < plan["peak"] <= plan["allowed"] < plan["everything"]
        assert max(each["scheduled"]["peaks"]) < min(each["plain"]["peaks"])
        # docs/pages/python.md says so: when this fails, Keras has learned it.
        assert each["fit"] == "PerReplica"
