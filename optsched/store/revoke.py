"""Proofs that are withdrawn by rule, where an engine turned out to be wrong.

A rule names a version of a package and, if need be, a kind of proof: `optsched<0.2`,
`ortools==9.12:L6`. It concerns bounds that rest on the word of an engine; where a certificate is
kept the checker has looked at every step, and no engine is believed. A rule stays in the store, so
that what it withdrew does not come back out of another one; what an engine proves from then on
counts.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from optsched.errors import UsageError
from optsched.runtime.limits import Objective, Proof
from optsched.store import rows
from optsched.store.database import PlanStore
from optsched.store.open_record import OpenRecord
from optsched.store.question import Bound

_RELATIONS: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "==": operator.eq,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_RULE = re.compile(r"([A-Za-z][\w.-]*)(==|<=|>=|<|>)(\d+(?:\.\d+)*)(?::(\w+))?")


@dataclass(frozen=True, slots=True)
class Rule:
    """Which bounds are meant.

    Parameters
    ----------
    package, relation, version
        A bound is meant if it was proved with such a version of the package.
    proof
        And if this stands behind it; empty for any.
    """

    package: str
    relation: str
    version: tuple[int, ...]
    proof: str = ""

    def __str__(self) -> str:
        version = ".".join(map(str, self.version)) or "0"
        return f"{self.package}{self.relation}{version}" + (f":{self.proof}" if self.proof else "")


def read_rule(text: str) -> Rule:
    """Return the rule that a text says.

    Raises
    ------
    UsageError
        If it says none.
    """
    found = _RULE.fullmatch(text.replace(" ", ""))
    if found is None or (found[4] and found[4] not in list(Proof)):
        raise UsageError(
            f"{text!r} is no rule: write PACKAGE<VERSION (or ==, <=, >, >=), and :KIND behind it "
            f"for one kind of proof, of {', '.join(Proof)}"
        )
    return Rule(found[1], found[2], _version(found[3]), found[4] or "")


def is_meant(rule: Rule, bound: Bound) -> bool:
    """Whether a rule concerns a bound; one of unknown origin it does."""
    if bound.certified or (rule.proof and rule.proof != bound.proof):
        return False
    versions = bound.provenance.get("versions")
    said = versions.get(rule.package) if isinstance(versions, dict) else None
    if not isinstance(said, str):
        return rule.package == "optsched"
    return _RELATIONS[rule.relation](_version(said), rule.version)


def _version(text: str) -> tuple[int, ...]:
    """Return the numbers a version begins with, without zeros at its end: 1.0 is 1."""
    numbers = [int(part) for part in re.findall(r"\d{1,9}", re.split(r"[^\d.]", text)[0])]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def revoke(store: PlanStore, rule: Rule) -> int:
    """Withdraw all bounds that a rule means; return how many.

    They stay in the store, with the reason; the history of their records tells of it. What a search
    of such a version left behind is forgotten, for it may rest on the same error.
    """
    why, count = f"revoked: {rule}", 0
    with store.writing() as connection:
        connection.execute("INSERT OR IGNORE INTO revocations (rule) VALUES (?)", (str(rule),))
        for (record,) in connection.execute("SELECT id FROM records").fetchall():
            opened = OpenRecord(connection, record)
            count += len(opened.withdraw(lambda bound: is_meant(rule, bound), why))
        query = "SELECT record, provenance FROM searches"
        for record, origin in connection.execute(query).fetchall():
            made = Bound(Objective.PEAK, 0, rule.proof, provenance=rows.read_provenance(origin))
            if is_meant(rule, made):
                connection.execute("DELETE FROM searches WHERE record = ?", (record,))
    return count
