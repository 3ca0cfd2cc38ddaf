"""All bounds on orders that search, certificates and explanations walk; a new one is a row here.

The closure bound of single ops comes before them, as it is cheaper and also finds upper limits. The
precedences that a budget implies come after them: they hold for one budget only.
"""

from __future__ import annotations

from optsched.ordering.bound.order_bound import OrderBound
from optsched.ordering.bound.sets import ForcedSet

ORDER_BOUNDS: tuple[type[OrderBound], ...] = (ForcedSet,)
"""In the sequence in which they are tried, simple ones first."""
