from __future__ import annotations

import copy
import json
from pathlib import Path
from random import Random

import pytest

from checkmate.errors import CancelledError, FormatError, SchemaVersionError
from checkmate.formats.files import read_json
from checkmate.reports.gather import gather
from checkmate.reports.html import sections_page
from tests.unit.reports import writers
from tests.unit.reports.test_page import NASTY, WHEN, Parsed
from tests.unit.reports.writers import Written


def test_names_from_files_are_text(tmp_path: Path) -> None:
    name = NASTY.replace("/", "-")
    (tmp_path / "out").mkdir()
    writers.write_run(tmp_path / "out", NASTY)
    writers.write_curve(tmp_path / f"{name}.json", NASTY)
    parsed = Parsed(sections_page(NASTY, gather([tmp_path]).sections, WHEN))
    assert "script" not in parsed.tags and "".join(parsed.text).count(NASTY) >= 5


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{}", "is not a result: it has no field format"),
        ("[]", "is not a result: it has no field format"),
        ('{"format": "pickle"}', "says its format is 'pickle'"),
        ('{"format": ["checkmate-sweep"]}', "is not a result"),
        ("", "is empty"),
        ("<svg/>", "is not valid JSON"),
        ('{"format": "checkmate-frontier", "version": 1', "is cut off"),
        ('{"format": "checkmate-frontier", "version": 1}', "graph is missing"),
        ('{"format": "checkmate-fidelity", "rows": []}', "is not a result"),
        ('{"format": "checkmate-max-batch", "seconds": 1}', "is missing"),
    ],
)
def test_a_damaged_file_is_one_sentence_that_names_the_file(
    content: str, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "it.json"
    path.write_text(content)
    with pytest.raises(FormatError) as caught:
        gather([path])
    assert str(path) in str(caught.value) and sentence in str(caught.value) and "\n" not in str(caught.value)
    if "not a result" in sentence:
        assert "max-batch" in caught.value.hint and "frontier" in caught.value.hint


def test_a_newer_file_is_refused(written: Written, tmp_path: Path) -> None:
    told = read_json(written.folder / "curve.json")
    (tmp_path / "new.json").write_text(json.dumps({**told, "version": 2}))
    with pytest.raises(SchemaVersionError, match=r"new\.json: version 2 of checkmate-frontier is newer"):
        gather([tmp_path / "new.json"])


@pytest.mark.parametrize(
    "name",
    [*(name for name in writers.WRITERS if name.endswith(".json")), "out/report.json", "out/schedule.json"],
)
@pytest.mark.parametrize("seed", range(12))
def test_damage_anywhere_is_a_sentence_or_a_page(
    name: str, seed: int, written: Written, tmp_path: Path
) -> None:
    """Test that no damage ends in a traceback.

    A field is dropped, or of another kind, or out of all proportion, anywhere in the file.
    """
    random, told = Random(f"{name} {seed}"), copy.deepcopy(read_json(written.folder / name))
    for _ in range(3):
        at, place = told, random.choice(list(told))
        while isinstance(at[place], (dict, list)) and at[place] and random.random() < 0.8:
            at = at[place]
            place = random.choice(list(at) if isinstance(at, dict) else range(len(at)))
        if random.random() < 0.3:
            del at[place]
        else:
            at[place] = random.choice([None, "x", -1, 10**30, 1e300, [], {}, True, [None], {"a": 1}, 0])
        if not told:
            break
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(told))
    (tmp_path / "graph.json").write_bytes((written.folder / "out" / "graph.json").read_bytes())
    said = ""
    try:
        Parsed(sections_page("damaged", gather([path]).sections, WHEN))
    except FormatError as error:
        said = str(error)
    assert (str(path) in said or not said) and "\n" not in said


def test_a_folder_leaves_out_other_files_and_says_so(written: Written, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "else"}')
    (tmp_path / "curve.svg").write_text("<svg/>")
    with pytest.raises(FormatError, match="there is no result in"):
        gather([tmp_path])
    (tmp_path / "curve.json").write_bytes((written.folder / "curve.json").read_bytes())
    found = gather([tmp_path])
    assert (
        len(found.sections) == 1
        and len(found.left_out) == 1
        and "package.json is not a result" in found.left_out[0]
    )


def test_several_are_sections_in_the_order_given_each_once(written: Written) -> None:
    paths = [written.folder / name for name in ("jax_export.json", "curve.json", "batch.json", "curve.json")]
    found = [section.sources[0].split()[0] for section in gather(paths).sections]
    assert found == ["jax_export.json", "curve.json", "batch.json"]
    with pytest.raises(FormatError, match="there is no file"):
        gather([written.folder / "nowhere.json"])


def test_it_says_what_it_reads_and_can_be_cancelled(written: Written) -> None:
    told: list[str] = []
    gather([written.folder / "batch.json"], report=lambda progress: told.append(progress.message))
    assert told == ["reading batch.json", "batch.json"]
    with pytest.raises(CancelledError):
        gather([written.folder], cancelled=lambda: True)
