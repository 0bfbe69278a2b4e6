"""Test what every error has: a sentence, a remedy, an exit code.

A traceback ends with the remedy. The exit code belongs to the error's class.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkmate import errors
from checkmate.cli.main import main
from checkmate.errors import (
    BudgetBelowMinimumError,
    CheckmateError,
    NoScheduleError,
    OtherStepError,
    UsageError,
)
from checkmate.formats import write_graph
from checkmate.python_api import solve
from tests.generated_graphs import training_chain


def kinds(base: type[CheckmateError] = CheckmateError) -> Iterator[type[CheckmateError]]:
    for kind in base.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield kind
        yield from kinds(kind)


def ending(error: Exception) -> str:
    return traceback.format_exception_only(error)[-1].strip()


def test_a_traceback_ends_with_the_remedy() -> None:
    error = UsageError("no such budget", hint='for example budget="6GiB"')
    assert str(error) == "no such budget" and ending(error) == error.hint == 'for example budget="6GiB"'
    assert ending(UsageError("no such budget")).endswith("UsageError: no such budget")


def test_errors_with_a_sentence_of_their_own_have_one_remedy() -> None:
    low = BudgetBelowMinimumError(budget=1, needed=2, op="conv")
    other = OtherStepError(
        found="a", expected="b", graph_name="g", model="unet", batch_size=2, budget_bytes=3
    )
    for error in (low, other):
        assert error.__notes__ == [error.hint] and ending(error) == error.hint
    assert str(other).endswith("or of this program") and "checkmate run unet -b 2 --budget 3" in other.hint


def test_a_notebook_shows_the_users_own_lines_and_the_remedy() -> None:
    cell = compile("def work(call):\n    return call()\nwork(call)", "<cell>", "exec")
    with pytest.raises(UsageError) as caught:
        exec(cell, {"call": lambda: solve("unet-b8.graph", "-1GiB")})
    shown = caught.value._render_traceback_()  # what IPython calls
    assert [line.strip() for line in shown if "<cell>" in line] == [
        'File "<cell>", line 3, in <module>',
        'File "<cell>", line 2, in work',
    ]
    assert shown[-2].startswith("checkmate.errors.UsageError: a budget of -1GiB is not positive")
    ours = str(Path(errors.__file__).parent)
    assert shown[-1] == caught.value.hint and not any(ours in line for line in shown)


def test_the_remedy_is_added_once() -> None:
    found = pickle.loads(pickle.dumps(NoScheduleError("none", hint="raise the budget", details={"a": 1})))
    assert (str(found), found.hint, found.details) == ("none", "raise the budget", {"a": 1})
    assert found.__notes__ == ["raise the budget"]


def test_an_exit_code_belongs_to_its_class() -> None:
    found = {kind.__name__: kind.exit_code for kind in kinds()}
    ended = {name: found[name] for name in found if issubclass(getattr(errors, name), NoScheduleError)}
    assert ended == {
        "NoScheduleError": 4,
        "InfeasibleError": 3,
        "BudgetBelowMinimumError": 3,
        "SolveCancelledError": 130,
        "SolveFailedError": 1,
    }
    assert found["VerificationError"] == 5 and found["UsageError"] == 2 and found["CancelledError"] == 130


@pytest.mark.parametrize("kind", [*kinds()], ids=lambda kind: kind.__name__)
def test_the_base_that_arrives_in_another_process_has_the_same_exit_code(kind: type[CheckmateError]) -> None:
    """Test errors that reach another process.

    A type with a constructor of its own arrives as its nearest base without one.
    """
    plain = next(base for base in kind.__mro__ if "__init__" not in vars(base) or base is CheckmateError)
    assert issubclass(plain, CheckmateError) and plain.exit_code == kind.exit_code


@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_the_command_line_says_the_remedy_once(
    debug: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_graph(tmp_path / "g.json", training_chain(4))
    code = main(["max-batch", str(tmp_path / "g.json"), "--budget", "1", "-b", "1", "--quiet", *debug])
    told = capsys.readouterr().err
    assert code == 3 and told.count("raise the budget to at least") == 1
    assert told.count("Traceback") == len(debug)
