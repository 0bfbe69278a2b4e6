"""Change one field of a certificate, or several; what the change means is not known here."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

Certificate = dict[str, Any]

ODD: tuple[Any, ...] = (
    None, True, False, "", "1", "infeasible", [], {}, [[]], -1, 0, 0.5, -0.0, 1e308, math.inf, -math.inf,
    math.nan, 2**63, 10**40,
)  # fmt: skip
_ROWS = ("fits", "end", "kept", "runs", "once", "owns", "held", "read")
_FACTORS = (-1.0, 0.0, 0.5, 1 + 1e-9, 2.0, 1e9, 1e-300, 1e300)


def _rows(found: Certificate) -> list[list[Any]]:
    return [row for node in found["proof"] for row in node.get("sum", ())]


def _sums(found: Certificate) -> list[list[Any]]:
    return [node["sum"] for node in found["proof"] if "sum" in node]


def _index(old: Any, dice: Random) -> Any:
    """Return another index: a neighbour, a far one, or none at all."""
    near = [old + step for step in (-1, 1, -2, 2)] if isinstance(old, int) else [0]
    return dice.choice([*near, dice.randrange(20), -dice.randrange(1, 9), 99, dice.choice(ODD)])


def claim(found: Certificate, dice: Random) -> None:
    other = {"infeasible": "cost", "cost": "infeasible"}[found["claim"]]
    found["claim"] = other if dice.random() < 0.7 else dice.choice(ODD)
    if found["claim"] == "cost" and found["cost"] is None:
        found["cost"] = float(dice.randrange(200))


def bound(found: Certificate, dice: Random) -> None:
    cost = found["cost"]
    if cost is None or dice.random() < 0.15:
        found["cost"] = dice.choice(ODD)
        return
    ups = (math.nextafter(cost, math.inf), cost + 1, cost * (1 + 1e-12), cost + 0.5, cost * 2, cost - 1)
    found["cost"] = dice.choice(ups)


def budget(found: Certificate, dice: Random) -> None:
    old = found["budget_bytes"]
    steps = [1, -1, 2, -2, dice.randrange(1, 40), -dice.randrange(1, 40), 10**6]
    found["budget_bytes"] = old + dice.choice(steps) if dice.random() < 0.9 else dice.choice(ODD)


def digest(found: Certificate, dice: Random) -> None:
    old = found["graph_fingerprint"]
    at = dice.randrange(len(old))
    other = old[:at] + dice.choice("0123456789abcdef".replace(old[at], "")) + old[at + 1 :]
    found["graph_fingerprint"] = dice.choice([other, other, old[:-1], old[::-1] + "0", dice.choice(ODD)])


def cuts(found: Certificate, dice: Random) -> None:
    now = found["cuts"]
    match dice.randrange(5):
        case 0 if now:
            now.pop(dice.randrange(len(now)))
        case 1:
            now.insert(dice.randrange(len(now) + 1), dice.randrange(-2, 20))
        case 2 if now:
            at = dice.randrange(len(now))
            now[at] = _index(now[at], dice)
        case 3:
            dice.shuffle(now)
        case _:
            found["cuts"] = dice.choice([dice.choice(ODD), now + now, now[::-1]])


def multipliers(found: Certificate, dice: Random) -> None:
    for row in dice.sample(_rows(found), min(dice.randrange(1, 4), len(_rows(found)))):
        odd = dice.random() < 0.15 or not isinstance(row[-1], int | float)
        row[-1] = dice.choice(ODD) if odd else row[-1] * dice.choice(_FACTORS)


def row_kinds(found: Certificate, dice: Random) -> None:
    if rows := _rows(found):
        dice.choice(rows)[0] = dice.choice([*_ROWS, "", "why", dice.choice(ODD)])


def ops_and_values(found: Certificate, dice: Random) -> None:
    """Change which op, value or interval a row or a case is about."""
    places = [(row, at) for row in _rows(found) for at in range(1, len(row) - 1)]
    places += [(node["set"], at) for node in found["proof"] if "set" in node for at in range(3)]
    if places:
        row, at = dice.choice(places)
        row[at] = _index(row[at], dice) if at else dice.choice("yabz")


def rows(found: Certificate, dice: Random) -> None:
    sums = [entry for entry in _sums(found) if entry]
    if not sums:
        return
    chosen = dice.choice(sums)
    match dice.randrange(4):
        case 0:
            chosen.pop(dice.randrange(len(chosen)))
        case 1:
            chosen += [list(row) for row in chosen]
        case 2:
            chosen += [list(row) for row in dice.choice(sums)]
        case _:
            at = [dice.randrange(-3, 14) for _ in range(dice.randrange(4))]
            chosen.append([dice.choice(_ROWS), *at, 10 ** dice.uniform(-3, 9)])


def cases(found: Certificate, dice: Random) -> None:
    proof = found["proof"]
    at = dice.randrange(len(proof))
    match dice.randrange(6):
        case 0:
            proof.pop(at)
        case 1:
            proof.insert(at, proof[at])
        case 2:
            dice.shuffle(proof)
        case 3:
            del proof[at:]
        case 4:
            unknown = [dice.choice("yab"), dice.randrange(-3, 14), dice.randrange(-2, 6)]
            proof.insert(at, {"set": unknown})
        case _:
            proof[at] = dice.choice([{"sum": []}, {}, dice.choice(ODD)])


def missing(found: Certificate, dice: Random) -> None:
    found.pop(dice.choice(sorted(found)))


FIELDS: dict[str, Callable[[Certificate, Random], None]] = {
    "claim": claim, "bound": bound, "budget": budget, "digest": digest, "cuts": cuts,
    "multipliers": multipliers, "kinds of rows": row_kinds, "ops, values and intervals": ops_and_values,
    "rows": rows, "cases": cases, "a field is missing": missing,
}  # fmt: skip
