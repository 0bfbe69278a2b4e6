"""Test what a command asks for: a model or training step, and a batch."""

from __future__ import annotations

import pytest

from checkmate.cli.common_options import model_request
from checkmate.cli.main import build_parser
from checkmate.errors import UsageError
from checkmate.graphs.by_name import read_or_build
from checkmate.request import ModelRequest


@pytest.mark.parametrize(("given", "size", "chosen"), [([], 32, False), (["-b", "32"], 32, True)])
def test_a_batch_size_counts_as_chosen_only_if_it_was_given(
    given: list[str], size: int, chosen: bool
) -> None:
    line = ["profile", "train.py:make_step", "--allow-code", *given, "-o", "g.json"]
    asked = model_request(build_parser().parse_args(line))
    assert asked == ModelRequest("train.py:make_step", size, allow_code=True, batch_chosen=chosen)
    assert ModelRequest.from_json(asked.to_json()) == asked


def test_code_in_place_of_a_graph_is_told_how_to_make_one() -> None:
    with pytest.raises(UsageError, match="is code that makes a model or a training step") as caught:
        read_or_build("train.py:make_step")
    assert caught.value.hint.endswith("checkmate profile train.py:make_step --allow-code -o G.json")


def test_another_size_of_a_request_is_chosen() -> None:
    assert ModelRequest("m").at_batch(8) == ModelRequest("m", 8, batch_chosen=True)
