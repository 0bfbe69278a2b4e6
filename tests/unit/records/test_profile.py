from __future__ import annotations

from pathlib import Path

import pytest

from checkmate.errors import CancelledError, FormatError
from checkmate.records.memory import Source
from checkmate.records.read import is_record, read_record
from checkmate.records.xplane import read_events

PROFILE = Path(__file__).parent / "data" / "step.xplane.pb"


def test_the_most_in_use_is_told_by_layer_and_adds_up() -> None:
    record = read_record(PROFILE).records[0]
    assert record.source is Source.PROFILE and record.allocator == "bfc_cpu_allocator_for_gpu"
    assert record.limit_bytes == 4000 * 2**20  # as TF_CPU_BFC_MEM_LIMIT_IN_MB had it
    assert sum(row.bytes for row in record.by_layer) == record.in_use_bytes
    assert sum(row.bytes for row in record.by_size) == record.in_use_bytes
    assert max(bytes_ for _, bytes_ in record.curve) == record.in_use_bytes
    assert any("conv_0" in row.name for row in record.by_layer)


def test_a_log_directory_leads_to_its_newest_profile(tmp_path: Path) -> None:
    assert not is_record(tmp_path)
    for run in ("2026_01_01", "2026_01_02"):
        folder = tmp_path / "train" / "plugins" / "profile" / run
        folder.mkdir(parents=True)
        (folder / f"{run}.xplane.pb").write_bytes(PROFILE.read_bytes())
    assert is_record(tmp_path) and read_record(tmp_path).name == "2026_01_02.xplane.pb"


def test_events_beyond_the_most_are_counted() -> None:
    data = PROFILE.read_bytes()
    whole, some = read_events(data), read_events(data, most=100)
    assert some.count == 100 and some.unread == whole.count - 100


@pytest.mark.parametrize("cut", [1, 100, 5000, 20000])
def test_a_profile_that_is_cut_off_is_refused_in_a_sentence(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "cut.xplane.pb"
    path.write_bytes(PROFILE.read_bytes()[:cut])
    with pytest.raises(FormatError, match="is no TensorFlow profile, or is damaged"):
        read_record(path)


def test_a_profile_with_flipped_bytes_gives_a_record_or_a_sentence(tmp_path: Path) -> None:
    data, path = PROFILE.read_bytes(), tmp_path / "flipped.xplane.pb"
    for place in range(0, len(data), len(data) // 60):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        problem = ""
        try:
            assert read_record(path).records
        except FormatError as error:
            problem = str(error)
        assert not problem or str(path) in problem


def test_other_binary_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.log"
    path.write_bytes(b"\x89HDF\r\n\x1a\n\0\0\0" * 100)
    with pytest.raises(FormatError, match="is no TensorFlow profile"):
        read_record(path)


def test_reading_stops_when_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_bytes(b"loss: 0.5\n" * 300_000)
    with pytest.raises(CancelledError):
        read_record(path, cancelled=lambda: True)
