"""Withdrawal of proofs by rules, after an engine turned out to be wrong.

A rule names versions of a package and optionally a kind of proof by its short code:
`optsched<0.2`, or `ortools==9.12:L6` (joint search). It selects bounds that rest on the result of
an engine alone; a bound with a certificate does not, as the checker has verified every step. A rule
stays in the store, so that a withdrawn bound does not return from another store; bounds that an
engine proves afterwards count again.
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
    """A rule that selects bounds to withdraw."""

    package: str
    relation: str
    version: tuple[int, ...]
    """`package`, `relation` and `version`: a bound is meant if it was proved with such a version of
    the package."""
    proof: str = ""
    """Kind of proof of the bound; empty for any."""

    def __str__(self) -> str:
        version = ".".join(map(str, self.version)) or "0"
        return f"{self.package}{self.relation}{version}" + (f":{self.proof}" if self.proof else "")


def read_rule(text: str) -> Rule:
    """Return the rule that a text describes.

    Raise `UsageError` if the text is not a rule.
    """
    found = _RULE.fullmatch(text.replace(" ", ""))
    if found is None or (found[4] and found[4] not in list(Proof)):
        raise UsageError(
            f"{text!r} is not a rule: write PACKAGE<VERSION (or ==, <=, >, >=), then :KIND if only "
            f"one kind of proof is meant, one of {', '.join(Proof)}"
        )
    return Rule(found[1], found[2], _version(found[3]), found[4] or "")


def is_meant(rule: Rule, bound: Bound) -> bool:
    """Return True if a rule selects a bound; a bound of unknown origin is always selected."""
    # The checker has verified every step of a certificate: the engine's error does not matter.
    if bound.certified or (rule.proof and rule.proof != bound.proof):
        return False
    versions = bound.provenance.get("versions")
    said = versions.get(rule.package) if isinstance(versions, dict) else None
    # Origin unknown: only a rule about optsched itself can mean it.
    if not isinstance(said, str):
        return rule.package == "optsched"
    return _RELATIONS[rule.relation](_version(said), rule.version)


def _version(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, without trailing zeros: 1.0 is 1."""
    # Nine digits suffice for every version, and a longer number is refused cheaply.
    numbers = [int(part) for part in re.findall(r"\d{1,9}", re.split(r"[^\d.]", text)[0])]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def revoke(store: PlanStore, rule: Rule) -> int:
    """Withdraw all bounds that a rule selects; return their number.

    They stay in the store with the reason, which the history of their records shows. The state of a
    search of such a version is deleted, as it may rest on the same error.
    """
    why, count = f"revoked: {rule}", 0
    with store.writing() as connection:
        connection.execute("INSERT OR IGNORE INTO revocations (rule) VALUES (?)", (str(rule),))
        for (record,) in connection.execute("SELECT id FROM records").fetchall():
            opened = OpenRecord(connection, record)
            count += len(opened.withdraw(lambda bound: is_meant(rule, bound), why))
        query = "SELECT record, provenance FROM searches"
        for record, origin in connection.execute(query).fetchall():
            # A search state has no kind of proof, so a rule for one kind selects it as well.
            made = Bound(Objective.PEAK, 0, rule.proof, provenance=rows.read_provenance(origin))
            if is_meant(rule, made):
                connection.execute("DELETE FROM searches WHERE record = ?", (record,))
    return count
