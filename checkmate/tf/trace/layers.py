"""Find the Keras layer of each traced op, by the name of the op."""

from __future__ import annotations

import re
from typing import Any

from checkmate.ir.graph import Phase
from checkmate.tf.trace.trace import TracedStep

_SUFFIX = re.compile(r"_\d+$")


def group_names(traced: TracedStep) -> list[str]:
    """Return the path of the layer of each op.

    The names of nested models are joined by ``/``. The loss and the optimizer are groups of their own.
    """
    tree = _layer_tree(traced.loaded.model)
    variables = {id(variable.handle): variable.path for variable in traced.loaded.model.trainable_variables}
    updated = _updated_variables(traced, variables)
    names: list[str] = []
    for index, op in enumerate(traced.ops):
        phase = traced.phases[index]
        if phase is Phase.UPDATE:
            names.append(updated.get(op.name) or "optimizer")
            continue
        path = _layer_path(op.name, traced.loaded.model.name, tree)
        names.append(path)
    _fill_from_readers(traced, names)
    return names


def _fill_from_readers(traced: TracedStep, names: list[str]) -> None:
    """Give ops outside every layer the layer of the first op that reads them.

    A sum of gradients is such an op.
    """
    index = {op.name: i for i, op in enumerate(traced.ops)}
    for i in range(len(names) - 1, -1, -1):
        if not names[i]:
            phase = traced.phases[i]
            if phase is Phase.BACKWARD and "/" not in traced.ops[i].name.removeprefix("gradient_tape/"):
                readers = (
                    index.get(op.name) for tensor in traced.ops[i].outputs for op in tensor.consumers()
                )
                names[i] = next((names[r] for r in readers if r is not None and names[r] != "optimizer"), "")
            names[i] = names[i] or ("inputs" if phase is Phase.FORWARD else "loss")


def _layer_tree(model: Any) -> dict[str, Any]:
    return {
        layer.name: _layer_tree(layer) if getattr(layer, "layers", None) else {} for layer in model.layers
    }


def _layer_path(name: str, model_name: str, tree: dict[str, Any]) -> str:
    """Follow the scopes of ``name`` down the tree of layers.

    TensorFlow makes scopes unique with a suffix ``_N``. Keras numbers its layers the same way: ``conv2d_1``
    may be the layer ``conv2d_1``, or a second scope of ``conv2d``. Either all of Keras's scopes carry the
    suffix or none does, so the scope of the model tells which it is.
    """
    scopes = name.split("/")[:-1]
    if scopes and scopes[0].startswith("gradient_tape"):
        scopes = scopes[1:]
    suffixed = bool(scopes) and scopes[0] != model_name
    path: list[str] = []
    for scope in scopes[1:] if scopes and _SUFFIX.sub("", scopes[0]) in (model_name, scopes[0]) else scopes:
        bare = _SUFFIX.sub("", scope)
        choices = (bare, scope) if suffixed else (scope, bare)
        found = next((choice for choice in choices if choice in tree), None)
        if found is None:
            if path:
                break
            continue
        path.append(found)
        tree = tree[found]
        if not tree:
            break
    return "/".join(path)


def _updated_variables(traced: TracedStep, variables: dict[int, str]) -> dict[str, str]:
    """Return the layer of the variable that each update op changes, by name.

    Ops that feed an assignment get the layer of its variable too.
    """
    inside = {
        placeholder.name: variables.get(id(external)) for external, placeholder in traced.graph.captures
    }
    found: dict[str, str] = {}
    updates = [op for op, phase in zip(traced.ops, traced.phases, strict=True) if phase is Phase.UPDATE]
    update_ops = {op.name for op in updates}
    for op in updates:
        path = inside.get(op.inputs[0].name) if op.type.startswith("Assign") and op.inputs else None
        if path is None:
            continue
        stack = [op]
        while stack:
            member = stack.pop()
            if member.name in found or member.name not in update_ops:
                continue
            found[member.name] = path.rsplit("/", 1)[0]
            stack.extend(tensor.op for tensor in member.inputs if tensor.shape.rank)
    return found
