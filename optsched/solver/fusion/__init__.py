"""Fusion that knows the peak: the buffers to keep inside kernels, and the order to run them in.

`oracle` solves the graph of one choice, `search` decides one local buffer after another (chosen in
`branching`) until no choice has a lower peak, `price` finds few cuts that reach a peak, `front`
trades kernels against the peak, and `result` has their answers. :mod:`optsched.model.fusion` and
:mod:`optsched.model.allowances` prove that choices and bounds are right.
"""
