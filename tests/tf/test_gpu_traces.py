"""Test what a GPU's trace tells about memory and time."""

from __future__ import annotations

import dataclasses
import gzip
import itertools
from collections.abc import Iterable
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from checkmate.backends.tf.allocator.learn import (
    learned_by_op,
    reserve_values,
    with_workspace,
)
from checkmate.backends.tf.allocator.replay import scratch_of_nodes
from checkmate.backends.tf.costs import fresh, profile
from checkmate.backends.tf.costs.known import CostOptions, KnownCosts, NodeCosts
from checkmate.backends.tf.devices import settings_here
from checkmate.backends.tf.measure.step import measured_curve
from checkmate.backends.tf.node_times import (
    NO_KERNEL_TIMES,
    askers_by_name,
    launch_interval,
    launched_seconds,
    share_by_operations,
)
from checkmate.backends.tf.profiler import MemoryEvent, OpRun, StepTrace, read_trace, trace_run
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.ir import CostOrigin, CostUnit, Schedule
from checkmate.machine.cost_store import CostStore
from checkmate.memory.simulate import simulate
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from tests.tf.fake_gpu import folded_for_gpu
from tests.tf.requested import predicted_requested

pytestmark = pytest.mark.heavy  # many tests of a second or two

MODELS = Path(__file__).parent
MIB = 1 << 20
US = 1_000_000  # picoseconds


def _stats(plane, event, **stats: object) -> None:
    for name, value in stats.items():
        number = next(
            (key for key, entry in plane.stat_metadata.items() if entry.name == name),
            len(plane.stat_metadata) + 1,
        )
        plane.stat_metadata[number].id, plane.stat_metadata[number].name = number, name
        stat = event.stats.add(metadata_id=number)
        setattr(stat, "str_value" if isinstance(value, str) else "int64_value", value)


def _event(plane, line, name: str, start_us: int, **stats: object) -> None:
    number = next(
        (key for key, entry in plane.event_metadata.items() if entry.name == name),
        len(plane.event_metadata) + 1,
    )
    plane.event_metadata[number].id, plane.event_metadata[number].name = number, name
    event = line.events.add(metadata_id=number, offset_ps=start_us * US, duration_ps=2 * US)
    _stats(plane, event, **stats)


def made_space() -> object:
    """Return a trace of one op on the GPU, with requests to four allocators. Its kernel is in a stream, and
    once more in a summary."""
    space = xplane_pb2.XSpace()
    gpu = space.planes.add(name="/device:GPU:0")
    for name in ("Stream #20(Compute)", "TensorFlow Ops"):
        _event(gpu, gpu.lines.add(name=name), "volta_sgemm", 5, tf_op="step0/a/MatMul:MatMul")
    host = space.planes.add(name="/host:CPU")
    line = host.lines.add(name="tf_Compute")
    _event(host, line, "step0/a/MatMul:MatMul", 1)
    asked = {"tf_op": "step0/a/MatMul", "region_type": "output", "addr": 1}
    for number, name in enumerate(("GPU_0_bfc", "GPU_1_bfc", "gpu_host_bfc", "bfc_cpu_allocator_for_gpu")):
        _event(
            host, line, "MemoryAllocation", 2, allocator_name=name, requested_bytes=100 + number,
            allocation_bytes=256, bytes_allocated=512, **asked,
        )  # fmt: skip
    return space


@pytest.mark.parametrize(("device", "bytes_"), [("gpu", 100), ("cpu", 103)])
def test_only_the_allocator_of_the_device_in_use_counts(device: str, bytes_: int) -> None:
    trace = read_trace(made_space(), device)
    assert [(event.requested_bytes, event.op) for event in trace.memory] == [(bytes_, "step0/a/MatMul")]
    assert [(run.name, run.start_ps) for run in trace.runs] == [
        ("step0/a/MatMul", 5 * US if device == "gpu" else US)
    ]


# Kernels and memory events that TensorFlow 2.21 wrote on an NVIDIA H200 (driver 580, cuDNN 9): a matrix
# product, a convolution and its gradient, an LSTM and its gradient.
FILE = Path(__file__).parent / "data" / "h200-lstm-conv.xplane.pb.gz"
LSTM = "lstm_1_1/CudnnRNNV3"
TIME, BATCH, UNITS = 20, 16, 64


@pytest.fixture(scope="module")
def h200() -> StepTrace:
    return read_trace(xplane_pb2.XSpace.FromString(gzip.decompress(FILE.read_bytes())), "gpu")


