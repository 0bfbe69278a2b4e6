"""Find the Keras layer of each traced op, by the name of the op."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from checkmate.backends.tf.trace.trace import TracedStep
from checkmate.ir import Phase

_SUFFIX = re.compile(r"_\d+$")
_TAPE = re.compile(r"gradient_tape(_\d+)?$")


def group_names(traced: TracedStep) -> list[str]:
    """Return the path of the layer of each op, nested ones joined by ``/``; loss and optimizer are groups of
    their own."""
    model, phases = traced.loaded.model, traced.phases
    tree = _layer_tree(model)
    names: list[str] = []
    if traced.unplanned is None:
        updated = _updated_variables(traced, _groups_of_variables(model.trainable_variables))
        for op, phase in zip(traced.ops, phases, strict=True):
            update = phase is Phase.UPDATE
            names.append(
                updated.get(op.name) or "optimizer" if update else _layer_path(op.name, model.name, tree)
            )
        _name_casts(traced, names)
    else:
        updated = _updated_variables(traced, _groups_of_weights(model, ""))
        scopes = [[scope for scope in op.name.split("/")[:-1] if not _TAPE.match(scope)] for op in traced.ops]
        # Where a layer's own name is a scope, scopes carry no suffix.
        named = any(path[0] in tree and not _SUFFIX.search(path[0]) for path in scopes if path)
        for op, phase, path in zip(traced.ops, phases, scopes, strict=True):
            update = phase is Phase.UPDATE
            outside = path[0] if path else "updates"
            names.append(
                updated.get(op.name) or outside if update else _own_path(path, tree, suffixed=not named)
            )
    _fill_from_readers(traced, names)
    return names


def _name_casts(traced: TracedStep, names: list[str]) -> None:
    """Assign Keras's casts of a layer's inputs, which are outside of its name scope, and their gradients to
    that layer. Casts of the model's inputs belong to no layer."""
    index = {op.name: i for i, op in enumerate(traced.ops)}
    for i, op in enumerate(traced.ops):
        if names[i] or op.type != "Cast" or op.inputs[0].op.type == "Placeholder":
            continue
        scope, _, rest = op.name.partition("/")
        if _TAPE.match(scope):
            source = index.get(rest.rpartition("/")[0])
            names[i] = "" if source is None else names[source]
        else:
            readers = (index.get(reader.name) for reader in op.outputs[0].consumers())
            names[i] = next((names[each] for each in readers if each is not None and names[each]), "")


def _fill_from_readers(traced: TracedStep, names: list[str]) -> None:
    """Give backward ops outside every layer, such as sums of gradients, the layer of the first reader."""
    keras_own, phases = traced.unplanned is None, traced.phases
    index = {op.name: i for i, op in enumerate(traced.ops)}
    for i in reversed(range(len(names))):
        if names[i]:
            continue
        inside = keras_own and "/" in traced.ops[i].name.removeprefix("gradient_tape/")
        if phases[i] is Phase.BACKWARD and not inside:
            readers = (index.get(op.name) for tensor in traced.ops[i].outputs for op in tensor.consumers())
            known = (r for r in readers if r is not None)
            if keras_own:
                later = (r for r in known if names[r] != "optimizer")
            else:
                later = (r for r in known if phases[r] is not Phase.UPDATE)
            names[i] = next((names[r] for r in later), "")
        if keras_own:
            names[i] = names[i] or ("inputs" if phases[i] is Phase.FORWARD else "loss")


def _layer_path(name: str, model_name: str, tree: dict[str, Any]) -> str:
    """Follow the scopes of ``name`` down the tree of layers. TensorFlow makes scopes unique with a suffix
    ``_N``, and Keras numbers its layers the same way. Either all of Keras's scopes carry the suffix or none
    does, so the scope of the model tells which it is."""
    scopes = name.split("/")[:-1]
    if scopes and scopes[0].startswith("gradient_tape"):
        scopes = scopes[1:]
    suffixed = bool(scopes) and scopes[0] != model_name
    if scopes and _SUFFIX.sub("", scopes[0]) in (model_name, scopes[0]):
        scopes = scopes[1:]
    return "/".join(_path_in(scopes, tree, suffixed=suffixed))


def _own_path(scopes: Sequence[str], tree: dict[str, Any], *, suffixed: bool) -> str:
    """Return the longest path of layers along ``scopes``, which may or may not carry suffixes."""
    first, second = (_path_in(scopes, tree, suffixed=each) for each in (suffixed, not suffixed))
    return "/".join(second if len(second) > len(first) else first)


def _path_in(scopes: Sequence[str], tree: dict[str, Any], *, suffixed: bool) -> list[str]:
    path: list[str] = []
    for scope in scopes:
        bare = _SUFFIX.sub("", scope)
        found = next((each for each in ((bare, scope) if suffixed else (scope, bare)) if each in tree), None)
        if found is None and path:
            break
        if found is not None:
            path.append(found)
            tree = tree[found]
    return path


def _layer_tree(model: Any) -> dict[str, Any]:
    return {layer.name: _layer_tree(layer) for layer in _layers_in(model)}


def _layers_in(parent: Any) -> list[Any]:
    """Return the layers of a model, or of a user's layer, whose attribute ``layers`` may be anything."""
    held = getattr(parent, "layers", None)
    held = list(held.values()) if isinstance(held, dict) else held
    if not isinstance(held, (list, tuple)):
        return []
    return [each for each in held if isinstance(each, keras.layers.Layer)]


def _groups_of_variables(variables: Sequence[Any]) -> dict[int, str]:
    return {id(variable.handle): variable.path.rsplit("/", 1)[0] for variable in variables}


def _groups_of_weights(parent: Any, path: str) -> dict[int, str]:
    """Return the layer of each variable, by its handle's identity, as ``_groups_of_variables`` does."""
    found: dict[int, str] = {}
    for layer in _layers_in(parent):
        here = f"{path}/{layer.name}" if path else layer.name
        found |= {id(variable.handle): here for variable in layer.trainable_variables}
        found |= _groups_of_weights(layer, here)
    return found


def _updated_variables(traced: TracedStep, groups: Mapping[int, str]) -> dict[str, str]:
    """Return, by the name of each update op, the layer of the variable that it changes or feeds."""
    inside = {placeholder.name: groups.get(id(external)) for external, placeholder in traced.graph.captures}
    found: dict[str, str] = {}
    updates = [op for op, phase in zip(traced.ops, traced.phases, strict=True) if phase is Phase.UPDATE]
    update_ops = {op.name for op in updates}
    for op in updates:
        group = inside.get(op.inputs[0].name) if op.type.startswith("Assign") and op.inputs else None
        stack = [] if group is None else [op]
        while stack:
            member = stack.pop()
            if member.name in found or member.name not in update_ops:
                continue
            found[member.name] = group or ""
            stack.extend(tensor.op for tensor in member.inputs if tensor.shape.rank)
    return found
