"""Find the Keras layer of each traced op, by the name of the op."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import keras

from checkmate.backends.tf.trace.trace import TracedStep
from checkmate.ir.graph import Phase

_SUFFIX = re.compile(r"_\d+$")
_TAPE = re.compile(r"gradient_tape(_\d+)?$")


def group_names(traced: TracedStep) -> list[str]:
    """Return the path of the layer of each op.

    The names of nested models are joined by ``/``. The loss and the optimizer are groups of their own. In a
    step that is not Keras's own, an op outside of the known layers has no group.
    """
    if traced.unplanned is not None:
        return _groups_of_own_step(traced)
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


def _groups_of_own_step(traced: TracedStep) -> list[str]:
    """Return the path of the layer of each op, as far as layers are known."""
    subject = traced.loaded.model
    tree, variables = _layer_tree(subject), _variable_paths(subject, "")
    found = _updated_variables(traced, {id_: f"{path}/" for id_, path in variables.items()})
    scopes = [[scope for scope in op.name.split("/")[:-1] if not _TAPE.match(scope)] for op in traced.ops]
    # Where a layer's own name is a scope, scopes carry no suffix.
    named = any(scope in tree and not _SUFFIX.search(scope) for path in scopes for scope in path[:1])
    groups = [
        _own_path(path, tree, suffixed=not named)
        if phase is not Phase.UPDATE
        else found.get(op.name) or (path[0] if path else "updates")
        for op, phase, path in zip(traced.ops, traced.phases, scopes, strict=True)
    ]
    index = {op.name: i for i, op in enumerate(traced.ops)}
    for i in reversed(range(len(groups))):
        if not groups[i] and traced.phases[i] is Phase.BACKWARD:  # such as a sum of gradients
            readers = (index.get(op.name) for tensor in traced.ops[i].outputs for op in tensor.consumers())
            later = (r for r in readers if r is not None and traced.phases[r] is not Phase.UPDATE)
            groups[i] = next((groups[r] for r in later), "")
    return groups


def _own_path(scopes: Sequence[str], tree: dict[str, Any], *, suffixed: bool) -> str:
    """Follow ``scopes`` down the tree of layers; return the longest path.

    A scope may be a layer's name, or that with a suffix; ``suffixed`` decides where both lead as far.
    """
    with_suffix, without = (_path_in(scopes, tree, cut=cut) for cut in (True, False))
    first, second = (with_suffix, without) if suffixed else (without, with_suffix)
    return "/".join(second if len(second) > len(first) else first)


def _path_in(scopes: Sequence[str], tree: dict[str, Any], *, cut: bool) -> list[str]:
    path: list[str] = []
    for scope in scopes:
        bare = _SUFFIX.sub("", scope)
        found = next((name for name in ((bare, scope) if cut else (scope, bare)) if name in tree), None)
        if found is None and path:
            break
        if found is not None:
            path.append(found)
            tree = tree[found]
    return path


def _variable_paths(parent: Any, path: str) -> dict[int, str]:
    """Return the path of the layer of each weight, by its handle's identity."""
    found: dict[int, str] = {}
    for layer in _layers_in(parent):
        here = f"{path}/{layer.name}" if path else layer.name
        found |= {id(variable.handle): here for variable in layer.trainable_variables}
        found |= _variable_paths(layer, here)
    return found


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
    return {layer.name: _layer_tree(layer) for layer in _layers_in(model)}


def _layers_in(parent: Any) -> list[Any]:
    """Return the layers of a model, or of a layer that calls them so.

    A user's own layer may call anything ``layers``, such as a count.
    """
    held = getattr(parent, "layers", None)
    held = list(held.values()) if isinstance(held, dict) else held
    if not isinstance(held, (list, tuple)):
        return []
    return [each for each in held if isinstance(each, keras.layers.Layer)]


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
