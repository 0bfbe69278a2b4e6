from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkmate.errors import FormatError, SchemaVersionError, UsageError
from checkmate.sweeps.journal import open_journal
from tests.unit.sweeps.counting import read_entries

DATA = st.dictionaries(
    st.text(max_size=4),
    st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    max_size=3,
)
ENTRIES = st.dictionaries(st.text(min_size=1, max_size=6), DATA, max_size=5)


def written(path: Path, entries: dict[str, dict[str, Any]]) -> list[int]:
    """Write a journal; return its sizes. There is one after the header and one after each entry."""
    path.unlink(missing_ok=True)
    with open_journal(path) as journal:
        sizes = [path.stat().st_size]
        for key, data in entries.items():
            journal.add(key, f"the task\n{key}", data)
            sizes.append(path.stat().st_size)
    return sizes


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(entries=ENTRIES, share=st.floats(0, 1), later=DATA)
def test_any_prefix_resumes_with_exactly_the_finished_entries(
    tmp_path: Path, entries: dict[str, dict[str, Any]], share: float, later: dict[str, Any]
) -> None:
    path = tmp_path / "sweep.jsonl"
    sizes = written(path, entries)
    kept = round(share * sizes[-1])
    path.write_bytes(path.read_bytes()[:kept])
    finished = {
        key: data for (key, data), size in zip(entries.items(), sizes[1:], strict=True) if size <= kept
    }
    with open_journal(path) as journal:
        assert {key: journal.get(key) for key in entries if journal.get(key) is not None} == finished
        assert len(journal) == len(finished)
        journal.add("a later task", "later", later)
    found = read_entries(path)
    assert found == {**finished, "a later task": later}


def test_every_single_prefix(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    sizes = written(path, {"a": {"x": 1}, "é": {"y": "ü\n"}})
    body = path.read_bytes()
    for kept in range(len(body) + 1):
        path.write_bytes(body[:kept])
        assert list(read_entries(path)) == [
            key for key, size in zip("aé", sizes[1:], strict=True) if size <= kept
        ]


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (
            lambda b: b.replace(b'"version":1', b'"version":2'),
            SchemaVersionError,
            "version 2 of checkmate-sweep is newer",
        ),
        (
            lambda b: b.replace(b'"version":1', b'"version":0'),
            FormatError,
            "version 0 of checkmate-sweep is not 1",
        ),
        (
            lambda b: b.replace(b"checkmate-sweep", b"checkmate-graph"),
            FormatError,
            "is not the journal of a sweep",
        ),
        (lambda b: b"budget,cost\n1,2\n", FormatError, "is not the journal of a sweep"),
        (lambda b: b"my notes", FormatError, "is not the journal of a sweep"),
        (lambda b: b.replace(b'"data":{"x":1}', b'"data":[]'), FormatError, "line 2 is not a finished task"),
        (lambda b: b.replace(b'{"key":"b"', b'{"key'), FormatError, "line 3 is not a finished task"),
    ],
)
def test_another_file_is_refused_and_left_alone(
    tmp_path: Path, change: Callable[[bytes], bytes], error: type[Exception], sentence: str
) -> None:
    path = tmp_path / "sweep.jsonl"
    written(path, {"a": {"x": 1}, "b": {"x": 2}})
    path.write_bytes(body := change(path.read_bytes()))
    with pytest.raises(error, match=sentence), open_journal(path):
        pass
    assert path.read_bytes() == body


def test_two_sweeps_do_not_share_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    with open_journal(path), pytest.raises(UsageError, match="another sweep is writing"), open_journal(path):
        pass
    with open_journal(path) as journal:
        assert len(journal) == 0


def test_no_folder(tmp_path: Path) -> None:
    with (
        pytest.raises(FormatError, match="there is no folder"),
        open_journal(tmp_path / "none" / "sweep.jsonl"),
    ):
        pass
