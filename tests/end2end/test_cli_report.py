from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from checkmate.formats import write_graph
from tests.end2end.test_cli import call, one_object
from tests.generated_graphs import training_chain
from tests.unit.reports.test_page import Parsed

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def results(tmp_path: Path, capsys: Capture) -> Path:
    """Return a folder with two curves and a schedule.

    Each was written by its command; the schedule's graph is there too.
    """
    folder = tmp_path / "results"
    folder.mkdir()
    graph = folder / "graph.json"
    write_graph(graph, training_chain(5, seed=0))
    brief = ("--time-limit", "1", "--quiet")
    commands = (
        ("frontier", graph, "--budgets", "3", "--baseline", "griewank", *brief, "-o", folder / "curve.json"),
        ("solve", graph, "--budget", "90%", *brief, "-o", folder / "schedule.json"),
        ("frontier", graph, "--budgets", "2", "--baseline", "none", *brief, "-o", folder / "other.json"),
    )
    for command in commands:
        assert call(capsys, *command)[0] == 0
    return folder


def test_the_page_of_a_folder(results: Path, tmp_path: Path, capsys: Capture) -> None:
    (results / "else.json").write_text("{}")
    page = tmp_path / "report.html"
    code, out, err = call(capsys, "report", results, "-o", page, "--title", "Ours & theirs")
    assert code == 0 and "report: reading curve.json" in err
    lines = out.splitlines()
    assert (
        lines[0] == f"wrote {page}"
        and len(lines) == 5
        and "left out" in lines[-1]
        and "else.json" in lines[-1]
    )
    text = page.read_text(encoding="utf-8")
    parsed = Parsed(text)
    assert parsed.tags.count("section") == 3
    assert parsed.tags.count("svg") >= 2
    assert not re.search("https?:", text)
    assert {"Ours & theirs", "chain5: extra cost against memory"} <= set(parsed.text)


def test_json_says_what_is_on_the_page_and_a_page_may_be_written_again(
    results: Path, tmp_path: Path, capsys: Capture
) -> None:
    page = tmp_path / "report.html"
    for given in ([results / "curve.json"], [results / "other.json", results / "curve.json"]):
        code, out, err = call(capsys, "report", *given, "-o", page, "--json", "--quiet")
        told = one_object(out)
        assert (code, err, told["output"], told["left_out"]) == (0, "", str(page), [])
        assert [section["sources"][0].split()[0] for section in told["sections"]] == [
            path.name for path in given
        ]
    assert list(tmp_path.glob(".report*")) == []


def test_a_result_is_not_written_over(results: Path, capsys: Capture) -> None:
    before = (results / "other.json").read_bytes()
    code, out, err = call(capsys, "report", results / "curve.json", "-o", results / "other.json")
    assert (code, out) == (2, "") and "other.json exists and is not a page of results" in err
    assert (results / "other.json").read_bytes() == before


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "there is no file"),
        ("<html>", "is not valid JSON"),
        ('{"format": "other"}', "it says its format is 'other'"),
        ('{"format": "checkmate-frontier", "version": 1}', "graph is missing"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    content: str | None, sentence: str, tmp_path: Path, capsys: Capture
) -> None:
    path, page = tmp_path / "it.json", tmp_path / "report.html"
    if content is not None:
        path.write_text(content)
    code, out, err = call(capsys, "report", path, "-o", page, "--quiet")
    assert (code, out) == (2, "") and err.startswith("checkmate: ") and sentence in err and "it.json" in err
    assert "Traceback" not in err and not page.exists()
    code, out, _ = call(capsys, "report", path, "-o", page, "--json", "--quiet")
    assert json.loads(out)["exit_code"] == code == 2


def test_an_output_is_needed_and_its_folder_must_be_there(results: Path, capsys: Capture) -> None:
    code, _, err = call(capsys, "report", results)
    assert code == 2 and "-o" in err
    code, _, err = call(capsys, "report", results, "-o", results / "nowhere" / "report.html")
    assert code == 2 and "there is no folder" in err
