"""A snapshot that PyTorch makes of its own profile is read as its viewer summarizes and replays it."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.cuda import _memory_viz
from torch.profiler import profile

from checkmate.records.read import read_record
from checkmate.units import parse_bytes


def test_a_profile_of_pytorch_is_read_as_by_its_viewer(tmp_path: Path) -> None:
    net, x = nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 64)), torch.randn(4096, 64)
    with profile(profile_memory=True, record_shapes=True, with_stack=True) as profiled:
        for _ in range(2):
            net(x).square().mean().backward()
    snapshot = _memory_viz._profile_to_snapshot(profiled)
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(snapshot))
    peak, now = read_record(tmp_path / "s.pickle").records

    told = dict(re.findall(r"total_(\w+): ([\d.]+.?iB|[\d.]+B)", _memory_viz.segsum(snapshot)))
    for name, size in (("reserved", now.pool_bytes), ("allocated", now.in_use_bytes)):
        assert abs(parse_bytes(told[name]) - size) <= 0.01 * size  # it tells four digits
    trace = snapshot["device_traces"][0]
    live = now.requested_bytes - sum(each["size"] * sign(each["action"]) for each in trace)
    most = live
    for each in trace:
        live += each["size"] * sign(each["action"])
        most = max(most, live)
    assert peak.in_use_bytes == most
    rows = {row.name: row.bytes for row in peak.by_layer}
    assert rows["nn.Module: ReLU_0"] == 4096 * 2048 * 4


def sign(action: str) -> int:
    return {"alloc": 1, "free_completed": -1}.get(action, 0)