def test_kernels_carry_the_name_of_their_op_on_every_stream(h200: StepTrace) -> None:
    names = {run.name for run in h200.runs}
    assert {"Conv2D", "gradient_tape/Conv2DBackpropFilter", "Relu", LSTM} <= names
    assert sum(run.name == LSTM for run in h200.runs) == 48
    assert all(0 < seconds < 1e-3 for seconds in h200.seconds_by_op.values())


def test_only_the_h200_s_allocator_counts(h200: StepTrace) -> None:
    assert len(h200.memory) == 97 + 92  # of 277 events of three allocators
    held = h200.memory[0].in_use - h200.memory[0].allocated_bytes
    for event in h200.memory:
        held += event.allocated_bytes
        assert event.in_use == held


def test_scratch_is_told_from_outputs(h200: StepTrace) -> None:
    asked = [(event.requested_bytes, event.temporary) for event in h200.memory if event.op == "Conv2D"]
    assert (32 * 64 * 64 * 32 * 4, False) in asked
    assert (25_184_403, True) in asked


def test_an_lstm_asks_for_its_reserve_in_one_request(h200: StepTrace) -> None:
    output = TIME * BATCH * UNITS * 4
    asked = [event.requested_bytes for event in h200.memory if event.op == LSTM and not event.temporary]
    assert 5 * output + 256 in asked


def test_a_real_trace_of_this_cpu_has_events() -> None:
    tensor = tf.ones((512, 512))
    trace = trace_run(lambda: tf.matmul(tensor, tensor).numpy(), device="cpu")
    assert any(event.requested_bytes == MIB and event.op for event in trace.memory)
    assert trace_run(lambda: tf.matmul(tensor, tensor).numpy(), device="gpu") == StepTrace((), ())


class EventMaker:
    """Make allocator events in order, as a GPU's host thread makes them. All of them come at once, before any
    kernel runs."""

    def __init__(self) -> None:
        self.events: list[MemoryEvent] = []
        self._addresses = itertools.count(1)

    def ask(self, op: str, size: int, *, temporary: bool = False) -> int:
        address = next(self._addresses)
        self.events.append(MemoryEvent(len(self.events), size, size, 0, op, address, temporary))
        return address

    def release(self, address: int, size: int) -> None:
        self.events.append(MemoryEvent(len(self.events), -size, -size, 0, "", address))

    def scratch(self, op: str, *sizes: int) -> None:
        """Add the sizes that ``op`` holds at once while its kernel is launched."""
        held = [(self.ask(op, size, temporary=True), size) for size in sizes]
        for address, size in held:
            self.release(address, size)

    @property
    def trace(self) -> StepTrace:
        return StepTrace((), tuple(self.events))


def emitted(folded: FoldedStep, node: int, op_type: str) -> str:
    """Return the name of the op of this type in the emitted plain step. The op belongs to ``node``."""
    leading = folded.graph.ops[node].name.rsplit("/", 1)[-1]
    names = [
        folded.structure.ops[op].name for op in folded.nodes[node] if folded.structure.ops[op].type == op_type
    ]
    return f"step{node}/{leading}/{names[0].rsplit('/', 1)[-1]}"


def nodes_of(folded: FoldedStep, op_type: str) -> list[int]:
    return [
        node for node, members in enumerate(folded.nodes)
        if any(folded.structure.ops[op].type == op_type for op in members)
    ]  # fmt: skip


def test_scratch_is_learned_by_the_name_of_the_op_that_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    folded = folded_for_gpu(monkeypatch, "convnet")
    first, second, *_ = nodes_of(folded, "Conv2D")
    made = EventMaker()
    # Two convolutions in the wrong order, and one that asks twice but never at the same time.
    made.scratch(emitted(folded, second, "Conv2D"), 3 * MIB, 5 * MIB)
    for _ in range(2):
        made.scratch(emitted(folded, first, "Conv2D"), 64 * MIB)
    made.scratch("optimizer/elsewhere", 99 * MIB)
    made.ask(emitted(folded, first, "Conv2D"), 77 * MIB)  # an output is not scratch
    learned = learned_by_op(folded, [made.trace, made.trace])
    assert not learned.reserves
    assert set(learned.workspace) <= {first, second} and learned.workspace[first] > learned.workspace[second]
    graph = with_workspace(folded.graph, learned.workspace)
    steps = list(range(graph.n))
    before = predicted_requested(folded, folded.graph, steps)
    assert before + 32 * MIB < predicted_requested(folded, graph, steps) <= before + 64 * MIB
    assert learned.workspace[first] <= 64 * MIB and learned.workspace[second] <= 8 * MIB


