from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkmate.cli.main import main
from checkmate.errors import FormatError
from checkmate.records.memory import Cause, MemoryRecord, ReadRecord
from checkmate.records.oom_log import MOST_RECORDS, read_lines
from checkmate.records.read import read_record

DATA = Path(__file__).parent / "data"
LOG = DATA / "oom_2_21.log"
FAILED = (
    "2026-01-02 03:04:05.6: W tsl/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory trying to "
    "allocate 2.20GiB (rounded to 2362232064)requested by op net/conv/Conv2D"
)
TENSOR = (
    "ResourceExhaustedError: OOM when allocating tensor with shape[32,64,64,8] and type float on "
    "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [[{{node net/conv/Conv2D}}]]"
)


def read(*lines: str) -> ReadRecord:
    return read_lines("train.log", lines)


def only(*lines: str) -> MemoryRecord:
    (record,) = read(*lines).records
    return record


def test_the_log_of_tensorflow_2_21() -> None:
    """Test real text: sizes of the pool and the limit come with units there."""
    (record,) = read_record(LOG).records
    assert record.asked is not None and record.allocator == "bfc_cpu_allocator_for_gpu"
    assert (record.asked.bytes, record.asked.rounded_bytes) == (16 * 2**20, 2**24)
    assert record.limit_bytes == 40 * 2**20 and record.free_bytes == record.largest_free_bytes == 1_972_224
    assert record.in_use_bytes == sum(row.bytes for row in record.by_size)
    assert record.by_size[0].bytes == 2 * 2**24 and record.by_size[0].count == 2
    assert record.pool_bytes == record.in_use_bytes + record.free_bytes
    assert record.cause is Cause.SHORT and record.missing_bytes == 2**24 - (40 * 2**20 - record.in_use_bytes)


def test_a_dump_without_the_sums_of_newer_releases() -> None:
    """Test TensorFlow 1's: other words, and no size of the pool."""
    record = only(
        "W bfc_allocator.cc:275] Allocator (GPU_0_bfc) ran out of memory trying to allocate 8.00GiB.  "
        "Current allocation summary follows.",
        "I bfc_allocator.cc:665] Chunk at 0x10216400000 of size 1280",
        "I bfc_allocator.cc:665] Chunk at 0x10216400500 of size 9120000000",
        "I bfc_allocator.cc:674] Free at 0x10435d82d00 of size 48000000",
        "I bfc_allocator.cc:692] 1 Chunks of size 1280 totalling 1.2KiB",
        "Limit:                 17000000000",
        "InUse:                  9120001280",
        "MaxInUse:               9300000000",
    )
    assert record.asked is not None and record.asked.bytes == 8 * 2**30 and record.asked.about
    assert record.limit_bytes == 17_000_000_000 and record.most_bytes == 9_300_000_000
    assert (record.in_use_bytes, record.free_bytes) == (9_120_001_280, 48_000_000)
    assert record.missing_bytes == 8 * 2**30 - (17_000_000_000 - 9_120_001_280)
    assert [(row.name, row.count) for row in record.by_size] == [("9120000000", 1), ("1280", 1)]


def test_a_dump_that_names_ops_is_told_by_layer() -> None:
    record = only(
        FAILED,
        "I bfc_allocator.cc:1046] BFCAllocator dump for GPU_0_bfc",
        "I x] InUse at 7f6a2c000000 of size 1280 by op Fill action_count 12 step 0 next 1",
        "I bfc_allocator.cc:1085] InUse at 7f6a2c000500 of size 4096 by op net/conv/Conv2D action_count 2 "
        "step 1 next 2",
        "I bfc_allocator.cc:1085] InUse at 7f6a2c001500 of size 4096 by op "
        "gradient_tape/net/conv/Conv2D/Conv2DBackpropInput action_count 3 step 1 next 3",
        "I x] Free  at 7f6a2c002500 of size 256 by op UNUSED action_count 0 step 0 next 9",
    )
    assert [(row.name, row.bytes, row.count) for row in record.by_layer] == [
        ("net/conv", 8192, 2),
        ("outside of layers", 1280, 1),
    ]
    assert record.free_bytes == record.largest_free_bytes == 256


