"""Why is the peak this high? The op that forces it, the buffers live then, and what would help.

The answer is the simplest one known. The witness of the closure bound: an op and a state in which
exactly the bound's bytes are live while the op runs; in every other state in which it may run there
are at least as many. Where that is less than the proved least peak, a set of ops of which the last
or first forces as much; or precedences that every order below would have to keep, up to an op that
does not fit with them; else, that all orders below were searched, and what the best one has live.
"""

from __future__ import annotations

from optsched.explanation.data import Explanation
from optsched.explanation.reasons import explain, explain_op
from optsched.explanation.words import Reason

__all__ = ["Explanation", "Reason", "explain", "explain_op"]
