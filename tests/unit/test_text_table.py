from __future__ import annotations

from checkmate.text_table import aligned_lines

ROWS = [["name", "bytes", "note"], ["a", "1024", ""], ["longer", "7", "last"]]


def test_words_are_aligned_left_and_numbers_right() -> None:
    assert aligned_lines(ROWS, left=(0, 2)) == [
        "name    bytes  note",
        "a        1024",
        "longer      7  last",
    ]


def test_by_default_only_the_first_column_is_aligned_left() -> None:
    assert aligned_lines(ROWS)[1:] == ["a        1024", "longer      7  last"]
    assert aligned_lines([["a", "b"], ["cc", "dd"]], left=()) == [" a   b", "cc  dd"]


def test_no_rows_make_no_lines() -> None:
    assert aligned_lines([]) == []
