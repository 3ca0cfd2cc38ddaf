"""What kinds of explanation there are."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why no order has a peak below the bound, the simplest that is known."""

    ENDS = "ends"
    """What is live before the first op or after the last."""
    OP = "op"
    """What one op forces."""
    SET = "set"
    """What the last (or first) op of a set forces."""
    PRECEDENCES = "precedences"
    """What an op or a set forces with the precedences that a smaller budget implies."""
    SEARCH = "search"
    """The engine proved it, by searching all orders below or else; nothing simpler is known."""
