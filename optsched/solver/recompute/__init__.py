"""Recompute: the least extra compute with which a training step fits a peak, with proof.

`problem` drops views from the graph, `rows` states what every schedule must satisfy while an op
runs, `master` finds the cheapest set of repeats under these rows, `bound` turns its multipliers
into a proof, `runs` finds an order with these repeats, `repair` adds second and third repeats where
one each is not enough, and `solve` is the loop over them.
"""
