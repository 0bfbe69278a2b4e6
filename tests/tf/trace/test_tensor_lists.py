"""Test lists of tensors in recurrent networks."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.allocator.replay import allocations
from checkmate.backends.tf.trace import coarsen
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.dataflow import Key
from checkmate.backends.tf.trace.loops import is_zeros
from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.backends.tf.trace.op_kinds import LIGHT_BYTES, OpKind
from checkmate.backends.tf.trace.sizes import tensor_bytes
from checkmate.ir import Phase
from checkmate.progress import never, silent
from checkmate.request import ModelRequest

STEPS = 32


@pytest.fixture(scope="module", params=["recurrent", "bidirectional"])
def folded(request: pytest.FixtureRequest) -> FoldedStep:
    spec = f"{Path(__file__).parents[1] / 'small_models.py'}:{request.param}"
    wanted = ModelRequest(spec, batch_size=16, device="cpu", allow_code=True)
    with pytest.MonkeyPatch.context() as patched:  # loops that stay whole
        patched.setattr(coarsen, "with_split_loops", lambda traced: traced)
        return trace_request(wanted, report=silent, cancelled=never)


def heavy(folded: FoldedStep, type_: str) -> list[int]:
    return [op for op in folded.structure.heavy if folded.structure.ops[op].type == type_]


def test_a_list_made_from_a_tensor_has_the_tensors_bytes(folded: FoldedStep) -> None:
    structure = folded.structure
    found = heavy(folded, "TensorListFromTensor")
    assert len(found) >= 3  # what each loop reads, and the gradient of what it returns in each time step
    assert all(structure.bytes_of[op, 0] == tensor_bytes(structure.ops[op].inputs[0]) for op in found)
    assert any(structure.bytes_of[op, 0] >= LIGHT_BYTES for op in found)


def test_a_list_of_zeros_is_made_in_the_step_of_its_loop(folded: FoldedStep) -> None:
    structure = folded.structure
    zeros = [
        i for i, op in enumerate(structure.ops) if is_zeros(op) and structure.kinds[i] is not OpKind.DEAD
    ]
    assert zeros and all(structure.kinds[op] is OpKind.HEAVY for op in zeros)
    for op in zeros:
        (reader,) = {other for other in structure.heavy if (op, 0) in structure.direct_inputs(other)}
        assert structure.ops[reader].type == "StatelessWhile" and structure.phase(reader) is Phase.BACKWARD
        assert folded.node_of[op] == folded.node_of[reader]


def test_elements_that_two_lists_hold_are_counted_once(folded: FoldedStep) -> None:
    structure = folded.structure
    assert structure.given
    assert all(
        structure.bytes_of[returned] == structure.bytes_of[given]
        for returned, given in structure.given.items()
    )
    buffers = allocations(folded, range(folded.graph.n))
    readers: dict[Key, list[int]] = defaultdict(list)
    for op in structure.heavy:
        for key in structure.direct_inputs(op):
            readers[key].append(op)
    for loop in {returned[0] for returned in structure.given}:
        expected = Counter(
            structure.bytes_of[key] for key in structure.outputs(loop) if structure.bytes_of[key]
        )
        # A state that something else reads later does not die into the one that the loop returns.
        expected -= Counter(
            structure.bytes_of[key]
            for key, given in structure.given.items()
            if key[0] == loop and max(readers[given]) == loop
        )
        expected += Counter(size for op, size in structure.scratch.items() if op == loop)
        assert Counter(buffer.bytes for buffer in buffers if buffer.op == loop) == expected


def test_what_a_loop_keeps_for_its_gradient_has_an_element_per_time_step(folded: FoldedStep) -> None:
    structure = folded.structure
    loops = heavy(folded, "While")
    assert loops
    for loop in loops:
        op = structure.ops[loop]
        body = private.function_body(folded.traced.graph, op.node_def.attr["body"].func.name)
        elements = {
            STEPS * tensor_bytes(inner.inputs[1])
            for inner in body.get_operations()
            if inner.type == "TensorListPushBack" and inner.inputs[1].shape.is_fully_defined()
        }
        kept = [structure.bytes_of[loop, n] for n, t in enumerate(op.outputs) if t.dtype == tf.variant]
        assert any(size >= LIGHT_BYTES for size in kept)
        assert set(kept) - {0} <= elements
