"""Fusion that knows the peak: the buffers to keep inside kernels, and the order to run them in.

`oracle` solves the graph of one choice, `search` branches on local buffers until no choice has a
lower peak, `price` finds few cuts that reach a peak, `front` trades kernels against the peak, and
`result` has their answers. :mod:`optsched.model.fusion` proves that choices and bounds are right.
"""
