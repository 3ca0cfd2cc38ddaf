"""Certificates: proofs of lower bounds on the peak, written for the independent checker.

A search proves a bound in too many steps to write down. A certificate states the same bound with
steps that a short program can verify (:mod:`optsched.check.certificate`).
Its kinds, from the shortest to the longest:

* *ends*, *op*, *set*: the inputs or outputs alone need the bytes; an op does, shown by a flow;
  or the last (or first) op of a set does;
* *order*: a precedence that the budget implies, shown by a flow; later steps may use it;
* *suppose*: a precedence is supposed and refuted, so its contrary holds;
* *states*: a list of all states that orders within the budget reach, without the final state;
* *regions*, *blocks*: parts of the graph whose order is fixed without loss, for the steps that
  follow.

:func:`certify_peak` tries them from the cheapest on. A certificate that needs only ends, ops, sets
and orders is an *order bound* (short: L2); one that needs more is an *order search* (short: L3).
"""

from __future__ import annotations

from optsched.certificate.effort import CertificateEffort
from optsched.certificate.write import Written, certify_module, certify_peak

__all__ = ["CertificateEffort", "Written", "certify_module", "certify_peak"]
