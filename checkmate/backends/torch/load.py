"""Load the module that ``file.py:function`` returns, and trace its training step."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from checkmate.backends.torch.dynamo import backend_by, joint_of
from checkmate.backends.torch.graph import Region, region_of
from checkmate.errors import CheckmateError, LoadError, TraceError, UsageError
from checkmate.ir import Graph
from checkmate.models.error_text import first_line
from checkmate.models.run_code import kind_of, run_function
from checkmate.request import ModelRequest

_WANTED = (
    "return (module, example inputs), or (module, example inputs, loss), loss being a function of its output"
)


@dataclass(frozen=True, eq=False)
class LoadedModule:
    """``inputs``: of one call. ``sized``: its function took the batch size."""

    name: str
    module: torch.nn.Module
    inputs: tuple[Any, ...]
    loss: Callable[[Any], Any] | None
    sized: bool


@dataclass(frozen=True, eq=False)
class Traced:
    """A region, its inputs and their ``names``: paths in the module, or ``input 0`` and so on for the batch.
    ``notes``: sentences for the report on the parts of the step outside of the region."""

    region: Region
    inputs: tuple[Any, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]


def load_module(request: ModelRequest) -> LoadedModule:
    """Return what the user's function returns.

    Raises:
        LoadError: it does not return a module with its inputs. UsageError: an option does not fit.
    """
    _refuse_options(request)
    found, sized = run_function(request)
    name = request.model.rpartition(":")[2]
    if isinstance(found, torch.nn.Module):
        raise LoadError(f"{request.model} returned a module without example inputs", hint=_WANTED)
    if not isinstance(found, tuple) or len(found) not in (2, 3) or not isinstance(found[0], torch.nn.Module):
        raise LoadError(f"{request.model} returned {kind_of(found)}, not a module with inputs", hint=_WANTED)
    module, inputs, loss = (*found, None)[:3]
    if loss is not None and not callable(loss):
        raise LoadError(f"the loss of {request.model} is {kind_of(loss)}, not a function", hint=_WANTED)
    given = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    if request.batch_chosen and not sized:
        raise UsageError(
            f"{request.model} makes inputs of one batch size",
            hint=f"leave the batch size out, or let {name} take it: def {name}(batch_size)",
        )
    return LoadedModule(name, module, given, loss, sized)


def _refuse_options(request: ModelRequest) -> None:
    given = {
        "loss": request.loss,
        "optimizer": request.optimizer,
        "input shape": request.input_shape,
        "precision": request.mixed_precision,
        "device": request.device,
        "target": request.target,
    }
    for what, value in given.items():
        if value is not None:
            raise UsageError(
                f"the {what} {value} cannot change a PyTorch step, which brings its own",
                hint=f"change it in {request.model.rpartition(':')[0]}",
            )


class _Step(torch.nn.Module):  # type: ignore[misc]  # PyTorch's types are not read
    def __init__(self, loaded: LoadedModule) -> None:
        super().__init__()
        self.module, self._loss = loaded.module, loaded.loss

    def forward(self, *inputs: Any) -> Any:
        output = self.module(*inputs)
        return output if self._loss is None else self._loss(output)


def traced(loaded: LoadedModule) -> Traced:
    """Return the region of the module's step. Of several, it is the one that holds most.

    Raises:
        TraceError: the step fails, ``torch.compile`` traces none of it, or it has no gradients.
    """
    found: list[tuple[Region, Sequence[Any]]] = []
    refused: list[CheckmateError] = []

    def note(module: fx.GraphModule, outputs: int, inputs: Sequence[Any]) -> None:
        try:
            found.append((region_of(joint_of(module, outputs, inputs), loaded.name), inputs))
        except CheckmateError as error:
            refused.append(error)

    step = torch.compile(_Step(loaded), backend=backend_by(note), dynamic=False)
    state = {name: each.clone() for name, each in loaded.module.named_buffers()}
    try:
        with redirect_stdout(sys.stderr), _without_logs():
            step(*loaded.inputs)
    except Exception as error:  # foreign code: the module and the loss
        raise _failed(loaded, error) from error
    for name, each in loaded.module.named_buffers():
        each.copy_(state[name])
    if not found:
        raise refused[0] if refused else _no_region(loaded)
    region, inputs = max(found, key=lambda each: sum(value.bytes for value in each[0].graph.values))
    region = region.with_graph(_named_as_given(region.graph))
    return Traced(region, tuple(inputs), _names(loaded, inputs), _regions_note(len(found)))


def _named_as_given(graph: Graph) -> Graph:
    """Name modules from the user's own one on, not from the step around it."""
    own = [path.removeprefix("module.") for path in graph.origin.modules if path.startswith("module.")]
    ops = tuple(replace(op, group=op.group.removeprefix("module.")) for op in graph.ops)
    return replace(graph, ops=ops, metadata={**graph.metadata, "modules": own})


@contextmanager
def _without_logs() -> Iterator[None]:
    """Keep PyTorch from logging the traceback of what it raises as well."""
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _failed(loaded: LoadedModule, traced: Exception) -> TraceError:
    """Return the error of the step itself, if it fails untraced too: PyTorch's own is clearer."""
    hint = "run one step without checkmate first"
    try:
        with torch.no_grad(), redirect_stdout(sys.stderr):
            _Step(loaded)(*loaded.inputs)
    except Exception as error:
        return TraceError(f"the step of {loaded.name!r} fails: {first_line(error)}", hint=hint)
    return TraceError(f"the step of {loaded.name!r} could not be traced: {first_line(traced)}", hint=hint)


def _no_region(loaded: LoadedModule) -> TraceError:
    if not any(each.requires_grad for each in loaded.module.parameters()):
        return TraceError(
            f"no parameter of {loaded.name!r} needs a gradient", hint="set requires_grad where it is made"
        )
    told = torch._dynamo.explain(_Step(loaded))(*loaded.inputs)
    why = told.break_reasons[0].reason.splitlines()[0] if told.break_reasons else "PyTorch says no reason"
    return TraceError(
        f"torch.compile traces nothing of {loaded.name!r} that has gradients: {why}",
        hint="see torch._dynamo.explain(module)(*inputs)",
    )


def _regions_note(count: int) -> tuple[str, ...]:
    if count == 1:
        return ()
    return (
        f"torch.compile traced {count} regions: this is the one that holds most; "
        "torch._dynamo.explain(module)(*inputs) says what separates them",
    )


def _names(loaded: LoadedModule, inputs: Sequence[Any]) -> tuple[str, ...]:
    known = {id(each): name for name, each in loaded.module.named_parameters()}
    known |= {id(each): name for name, each in loaded.module.named_buffers()}
    known |= {id(each): f"input {place}" for place, each in enumerate(tree_leaves(loaded.inputs))}
    return tuple(known.get(id(each), f"value {place}") for place, each in enumerate(inputs))
