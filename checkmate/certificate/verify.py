"""Check a certificate: a proof that no schedule costs less, or none fits.

``python verify.py GRAPH.json CERTIFICATE.json`` needs Python alone. It shares no code with any solver.
Take *cuts*: ops j_0, …, j_(K-1), each an ancestor of the next. In every schedule they run for the first time
in this order, so these moments end the intervals 0, …, K-1; interval K is the rest. Let y(o, k) be 1 if op o
runs in interval k, and a(v, k) be 1 if value v is in memory while j_k runs for the first time.
``CutRows.row`` lists what holds then for every schedule within the budget, in any order. The cost is at
least the sum of cost(o) y(o, k).

Any rows times numbers >= 0, added up, hold too. The least cost under that one sum, with every unknown between
0 and 1, is a bound, wherever the numbers come from. Where one sum does not prove enough, an unknown is set
to 0, then to 1, and each case is proved by itself. All sums are exact.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

Var = tuple[str, int, int]
Row = tuple[int, list[tuple[Var, int]]]  # sum of factor * unknown >= the first number


class InvalidCertificateError(Exception):
    """The certificate does not prove what it claims."""


def exact(number: Any) -> Fraction:
    """A number of a JSON file as it stands, without rounding."""
    if not isinstance(number, (int, float)):
        raise TypeError(f"{number!r} is no number")
    return Fraction(number)


def digest(graph: dict[str, Any]) -> str:
    """A hash of a graph's structure and sizes."""
    texts = [f"checkmate-graph-1{int(graph.get('fixed_bytes', 0))}"]
    for op in graph["ops"]:
        lists = [tuple(op["inputs"]), tuple(op["outputs"]), tuple(map(tuple, op.get("takes_over", ())))]
        words = [op.get("type", ""), op.get("phase", "forward"), int(op.get("workspace_bytes", 0))]
        texts.append(repr(tuple(map(str, [*words, op.get("recomputable", True), *lists]))))
    texts += [repr((int(v["bytes"]), v.get("keep", False), v.get("alias_of"))) for v in graph["values"]]
    return f"sha256:{hashlib.sha256(''.join(texts).encode()).hexdigest()}"


class CutRows:
    """What holds for every schedule of a graph within a budget."""

    def __init__(self, graph: dict[str, Any], budget_bytes: int, cuts: list[int]) -> None:  # cuts: ops
        self.ops, self.values, self.cuts = graph["ops"], graph["values"], cuts
        self.room = budget_bytes - graph.get("fixed_bytes", 0)
        self.producer = {v: o for o, op in enumerate(self.ops) for v in op["outputs"]}
        before: list[int] = []  # of each op, the ops that must run earlier, as bits
        for op in self.ops:
            before.append(0)
            for maker in {self.producer[v] for v in op["inputs"] if v in self.producer}:
                before[-1] |= before[maker] | 1 << maker
        if any(not before[b] >> a & 1 for a, b in pairwise(cuts)):
            raise InvalidCertificateError("a cut is no ancestor of the next one")
        # An op's first run is in no interval before `first`, and in none after `by`.
        self.first = [max((k + 1 for k, j in enumerate(cuts) if mask >> j & 1), default=0) for mask in before]
        self.by = [len(cuts)] * len(before)
        for k, cut in reversed(list(enumerate(cuts))):
            until = before[cut] | 1 << cut
            self.by = [k if until >> op & 1 else by for op, by in enumerate(self.by)]
        self.sure = [("y", o, k) for o, k in enumerate(self.first) if k == self.by[o]]  # these are 1
        self.sharing: dict[int, list[int]] = {}  # the values in each counted buffer
        for value in (v for v in self.producer if self.owner(v) in self.producer):
            self.sharing.setdefault(self.owner(value), []).append(value)

    def owner(self, value: int) -> int:
        path = [value]
        while (above := self.values[path[-1]].get("alias_of")) is not None:
            if above in path:
                raise InvalidCertificateError("values are aliases of each other, in a circle")
            path.append(above)
        return path[-1]

    def box(self, var: Var) -> tuple[int, int]:
        """The least and the greatest that an unknown can be."""
        kind, i, k = var
        if kind == "y":
            late = k > self.by[i] and not self.ops[i].get("recomputable", True)
            return int(k == self.first[i] == self.by[i]), int(k >= self.first[i] and not late)
        if kind == "a" and i in (*self.ops[self.cuts[k]]["inputs"], *self.ops[self.cuts[k]]["outputs"]):
            return 1, 1
        return (0, 0) if kind == "a" and self.first[self.producer[i]] > k else (0, 1)

    def buffer(self, owner: int, k: int) -> Var:
        return ("b", owner, k) if len(self.sharing[owner]) > 1 else ("a", self.sharing[owner][0], k)

    def row(self, kind: str, *at: int) -> Row:
        if min(at, default=0) < 0:
            raise InvalidCertificateError("a row's name has a negative number")

        def there(value: int, k: int) -> list[tuple[Var, int]]:  # made in interval k, or in memory at j_(k-1)
            return [(("y", self.producer[value], k), 1), *([(("a", value, k - 1), 1)] if k else [])]

        if kind == "read" and at[2] in self.ops[at[0]]["inputs"]:  # an op that runs has its input there
            op, k, value = at
            return 0, [*there(value, k), (("y", op, k), -1)]
        if kind == "held":  # what is in memory at j_k was made since j_(k-1), or in memory then
            return 0, [*there(at[0], at[1]), (("a", at[0], at[1]), -1)]
        if kind == "kept" and self.values[at[0]].get("keep"):  # it is in memory at the end
            return 1, there(at[0], len(self.cuts))
        if kind == "runs":  # each op runs, before the first cut that needs it
            return 1, [(("y", at[0], k), 1) for k in range(self.by[at[0]] + 1)]
        if kind == "once" and not self.ops[at[0]].get("recomputable", True):
            return -1, [(("y", at[0], k), -1) for k in range(len(self.cuts) + 1)]
        if kind == "owns":  # a buffer is in memory if a value in it is
            return 0, [(self.buffer(self.owner(at[0]), at[1]), 1), (("a", at[0], at[1]), -1)]
        if kind == "fits":  # what is in memory at j_k fits
            size = {owner: self.values[owner]["bytes"] for owner in self.sharing}
            cut = self.ops[self.cuts[at[0]]]
            room = self.room - cut.get("workspace_bytes", 0)
            pairs = {(self.owner(value), output) for output, value in cut.get("takes_over", ())}
            for same in set(size.values()):  # an output takes over one buffer of its size at most
                taken = [(a, b) for a, b in pairs if same == size.get(a) == size.get(self.owner(b))]
                room += same * min(len({old for old, _ in taken}), len({new for _, new in taken}))
            return -room, [(self.buffer(owner, at[0]), -size[owner]) for owner in size]
        if kind == "end":  # what is kept fits
            kept = {self.owner(v) for v in self.producer if self.values[v].get("keep")} & set(self.producer)
            return sum(self.values[v]["bytes"] for v in kept) - self.room, []
        raise InvalidCertificateError(f"there is no row {kind} {at}")


