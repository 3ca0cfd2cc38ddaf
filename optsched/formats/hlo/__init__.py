"""XLA: modules in HLO text as graphs, and its buffer assignments as plans of them.

References
----------
https://openxla.org/xla/operation_semantics, and what jax 0.10 dumps on the CPU: the tests compare
with its live ranges and offsets.
"""
