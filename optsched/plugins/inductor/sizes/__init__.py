"""Sizes of buffers, and memory of calls.

Question: how many bytes does a buffer have, and what does a call of a kernel or graph allocate?

`storages` and `ranges` ask Inductor's graph. What no graph records is measured: `kernels` calls
extern kernels (`kernel_calls`) with operands made for it (`kernel_operands`), and `meter` counts
what a call allocates.
"""