def test_scratch_of_a_recomputation_belongs_to_the_same_node(monkeypatch: pytest.MonkeyPatch) -> None:
    folded = folded_for_gpu(monkeypatch, "convnet")
    node = nodes_of(folded, "Conv2D")[1]
    steps = [*range(node + 1), node, *range(node + 1, folded.graph.n)]
    made = EventMaker()
    name = emitted(folded, node, "Conv2D")
    made.scratch(name, 20 * MIB)
    made.scratch(name.replace(f"step{node}/", f"step{node + 1}/"), 40 * MIB)
    (learned,) = learned_by_op(folded, [made.trace], steps).workspace.items()
    assert learned[0] == node and 30 * MIB < learned[1] <= 40 * MIB


def test_scratch_seen_in_only_one_trace_is_not_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    folded = folded_for_gpu(monkeypatch, "convnet")
    node = nodes_of(folded, "Conv2D")[0]
    made = EventMaker()
    made.scratch(emitted(folded, node, "Conv2D"), 64 * MIB)
    assert learned_by_op(folded, [made.trace]).workspace
    assert not learned_by_op(folded, [made.trace, EventMaker().trace]).workspace
    small = EventMaker()
    small.scratch(emitted(folded, node, "Conv2D"), 1000)
    assert not learned_by_op(folded, [small.trace]).workspace


