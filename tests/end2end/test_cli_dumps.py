"""Test the command line on dumps of XLA's: each is a record to explain and a graph to plan for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.end2end.test_cli_contract import call, one_object
from tests.unit.hlo.dumps import STEP, chain

LINES = {
    "jit_step": 'step = checkmate.jax.rematerialize(step, "',
    "jit_step_of_/keras/src/trainer": 'checkmate.rematerialize(model, "',
}


@pytest.mark.parametrize("name", LINES)
def test_explain_says_what_a_schedule_could_do(tmp_path: Path, capsys: Any, name: str) -> None:
    path = tmp_path / "module_0001.jit_step.before_optimizations.txt"
    path.write_text(chain(8).replace("jit_step", name))
    code, text, _ = call(capsys, "explain", str(path), "--json", "--quiet")
    told = one_object(text)
    assert code == 0 and told["records"][0]["estimated"] and told["records"][0]["source"] == "compiled"
    assert 0.3 < told["could"]["peak_share"] < 0.97 and 0 < told["could"]["overhead"] <= 0.05
    share = f"{100 * told['could']['peak_share']:.0f}"
    assert any(line.startswith(f'{LINES[name]}{share}%"') for line in told["next"])
    code, text, _ = call(capsys, "explain", str(path), "--quiet")
    assert (
        code == 0 and f"could peak at {share} % of that" in text and "estimate of what XLA will hold" in text
    )


def test_a_dump_is_given_like_a_graph(tmp_path: Path, capsys: Any) -> None:
    path, schedule = tmp_path / "step.txt", tmp_path / "s.json"
    path.write_text(chain(4))
    code, text, _ = call(capsys, "info", str(path), "--json")
    # A product and a sine ahead, three ops back for each layer; a cosine is inside of what reads it. So is
    # the last sine, and what the first layer would hand on is read by nobody.
    assert code == 0 and one_object(text)["ops"] == 5 * 4 - 2
    asked = ("--budget", "80%", "-o", str(schedule), "--time-limit", "2", "--quiet")
    assert call(capsys, "solve", str(path), *asked)[0] == 0
    assert json.loads(schedule.read_text())["peak_bytes"]
    assert call(capsys, "check", str(path), str(schedule))[0] == 0


def test_a_damaged_dump_is_refused_by_every_command(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "step.txt"
    path.write_text(STEP[:-200])
    for command in ("explain", "info", "frontier"):
        code, _, said = call(capsys, command, str(path), "--quiet")
        assert code != 0 and "is a damaged dump of XLA's: " in said
