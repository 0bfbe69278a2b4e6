"""Share what tests of kept plans train, and find the files of plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkmate.machine.cost_store import plans_folder
from tests.tf.rematerialized import conv_model, data, within

EARLIER = "from an earlier run's plan"
X, Y = data(16 + 6)


def trained(budget: Any = "75%", **options: Any) -> tuple[Any, list[float]]:
    """Train a model with a smaller last batch; return it and its losses."""
    model = within(conv_model(), budget, cache=True, **options)
    losses = model.fit(X, Y, batch_size=16, epochs=2, shuffle=False, verbose=0).history["loss"]
    return model, losses


def told(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith("checkmate: ")]


def files() -> list[Path]:
    return sorted(plans_folder().iterdir()) if plans_folder().exists() else []


def scheduled_file() -> Path:
    """Return the file of the plan that is not plain."""
    (found,) = [path for path in files() if json.loads(path.read_text())["steps"] is not None]
    return found
