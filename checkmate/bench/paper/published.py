"""List the figures of the Checkmate paper.

They are approximation ratios and largest batches, with notes on why ours may differ. Jain et al.: Checkmate:
Breaking the Memory Wall with Optimal Tensor Rematerialization, MLSys 2020 (arXiv 1910.02653): the table of
approximation ratios (geometric mean of a strategy's cost over the optimal one's, over the budgets at which it
has a schedule) and the figure of largest batches (16 GB, at most one extra forward pass, operation counts as
costs).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

BUDGET_BYTES = 16 * 10**9  # the device of the published batches
STRATEGIES = (
    "lp-rounding",
    "chen-sqrt-ap",
    "chen-greedy-ap",
    "griewank",
)  # solvers here of which the paper publishes ratios
HOURS = "10 minutes to 2 days of Gurobi on 24 cores and more"


@dataclass(frozen=True)
class PaperFigures:
    """Hold the paper's figures for one network.

    ``ratios``: by our solver's name. ``batch_bound``: the program's solution was not proved the largest.
    """

    ratios: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    batch: int | None = None
    batch_bound: bool = False
    note: str = ""

    @property
    def batch_text(self) -> str:
        """Return ``289``, ``≥ 193`` or nothing."""
        if self.batch is None:
            return ""
        return f"{'≥ ' if self.batch_bound else ''}{self.batch}"


def _ratios(
    rounding: float, sqrt_ap: float, greedy_ap: float, griewank: float | None = None
) -> Mapping[str, float]:
    found = dict(zip(STRATEGIES, (rounding, sqrt_ap, greedy_ap, griewank), strict=True))
    return MappingProxyType({name: ratio for name, ratio in found.items() if ratio is not None})


_ENCODER = (
    "the paper does not say which encoder it has; with the plain one, the paper's number is the op limit (a "
    "real number), rounded to a whole batch, and that batch does not fit"
)

FIGURES: Mapping[str, PaperFigures] = MappingProxyType(
    {
        "mobilenet": PaperFigures(_ratios(1.06, 1.14, 1.07, 7.07), 1105),
        "vgg16": PaperFigures(_ratios(1.01, 1.28, 1.06, 1.44)),
        "vgg19": PaperFigures(_ratios(1.00, 1.54, 1.39, 1.75), 289),
        "unet": PaperFigures(_ratios(1.03, 1.27, 1.23), 61),
        "resnet50": PaperFigures(_ratios(1.05, 1.20, 1.25), 193, batch_bound=True),
        "fcn8": PaperFigures(batch=60, batch_bound=True, note=_ENCODER),
        "fcn8_plain": PaperFigures(batch=60, batch_bound=True, note=_ENCODER),
        "segnet": PaperFigures(batch=62, batch_bound=True, note=_ENCODER),
        "segnet_plain": PaperFigures(batch=62, batch_bound=True, note=_ENCODER),
        "densenet161": PaperFigures(note="the paper's program found nothing in a day"),
    }
)

NOTES = (
    "Ratios: a strategy's cost divided by the least cost known at that budget. It is the geometric mean over "
    "the budgets at which the strategy has a schedule; their number is in brackets. The paper divides by its "
    "program's optimum in the given order. Another order can cost less. The paper does not print its "
    "budgets, and its costs may be those of a GPU, so digits may differ for these reasons alone.",
    "Memory is counted as in this project: a value lives from when it is made to its last use. The paper's "
    "program keeps an output that nobody reads to the end of its stage, and runs the ops in the given order. "
    "So it can only need more.",
    "Batches: parameters and their gradients are fixed (8 bytes a parameter). The input is not counted, as "
    f"in the paper's program. Extrapolation is exact. The paper's batches took {HOURS}, with the batch as a "
    "real number.",
)


def figures_of(model: str) -> PaperFigures:
    """Return what the paper reports for the network ``model``.

    The name is without ``paper.``. The figures are empty where nothing is reported.
    """
    return FIGURES.get(model, PaperFigures())
