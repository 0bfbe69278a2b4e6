"""Which layer an op is of, by its name in TensorFlow's or JAX's scopes."""

from __future__ import annotations

import re

# Scopes that TensorFlow adds around or inside of those of layers.
_AROUND = re.compile(
    r"(StatefulPartitionedCall|PartitionedCall|gradient_tape|gradients|cond|while|body|then|else)(_\d+)?"
    r"|closed_call|checkpoint|rematted_computation|branch_\d+_fun|main|StatelessScope|.*->.*"
)
_FUNCTION = re.compile(
    r"\bp?jit\([^()]*\)"
)  # of JAX's scopes; the others are transpose(jvp(NAME)) and the like
_AROUND_JAX = re.compile(r"\w+\(|\)")
NO_LAYER = "outside of layers"


def layer_of(op: str) -> str:
    """Return the scopes of ``op`` that may be layers, joined by ``/``; of a gradient op those of its forward
    op.
    """
    if "jit(" in op:
        op = _AROUND_JAX.sub("", _FUNCTION.sub("", op.partition(";")[0]))
    scopes = [part for part in op.split("/")[:-1] if part and not _AROUND.fullmatch(part)]
    if "gradient_tape" in op and len(scopes) > 1 and _is_op(scopes[-1]):
        scopes.pop()  # gradient_tape/model/conv/Conv2D/Conv2DBackpropInput: the scope is the op of the pass
    return "/".join(scopes) or NO_LAYER


def _is_op(scope: str) -> bool:
    return scope[:1].isupper() or scope.rstrip("_0123456789") in ("convolution", "add", "mul", "sub", "mean")
