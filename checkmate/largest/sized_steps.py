"""A training step at any size of its input: of a network of the paper, or of an image model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from checkmate import planning
from checkmate.errors import UsageError
from checkmate.graphs.by_name import is_graph_file
from checkmate.graphs.layers import training_graph
from checkmate.graphs.paper import find_network, is_paper_name
from checkmate.ir import Graph
from checkmate.largest.scaling import with_fixed_bytes
from checkmate.progress import Cancelled, Report
from checkmate.request import ModelRequest

Size = tuple[int, int]  # height, width
STEP = 32  # pixels
USUAL_SHAPE = (224, 224, 3)
_BATCH = 32


def size_at(level: int, aspect: Size) -> Size:
    height, width = aspect
    return STEP * level, STEP * max(1, round(level * width / height))


class SizedStep(ABC):
    """``aspect``: the proportion of height and width."""

    aspect: Size

    @abstractmethod
    def at(self, size: Size) -> Graph: ...


class PaperStep(SizedStep):
    def __init__(self, name: str, batch: int, fixed_bytes: int | None) -> None:
        self._network, self._batch, self._fixed = find_network(name), batch, fixed_bytes
        self.aspect = self._network.size[0], self._network.size[1]

    def at(self, size: Size) -> Graph:
        network = self._network.network((*size, self._network.size[2]))
        return with_fixed_bytes(training_graph(network, self._batch), self._fixed)


class ModelStep(SizedStep):
    """A step that is traced, once for each size."""

    def __init__(
        self,
        request: ModelRequest,
        batch: int,
        fixed_bytes: int | None,
        report: Report,
        cancelled: Cancelled,
    ) -> None:
        height, width, self._channels = request.input_shape or USUAL_SHAPE
        self.aspect = height, width
        self._request, self._fixed = replace(request, batch_size=batch), fixed_bytes
        self._report, self._cancelled = report, cancelled
        self._traced: dict[Size, Graph] = {}

    def at(self, size: Size) -> Graph:
        if size not in self._traced:
            request = replace(self._request, input_shape=(*size, self._channels))
            graph = planning.profile(
                request, costs="analytic", report=self._report, cancelled=self._cancelled
            )
            self._traced[size] = with_fixed_bytes(graph, self._fixed)
        return self._traced[size]


def sized_step(
    request: ModelRequest,
    batch: int | None,
    fixed_bytes: int | None,
    report: Report,
    cancelled: Cancelled,
) -> SizedStep:
    """Raise UsageError for a graph file, whose sizes cannot be changed, or where the input is no image."""
    if is_graph_file(request.model):
        raise UsageError(
            f"{request.model} is a graph file, and has sizes for one input only",
            hint="name a model, or a network of the paper: paper.unet",
        )
    if is_paper_name(request.model):
        return PaperStep(request.model, batch or _BATCH, fixed_bytes)
    if len(request.input_shape or USUAL_SHAPE) != 3:
        raise UsageError(
            "only the input of an image network can grow",
            hint='give height, width and channels, e.g. input_shape="224,224,3"',
        )
    return ModelStep(request, batch or _BATCH, fixed_bytes, report, cancelled)
