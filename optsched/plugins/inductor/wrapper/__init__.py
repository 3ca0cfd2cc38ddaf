"""Simulation of the code that Inductor generates.

Question: how many bytes does this code hold, line by line, when the nodes run in a given order?

`facts` describes a graph as plain data. `simulate` adds an order, in three passes: `lines` writes
the code, `reuse` hands freed buffers on, and `memory` counts bytes. No module here imports torch.
"""