def test_each_request_for_scratch_takes_a_chunk_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that pieces are replayed one by one, at the op that asked. What the step requests at most stays
    the same."""
    folded = folded_for_gpu(monkeypatch, "convnet")
    node = nodes_of(folded, "Conv2D")[1]
    name = emitted(folded, node, "Conv2D")
    made = EventMaker()
    made.scratch(name, 7 * MIB)  # less than what follows
    made.scratch(name, 20 * MIB, 3 * MIB, 9 * MIB)
    learned = learned_by_op(folded, [made.trace, made.trace])
    member, *sizes = learned.pieces[node]
    assert sizes == [20 * MIB, 3 * MIB, 9 * MIB] and set(learned.pieces) == set(learned.workspace) == {node}
    assert folded.structure.ops[folded.nodes[node][member]].type == "Conv2D"
    whole = with_workspace(folded.graph, learned.workspace)
    apart = with_workspace(folded.graph, learned.workspace, pieces=learned.pieces)
    steps = list(range(apart.n))
    assert [each.bytes for each in scratch_of_nodes(folded, apart, steps)] == sizes
    assert [each.bytes for each in scratch_of_nodes(folded, whole, steps)] == [learned.workspace[node]]
    at = {each.born for each in scratch_of_nodes(folded, apart, steps)}
    assert at == {sum(len(members) for members in folded.nodes[:node]) + member}
    assert predicted_requested(folded, apart, steps) == predicted_requested(folded, whole, steps)


def test_the_curve_of_a_gpu_goes_by_names_and_not_by_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check it where every request comes before any kernel runs."""
    folded = folded_for_gpu(monkeypatch, "convnet")
    first, second = nodes_of(folded, "Conv2D")[:2]
    steps = [*range(second + 1), first, *range(second + 1, folded.graph.n)]
    made = EventMaker()
    held = made.ask("elsewhere", MIB)
    made.ask(emitted(folded, first, "Conv2D"), 4 * MIB)
    made.release(held, MIB)
    made.scratch(emitted(folded, second, "Conv2D"), 2 * MIB, 3 * MIB)
    made.ask(emitted(folded, first, "Conv2D").replace(f"step{first}/", f"step{second + 1}/"), MIB)
    fixed = folded.graph.fixed_bytes
    curve = [(most - fixed) // MIB for most in measured_curve(folded, made.trace, steps)]
    assert curve[: first + 1] == [1] * first + [5]
    assert curve[first + 1 : second] == [4] * (second - first - 1)
    assert curve[second:] == [9, 5] + [5] * (len(steps) - second - 2)
    assert measured_curve(folded, StepTrace((), ()), steps) == [fixed] * len(steps)


def test_scratch_below_the_nodes_peak_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a node that holds more at another of its ops: it is not larger."""
    folded = folded_for_gpu(monkeypatch, "encoder")
    node = max(range(folded.graph.n), key=lambda node: folded.graph.ops[node].workspace_bytes)
    room = folded.graph.ops[node].workspace_bytes
    assert room > MIB // 4
    first = folded.structure.ops[folded.nodes[node][0]]
    made = EventMaker()
    made.scratch(emitted(folded, node, first.type), room + 8 * MIB)
    beyond = learned_by_op(folded, [made.trace]).workspace[node]
    assert 8 * MIB <= beyond < room + 8 * MIB


def test_a_reserve_is_the_request_beside_the_other_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    folded = folded_for_gpu(monkeypatch, f"{MODELS / 'gpu_models.py'}:lstm", batch_size=16)
    first, second = nodes_of(folded, "CudnnRNNV3")
    made = EventMaker()
    for node, reserve in ((first, 5_000_000), (second, 0)):
        name = emitted(folded, node, "CudnnRNNV3")
        for number in range(3):
            made.ask(name, folded.structure.bytes_of[folded.nodes[node][0], number])
        if reserve:
            made.ask(name, reserve)
        made.scratch(name, 9_000_000)
    learned = learned_by_op(folded, [made.trace])
    assert learned.reserves == {first: 5_000_000} and set(reserve_values(folded)) >= {first, second}
    assert learned.workspace[first] == learned.workspace[second] == 9_000_000


def test_names_of_a_real_trace_lead_to_the_ops_that_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the emitted step on this CPU and compare requests with sizes. The bytes that each op requests for
    its outputs must be their sizes."""
    folded = folded_for_gpu(monkeypatch, "convnet", batch_size=4)
    monkeypatch.undo()
    function = profile.compile_step(folded, Schedule.plain(folded.graph))
    batch = folded.traced.loaded.make_batch()
    function(*batch)
    trace = trace_run(lambda: function(*batch)[0].numpy(), device="cpu")
    outputs = [
        e for e in trace.memory if e.requested_bytes >= 16384 and not e.temporary and e.op.startswith("step")
    ]
    askers = askers_by_name(folded, (event.op for event in outputs), range(folded.graph.n))
    right = 0
    for event in outputs:
        node, member = askers[event.op]
        assert member is not None
        op = folded.structure.ops[folded.nodes[node][member]]
        sizes = {
            tensor.shape.num_elements() * tensor.dtype.size
            for tensor in op.outputs
            if tensor.dtype != tf.resource
        }
        right += event.requested_bytes in sizes
    assert len(outputs) > 30 and right >= 0.9 * len(outputs)


@given(st.lists(st.floats(1e-7, 1e-2), min_size=1, max_size=40), st.floats(0.1, 30))
def test_kernels_at_the_launch_interval_add_up_to_the_wall_time(kernels: list[float], factor: float) -> None:
    wall = factor * sum(kernels)
    interval = launch_interval(kernels, wall)
    together = sum(max(kernel, interval) for kernel in kernels)
    if factor <= 1:
        assert together == pytest.approx(sum(kernels), rel=1e-6)
    elif interval < 50e-6:
        assert together == pytest.approx(wall, rel=1e-6)
    else:
        assert interval == pytest.approx(50e-6) and together <= wall * (1 + 1e-6)


def runs_of(folded: FoldedStep, kernels: Iterable[tuple[int, float]]) -> StepTrace:
    found, at = [], 0
    for node, seconds in kernels:
        leaf = folded.graph.ops[node].name.rsplit("/", 1)[-1]
        length = round(seconds * 1e12)
        found.append(OpRun(f"step{node}/{leaf}/{leaf}", at, at + length, ""))
        at += length
    return StepTrace(tuple(found), ())


def test_small_kernels_cost_their_launch_and_large_ones_their_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folded = folded_for_gpu(monkeypatch, "convnet")
    kernels = [(0, 1e-6), (0, 1e-6), (1, 1e-6), (2, 500e-6)]
    steps = range(folded.graph.n)
    seconds = launched_seconds(folded, runs_of(folded, kernels), steps, wall=530e-6)
    assert seconds[:3] == pytest.approx([20e-6, 10e-6, 500e-6]) and not any(seconds[3:])
    # In proportion to its kernel's time, node 0 would cost 2 of 503 parts of the wall.
    busy = launched_seconds(folded, runs_of(folded, kernels), steps, wall=400e-6)
    assert busy[:3] == pytest.approx([2e-6, 1e-6, 500e-6])
    assert launched_seconds(folded, StepTrace((), ()), steps, wall=1.0) == [0.0] * folded.graph.n
    # A node that runs twice costs the mean.
    twice = StepTrace((OpRun("step0/a/a", 0, 10 * US), OpRun("step1/a/a", 20 * US, 50 * US)), ())
    assert launched_seconds(folded, twice, [0, 0], wall=0.0)[0] == pytest.approx(20e-6)


def test_shares_add_up_to_the_wall_time() -> None:
    assert share_by_operations(6.0, [1.0, 2.0], [0, 1, 0]) == [1.5, 3.0]
    assert share_by_operations(6.0, [0.0, 0.0], [0, 1]) == [3.0, 3.0]


def _on_this_cpu(monkeypatch: pytest.MonkeyPatch, folded: FoldedStep, kernels: bool) -> None:
    """Run the step of a GPU on this CPU, traced as on a GPU. ``kernels``: the trace has kernels; if False,
    there is no right to see them."""
    monkeypatch.setattr(profile, "settings_here", lambda kind: settings_here("cpu"))

    def trace(run, *, device: str) -> StepTrace:
        assert device == "gpu"
        seen = trace_run(run, device="cpu")
        return seen if kernels else StepTrace((), seen.memory)

    monkeypatch.setattr(profile, "trace_run", trace)


@pytest.mark.parametrize("kernels", [True, False])
def test_without_the_right_to_profile_a_note_says_how_costs_were_found(
    kernels: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded = folded_for_gpu(monkeypatch, "convnet", batch_size=4)
    monkeypatch.undo()
    _on_this_cpu(monkeypatch, folded, kernels)
    store = CostStore(tmp_path / "costs.sqlite")
    costs = CostOptions("measured", store=store)
    graph = fresh.with_costs(folded, costs, report=silent, cancelled=never).graph
    assert graph.cost_unit is CostUnit.SECONDS and graph.cost_origin is CostOrigin.MEASURED
    assert graph.base_cost == pytest.approx(graph.metadata["profile"]["least_wall_seconds"], rel=0.01)
    assert (NO_KERNEL_TIMES in graph.metadata["notes"]) is not kernels
    # Shares of a whole step are not costs of ops, so another step must not find them.
    assert bool(KnownCosts.look_up(folded, store, refresh=False).entries) is kernels
    # The measuring process answers, and the parent puts the graph together again.
    monkeypatch.setattr(fresh, "run_task", lambda task, **_: fresh.measure_costs(task, silent))
    monkeypatch.setattr(fresh, "trace_request", lambda *_, **__: folded)
    again = fresh.with_costs(
        folded,
        CostOptions("measured"),
        request=ModelRequest.from_json(folded.graph.metadata["request"]),
        report=silent,
        cancelled=never,
    )
    assert (NO_KERNEL_TIMES in again.graph.metadata["notes"]) is not kernels


def test_pieces_of_scratch_and_reserves_outlast_the_cost_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded = folded_for_gpu(monkeypatch, f"{MODELS / 'gpu_models.py'}:lstm", batch_size=16)
    first, second = nodes_of(folded, "CudnnRNNV3")
    count = folded.graph.n
    reserves = {first: 4_000_000, second: 3_000_000}
    pieces = {first: (0, 5 * MIB, 3 * MIB)}
    costs = NodeCosts(
        (1e-3,) * count,
        (0.0,) * count,
        tuple(8 * MIB if node == first else 0 for node in range(count)),
        5,
        1.0,
        reserves=tuple(reserves.get(node, 0) for node in range(count)),
        pieces=pieces,
    )
    store = CostStore(tmp_path / "costs.sqlite")
    known = KnownCosts.look_up(folded, store, refresh=False)
    assert known.keep(known.merged(costs), folded.graph, ended=True)
    known = KnownCosts.look_up(folded, store, refresh=False)
    again = known.merged(dataclasses.replace(costs, pieces={first: (0, 8 * MIB)}))
    assert known.costs().pieces == again.pieces == pieces and again.workspace[first] == 8 * MIB
    wrong = dataclasses.replace(store.look_up(known.keys)[known.keys[first]], pieces="0,x")
    assert not wrong.is_sound()
    options = CostOptions("measured", store=store)
    graph = fresh.with_costs(folded, options, report=silent, cancelled=never).graph
    values = reserve_values(folded)
    assert [graph.values[values[node][0]].bytes for node in (first, second)] == [4_000_000, 3_000_000]
    plain = [simulate(each, Schedule.plain(each)).peak_bytes for each in (folded.graph, graph)]
    assert plain[0] < plain[1]
