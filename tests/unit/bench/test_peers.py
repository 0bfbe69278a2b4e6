"""Test ``bench peers``: its shares, verdicts, resuming and table.

What is measured is tested in ``tests/tf``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkmate import planning
from checkmate.bench.common.machine import this_machine
from checkmate.bench.fidelity import rows as fidelity
from checkmate.bench.peers import rows as peers
from checkmate.bench.peers import table as peers_table
from checkmate.catalog.peers import OURS_CHEN, PEERS, PLAIN, find_method
from checkmate.errors import CancelledError, FormatError
from checkmate.formats.files import read_json, write_json
from checkmate.request import Target
from checkmate.solvers.problem import SolveOptions

MIB = 2**20
RIGHT = {
    "bitwise": False,
    "relative_error": 3e-6,
    "worst": 4e-5,
    "state": {"count": 4, "twice": 0, "differs": 0, "example": ""},
}
TWICE = {
    "bitwise": True,
    "relative_error": 0.0,
    "worst": 0.0,
    "state": {"count": 4, "twice": 3, "differs": 0, "example": "mean"},
}
WRONG = {
    "bitwise": False,
    "relative_error": 0.32,
    "worst": 0.5,
    "state": {"count": 4, "twice": 3, "differs": 1, "example": "seed"},
}
OURS = {"bitwise": True, "relative_error": 0.0, "worst": 0.0, "state_bitwise": True}


def row(
    method: str, peak: int | None = None, overhead: float | None = None, **changes: Any
) -> dict[str, Any]:
    found = {
        "model": "gpt",
        "batch_size": 8,
        "method": method,
        "label": method.upper(),
        "ours": False,
        "note": "",
    }
    if peak is not None:
        found |= {"status": "ok", "peak_bytes": peak * MIB}
    if overhead is not None:
        found |= {"seconds": 1 + overhead, "overhead": overhead}
    return {**found, **changes}


ROWS = [
    row("plain", 200, 0.0),
    row("full", status="failed", note="ValueError: no keywords"),
    row("activations", 199, 0.1, status="no effect", compared=RIGHT),
    row("blocks", 100, 0.3, compared=TWICE),
    row("cuts", 150, 0.2, compared=WRONG),
    row("layers", status="not applicable", note="nowhere"),
    row("chen", 90, 0.25, ours=True, compared=OURS),
    row("ours-100", 98, 0.1, ours=True, budget_bytes=100 * MIB, compared=OURS),
    row("ours-150", 149, 0.02, ours=True, budget_bytes=150 * MIB, compared={**OURS, "state_bitwise": False}),
]


def test_shares_are_relative_to_the_same_models_plain_step() -> None:
    other = row("plain", 1000, 0.0, model="vit")
    assert [peers.share(each, [other, *ROWS]) for each in (ROWS[0], ROWS[3])] == [1.0, 0.5]
    assert peers.share(ROWS[1], ROWS) is None and peers.share(row("blocks", 10, batch_size=4), ROWS) is None


def test_correct_means_gradients_and_statics() -> None:
    assert [peers.correct(each) for each in ROWS[2:5]] == [True, False, False]
    assert peers.gradients_right(TWICE) and not peers.statics_right(TWICE)
    assert not peers.gradients_right({**RIGHT, "worst": 0.1})  # hidden by a large one in the sum
    assert peers.gradients_right({**RIGHT, "worst": 0.1, "tolerance": {"all": 0.05, "each": 0.2}})
    assert not peers.gradients_right({**RIGHT, "worst": 0.3, "tolerance": {"all": 0.05, "each": 0.2}})
    assert peers.correct(ROWS[0]) is None and peers.correct(ROWS[8]) is False


def test_ours_needs_no_more_memory_than_the_peer_of_its_pair() -> None:
    assert [(peer["method"], ours["method"]) for peer, ours in peers.pairs(ROWS)] == [
        ("blocks", "ours-100"),
        ("cuts", "ours-150"),
    ]
    unlucky = [*ROWS[:7], {**ROWS[7], "status": "over"}]
    assert peers.pairs(unlucky) == []
    assert peers.pairs([ROWS[0], ROWS[3], {**ROWS[7], "model": "vit"}]) == []


def test_summary_counts_every_outcome() -> None:
    found = peers.summary(ROWS)
    assert [found[name] for name in ("peers", "ok", "no_effect", "failed", "not_applicable")] == [
        5,
        2,
        1,
        1,
        1,
    ]
    assert [found[name] for name in ("compared", "correct", "ours_compared", "ours_correct")] == [3, 1, 3, 2]
    assert found["at_equal_memory"] == {
        "count": 2,
        "peers_overhead_median": pytest.approx(0.25),
        "ours_overhead_median": pytest.approx(0.06),
        "ours_less": 2,
    }
    assert peers.summary([])["at_equal_memory"]["peers_overhead_median"] is None


def test_table_shows_what_is_wrong_and_every_note() -> None:
    text = peers_table.text(ROWS, this_machine())
    assert "WRONG 50 %" in text and "3 of 4 TWICE, 1 of 4 DIFFER" in text and "differ 0.004 %" in text
    assert "gpt, FULL: ValueError: no keywords" in text and "gpt, LAYERS: nowhere" in text
    assert "2 of 5 saved memory, 1 had no effect, 1 failed, 1 do not apply; 1 of 3 compared train as" in text
    assert "median overhead 6.0 %, where the peer has 25.0 %; ours is less in 2 of 2" in text
    assert all(method.description in text for method in PEERS)
    head, rule, *body = peers_table.markdown(ROWS).splitlines()
    assert len(body) == len(ROWS) and {line.count("|") for line in (head, rule, *body)} == {head.count("|")}
    assert "ours" not in peers_table.text([], this_machine()).splitlines()[0]


def test_under_xla_bytes_are_read_and_not_measured() -> None:
    rows = [{**row, "label": "XLA alone"} if row["method"] == "plain" else row for row in ROWS]
    text = peers_table.text(rows, this_machine(), Target.XLA)
    heading = text.splitlines()[0]
    assert "MiB read from XLA" in heading and "peak" not in heading
    assert "XLA alone: Keras's own training step, compiled by XLA" in text
    assert "measured" not in text and "allocator" not in text and "Eigen" not in text
    assert "within 0.0001 of all together and 1 % of each" in text
    assert "MiB read from XLA 100.0, " in peers_table.line(ROWS[3], Target.XLA)
    assert "| MiB read from XLA |" in peers_table.markdown(rows, Target.XLA)
    executors = peers_table.text(ROWS, this_machine())
    assert "peak MiB" in executors.splitlines()[0] and "XLA" not in executors


def test_a_file_says_what_ran_the_steps_and_is_continued_by_no_other(tmp_path: Path) -> None:
    path, machine, options = tmp_path / "x.json", this_machine(), SolveOptions()
    assert peers.facts(ROWS, machine, options)["target"] == "executor"
    peers.save_to(path, machine, options, Target.XLA)(ROWS)
    assert peers.target_of(read_json(path)) is Target.XLA
    assert len(peers.read_rows(path, Target.XLA)) == len(ROWS)
    with pytest.raises(FormatError, match="did not run on TensorFlow's executor"):
        peers.read_rows(path)
    older = {name: value for name, value in peers.facts(ROWS, machine, options).items() if name != "target"}
    write_json(path, older)
    assert len(peers.read_rows(path)) == len(ROWS)
    with pytest.raises(FormatError, match="did not run on XLA"):
        peers.read_rows(path, Target.XLA)


def test_methods_are_found_by_name_and_each_asks_for_one_thing() -> None:
    assert find_method("plain") is PLAIN and find_method(PEERS[0].name) is PEERS[0]
    assert len({method.name for method in (PLAIN, *PEERS)} | {name for _, name in OURS_CHEN}) == 3 + len(
        PEERS
    )
    for method in PEERS:
        assert (method.mode is None) != (method.wrap is None) and (method.wrap is None) == (
            method.cut is None
        )


def test_models_already_measured_are_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def measured(request: Any, *, keep: Any, **_: Any) -> list[dict[str, Any]]:
        asked.append(request.model)
        found = [{name: value for name, value in ROWS[0].items() if name not in ("model", "batch_size")}]
        keep(found[0])
        return found

    monkeypatch.setattr(planning, "peers", measured)
    path, options = tmp_path / "p.json", SolveOptions()
    told: list[dict[str, Any]] = []
    save = peers.save_to(path, this_machine(), options)
    wanted = fidelity.subjects(["gpt", "vit"])
    peers.run(wanted[:1], options, save=save, told=told.append)
    rows = peers.run(wanted, options, done=peers.read_rows(path), save=save, told=told.append)
    assert asked == ["zoo.gpt", "zoo.vit"]
    assert [row["model"] for row in told] == ["gpt", "vit"] == [row["model"] for row in rows]
    assert [row["share"] for row in peers.read_rows(path)] == [1.0, 1.0]


def test_an_interrupted_model_leaves_its_rows_and_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(request: Any, *, keep: Any, **_: Any) -> list[dict[str, Any]]:
        keep(
            {
                "method": "plain",
                "label": "plain",
                "ours": False,
                "status": "ok",
                "note": "",
                "peak_bytes": MIB,
            }
        )
        raise CancelledError("cancelled while measuring")

    path, options, wanted = tmp_path / "p.json", SolveOptions(), fidelity.subjects(["gpt"])
    monkeypatch.setattr(planning, "peers", interrupted)
    with pytest.raises(CancelledError, match="cancelled while measuring"):
        peers.run(wanted, options, save=peers.save_to(path, this_machine(), options))
    (left,) = peers.read_rows(path)
    assert left["unfinished"] and left["peak_bytes"] == MIB
    monkeypatch.setattr(
        planning, "peers", lambda *_, **__: [{"method": "plain", "ours": False, "status": "ok"}]
    )
    (row,) = peers.run(wanted, options, done=peers.read_rows(path))
    assert "unfinished" not in row and row["model"] == "gpt"


@pytest.mark.parametrize("content", ["[]", "{", '{"format": "checkmate-fidelity", "rows": []}'])
def test_a_file_of_another_kind_is_not_continued(content: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(FormatError, match="is not a measurement of peers"):
        peers.read_rows(path)
    assert peers.read_rows(tmp_path / "none.json") == []
