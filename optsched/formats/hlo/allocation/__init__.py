"""XLA's buffer assignment on the CPU, simulated: the bytes that a module allocates for an order.

`value` and `values` are the contents of memory, `walks` the sequences in which XLA visits a module,
`timeline` says when values exist, and `assignment` where they lie.
"""
