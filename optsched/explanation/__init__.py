"""Explanation of a minimum peak: the op that forces it, the live buffers, and helpful changes.

The answer is the simplest reason known, in this sequence:

1. The closure bound of one op: a state in which exactly the bound's bytes are live while the op
   runs. In every other state in which the op can run, at least as many are live.
2. A set of ops: one of them must run last (or first), and whichever it is, it forces the bound.
3. Precedences that every order below the bound would have to keep, and an op that contradicts them.
4. A search of all orders below the bound; the explanation then shows the buffers live at the peak
   of the best order.
"""

from __future__ import annotations

from optsched.explanation.data import Explanation
from optsched.explanation.reasons import explain, explain_op
from optsched.explanation.words import Reason

__all__ = ["Explanation", "Reason", "explain", "explain_op"]
