"""A kick: leave out a recomputation that saves much, and fit the rest.

The sequence is fitted into the budget again without dropping the same value. All that only the recomputation
needed goes with it. So a value is held through a long stretch, and greedy decides again what goes instead. If
it were allowed to, it would drop the same again in a third to half of all kicks. Moves of one step each
rarely get there: the steps between cost more than both ends. (Ruin and recreate, as in Schrimpf et al.,
Record breaking optimization results using the ruin and recreate principle, 2000.)
"""

from __future__ import annotations

from checkmate.solvers.compile.jit import kernel, part
from checkmate.solvers.sequence.edit import undo
from checkmate.solvers.sequence.fit_budget import FITS, Scores, fit
from checkmate.solvers.sequence.model import Model
from checkmate.solvers.sequence.moves import RATE, drop_step
from checkmate.solvers.sequence.state import COST, EXCESS, HELD, JOURNAL, OP, PREV, SEQ, STEPS, State, random

_NOISE = 0.3  # each candidate's score is random by this share, so that greedy decides otherwise each time
_SAMPLE = 16  # recomputations from which one is chosen
_TRIES = 4  # random picks per recomputation wanted


@part
def leave_out(g: Model, s: State) -> bool:
    """Leave one of a few random recomputations out.

    The more it saves, the likelier it is chosen. Its op is then ``HELD``. Returns False if there is none.
    """
    total, picked = 0.0, -1
    wanted = _SAMPLE
    for _ in range(_SAMPLE * _TRIES):
        if wanted == 0:
            break
        place = int(random(s) * (s.num[STEPS] - 1))
        if s.occ[PREV, s.occ[SEQ, place]] < 0:
            continue
        wanted -= 1
        s.num[JOURNAL] = 0
        excess, cost = s.real[EXCESS], s.real[COST]
        saved = cost - s.real[COST] if drop_step(g, s, s.occ[SEQ, place]) else 0.0
        undo(g, s)
        s.real[EXCESS], s.real[COST] = excess, cost
        total += saved
        if random(s) * total < saved:
            picked = place
    s.num[JOURNAL] = 0
    if picked < 0:
        return False
    x = s.occ[SEQ, picked]
    s.num[HELD] = s.occ[OP, x]
    return drop_step(g, s, x)


@kernel
def kick(g: Model, s: State, r: Scores, trials: int, least: float, further: float) -> bool:
    """Leave a recomputation out and fit the rest; return whether it fits.

    At most ``trials`` drops are tried. ``r`` is used up. ``least``, ``further``: see ``fit``. The price of
    excess stays as it was.
    """
    if not leave_out(g, s):
        s.num[HELD] = -1
        return False
    rate = s.real[RATE]
    s.real[RATE] = 0.1 * s.real[COST] / max(s.real[EXCESS], 1.0)
    outcome = fit(g, s, r, trials, least, further, _NOISE)
    s.real[RATE], s.num[HELD] = rate, -1
    return outcome == FITS