def least(rows: CutRows, numbers: list[list[Any]], fixed: dict[Var, int], costs: list[Fraction]) -> Fraction:
    """The least cost under a sum of rows, with unknowns ``fixed``."""
    times = [exact(number) for *_, number in numbers]  # each is a row's name and its number
    if any(number < 0 for number in times):
        raise InvalidCertificateError("a number is negative")
    unit = math.lcm(*(number.denominator for number in (*times, *costs)))  # whole numbers are quick
    total, factor = 0, dict.fromkeys([*rows.sure, *(var for var in fixed if fixed[var])], 0)
    for (*name, _), number in zip(numbers, times, strict=True):
        low, terms = rows.row(*name)
        whole = number.numerator * (unit // number.denominator)
        total += whole * low
        for var, entry in terms:
            factor[var] = factor.get(var, 0) - whole * entry
    for var, value in factor.items():
        ends = rows.box(var)
        if var in fixed and not ends[0] <= fixed[var] <= ends[1]:
            return sum(costs, Fraction(1)) * (len(rows.cuts) + 2)  # nothing is like this: above every cost
        if var[0] == "y":
            value += costs[var[1]].numerator * (unit // costs[var[1]].denominator)
        total += min(value * end for end in ([fixed[var]] if var in fixed else ends))
    return Fraction(total, unit)


def verify(graph: dict[str, Any], certificate: dict[str, Any]) -> Fraction | None:
    """Return the cost that is proved to be the least; None: no schedule fits.

    ``graph`` and ``certificate`` are the contents of their files. In the proof, ``sum`` proves a case;
    ``set`` names an unknown, and what follows proves the case that it is 0, then that it is 1.
    """
    try:
        if certificate["graph_fingerprint"] not in (own := digest(graph), graph.get("fingerprint") or own):
            raise InvalidCertificateError("the certificate is for another graph")
        if certificate["claim"] not in ("cost", "infeasible"):
            raise InvalidCertificateError("the claim is neither 'cost' nor 'infeasible'")
        impossible = certificate["claim"] == "infeasible"
        costs = [exact(0 if impossible else op["cost"]) for op in graph["ops"]]
        rows = CutRows(graph, int(certificate["budget_bytes"]), certificate["cuts"])
        claimed = exact(0 if impossible else certificate["cost"])
        whole = all(cost.denominator == 1 for cost in costs)  # then every schedule's cost is a whole number
        waiting: list[dict[Var, int]] = [{}]
        for node in certificate["proof"]:
            fixed = waiting.pop()
            if "set" in node:
                kind, i, k = node["set"]
                waiting += [{**fixed, (kind, i, k): 1}, {**fixed, (kind, i, k): 0}]
                continue
            found = least(rows, node["sum"], fixed, costs)
            if (math.ceil(found) if whole else found) < claimed or (impossible and found <= 0):
                raise InvalidCertificateError(f"a case proves {float(found)} only")
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InvalidCertificateError(f"the certificate cannot be read: {error!r}") from error
    if waiting:
        raise InvalidCertificateError("cases are missing")
    return None if impossible else claimed


if __name__ == "__main__":
    try:
        files = [Path(name).read_bytes() for name in sys.argv[1:3]]
        proved = verify(*(json.loads(gzip.decompress(f) if f[:2] == b"\x1f\x8b" else f) for f in files))
    except Exception as error:  # whatever the files hold, one sentence says why nothing is proved
        sys.exit(f"nothing is proved: {error}")
    sys.stdout.write(f"no schedule {'fits' if proved is None else f'costs less than {float(proved)}'}\n")
