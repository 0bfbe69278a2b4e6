"""Find what the layers of a Keras model read and produce.

Three attributes are private to Keras (``_keras_history``, ``_inbound_nodes``, ``_outbound_nodes``). They are
used here only; ``tests/tf/loading/test_keras_graph.py`` fails loudly if a release changes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras


def walk_layers(root: Any) -> Iterator[Any]:
    """Yield ``root`` and every layer held inside it, at any depth, each once."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, (list, tuple, set)):
            stack.extend(item)
        elif isinstance(item, keras.layers.Layer) and id(item) not in seen:
            seen.add(id(item))
            yield item
            stack.extend(vars(item).values())


def forget_unused(model: Any) -> bool:
    """Let go of the layers that ``model`` does not use; return whether any. A layer knows every layer that
    reads it. So a network on an inner layer of another one, such as a U-Net on VGG16, keeps the other's
    remaining layers and weights in memory."""
    layers = list(walk_layers(model))
    used = {id(each) for layer in layers for each in (layer, *getattr(layer, "operations", ()))}
    found = False
    for layer in layers:
        nodes = getattr(layer, "_outbound_nodes", [])
        kept = [node for node in nodes if id(node.operation) in used]
        if len(kept) < len(nodes):
            layer._outbound_nodes, found = kept, True
    return found


def inputs_of(model: Any) -> list[Any]:
    return list(getattr(model, "inputs", None) or [])


def outputs_of(model: Any) -> list[Any]:
    return list(getattr(model, "outputs", None) or []) if inputs_of(model) else []


def input_structure(model: Any) -> Any:
    """Return the symbolic inputs as the model's call takes them. A sequential model has one."""
    return inputs_of(model)[0] if isinstance(model, keras.Sequential) else model.input


def output_structure(model: Any) -> Any:
    """Return the symbolic outputs in the structure they were given in. A sequential model has one."""
    return outputs_of(model)[0] if isinstance(model, keras.Sequential) else model.output


def producer(tensor: Any) -> Any:
    """Return the operation that makes a symbolic tensor, in nested models too."""
    operation, _, index = tensor._keras_history
    inner = outputs_of(operation) if isinstance(operation, keras.Model) else []
    return producer(inner[index]) if inner else operation


def readers(model: Any, tensor: Any) -> Iterator[Any]:
    """Yield the operations that read the symbolic ``tensor``, in nested models too."""
    for operation in getattr(model, "operations", None) or model.layers:
        for node in operation._inbound_nodes:
            for position, read in enumerate(node.input_tensors):
                if read is not tensor:
                    continue
                inner = inputs_of(operation) if isinstance(operation, keras.Model) else []
                if position < len(inner):
                    yield from readers(operation, inner[position])
                else:
                    yield operation


def calls(model: Any) -> list[tuple[Any, list[Any], list[Any]]]:
    """Return every call in a model as (operation, tensors read, tensors made), in a valid order, without
    inputs."""
    found: list[tuple[Any, list[Any], list[Any]]] = []
    done = {id(tensor) for tensor in inputs_of(model)}
    stack = [(tensor, False) for tensor in reversed(outputs_of(model))]
    while stack:
        tensor, ready = stack.pop()
        if id(tensor) in done:
            continue
        operation, index, _ = tensor._keras_history
        node = operation._inbound_nodes[index]
        if ready:
            done.update(id(made) for made in node.outputs)
            found.append((operation, list(node.input_tensors), list(node.outputs)))
        else:
            stack.append((tensor, True))
            stack.extend((read, False) for read in reversed(node.input_tensors))
    return found
