"""Steps of the models in the files of this folder, traced for this processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.progress import never, silent
from checkmate.request import ModelRequest

HERE = Path(__file__).parent


def request_of(file: str, name: str, batch_size: int, **options: Any) -> ModelRequest:
    options = {"device": "cpu", "allow_code": True, **options}
    return ModelRequest(f"{HERE / file}.py:{name}", batch_size=batch_size, **options)


def prepared(request: ModelRequest) -> FoldedStep:
    return trace_request(request, report=silent, cancelled=never)


def small(name: str) -> FoldedStep:
    return prepared(request_of("small_models", name, 16))
