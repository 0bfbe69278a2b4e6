"""Test what a command asks for: a model or training step, and a batch."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import checkmate
from checkmate.cli.common_options import model_request
from checkmate.cli.main import build_parser
from checkmate.errors import UsageError
from checkmate.graphs.by_name import read_or_build
from checkmate.request import ModelRequest, as_options


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


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ('give the sizes, e.g. input_shape="128,8"', "give the sizes, e.g. --input-shape 128,8"),
        ("allow_code=True runs it; use it only", "--allow-code runs it; use it only"),
        ('did you mean loss="mse"?', "did you mean --loss mse?"),
        ("use batch_size=8", "use --batch-size 8"),
        ("leave refresh= out", "leave --refresh out"),
        ("compile it with run_eagerly=False", "compile it with run_eagerly=False"),
        ("set KERAS_BACKEND=tensorflow", "set KERAS_BACKEND=tensorflow"),
        ('call f(step, budget, target="xla")', 'call f(step, budget, target="xla")'),
        ("call f(loss=None)", "call f(loss=None)"),
    ],
)
def test_a_hint_names_options_on_the_command_line(hint: str, expected: str) -> None:
    assert as_options(hint, ["refresh"]) == expected


# What Python callers reach, too.
ROOMS = ["backends", "catalog", "frontiers", "largest", "models", "planning", "solvers", "sweeps", "training"]
NO_HINTS = {"--once", "--cap-add", "--measure-limit"}


def test_nothing_that_python_callers_hear_names_an_option_of_the_command_line() -> None:
    found, seen = set(), 0
    for path in (each for room in ROOMS for each in (Path(checkmate.__file__).parent / room).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        for each in ast.walk(tree):
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in docstrings:
                seen += 1
                found |= set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", each.value))
    assert seen > 1000 and found <= NO_HINTS