def test_sums_count_where_chunks_are_not_listed() -> None:
    record = only(
        FAILED, "I x] 12 Chunks of size 256 totalling 3.0KiB", "I x] 2 Chunks of size 4096 totalling 8KiB"
    )
    assert [(row.name, row.bytes, row.count) for row in record.by_size] == [
        ("4096", 8192, 2),
        ("256", 3072, 12),
    ]
    assert record.in_use_bytes == 11264 and record.free_bytes is None and record.cause is Cause.UNKNOWN


def test_the_error_of_the_op_alone_tells_shape_and_op() -> None:
    record = only(TENSOR)
    assert record.asked is not None and record.allocator == "GPU_0_bfc"
    assert (record.asked.shape, record.asked.dtype) == ((32, 64, 64, 8), "float")
    assert record.asked.bytes == 4 * 32 * 64 * 64 * 8 and record.asked.op == "net/conv/Conv2D"
    assert record.limit_bytes is None and record.cause is Cause.UNKNOWN


def test_the_op_in_the_line_after_the_error_counts() -> None:
    record = only(TENSOR.replace(" [[{{node net/conv/Conv2D}}]]", ""), "\t [[{{node net/late/Relu}}]]")
    assert record.asked is not None and record.asked.op == "net/late/Relu"


def test_the_error_completes_the_dump_before_it_and_is_no_second_failure() -> None:
    size = 4 * 32 * 64 * 64 * 8
    dump = FAILED.replace("2.20GiB (rounded to 2362232064)", f"4.00MiB (rounded to {size})")
    record = only(dump, TENSOR, f"Traceback\\n{TENSOR}")
    assert record.asked is not None and record.asked.shape == (32, 64, 64, 8)
    assert (record.asked.bytes, record.asked.rounded_bytes, record.asked.about) == (size, size, False)


def test_another_tensor_is_another_failure() -> None:
    found = read(FAILED, TENSOR)
    assert [record.asked.bytes for record in found.records if record.asked] == [
        int(2.2 * 2**30),
        4 * 32 * 64 * 64 * 8,
    ]


def test_a_compiled_step_that_ran_out_of_memory() -> None:
    record = only("jax.errors: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 123456 bytes.")
    assert record.asked is not None and record.asked.bytes == 123456


def test_what_tensorflow_did_without_is_no_failure() -> None:
    warning = (
        "W bfc_allocator.cc:311] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.26GiB with "
        "freed_by_count=0. The caller indicates that this is not a failure, but this may mean that there "
        "could be performance gains if more memory were available."
    )
    found = read(warning, warning, FAILED)
    assert len(found.records) == 1 and found.warnings == 2


def test_failures_without_end_are_counted_and_not_kept() -> None:
    found = read(*[FAILED] * (MOST_RECORDS + 5))
    assert len(found.records) == MOST_RECORDS and found.unread == 5


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\x00\x01",
        "Allocator (",
        "Allocator (x) ran out of memory trying to allocate ..B",
        "InUse at zz of size 9",
        "Limit: 99999999999999999999999999999",
        "[[[[[[[[{{{{",
        "OOM when allocating tensor with shape[99999999999,99999999999] and type nonsense",
        "Bin (256): \tTotal Chunks: 1, Chunks in use: 1. x client-requested in use",
    ],
)
def test_broken_lines_break_nothing(line: str) -> None:
    asked = [record.asked for record in read(line, FAILED, line, TENSOR, line).records]
    assert 2_362_232_064 in [each.rounded_bytes for each in asked if each is not None]


def test_a_log_without_an_error_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("Epoch 1/5\nloss: 0.5\n")
    with pytest.raises(FormatError, match="holds no out-of-memory error of TensorFlow") as caught:
        read_record(path)
    assert "2> train.log" in caught.value.hint


def test_the_command_prints_one_sentence_for_a_file_that_is_neither(tmp_path: Path, capsys) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    assert main(["explain", str(empty), "--quiet"]) == 2
    assert "is empty" in capsys.readouterr().err
    assert main(["explain", str(tmp_path / "none.log"), "--quiet", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["exit_code"] == 2
