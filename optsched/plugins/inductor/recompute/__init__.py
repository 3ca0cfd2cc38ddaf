"""Recomputation in the backward graph.

Question: which forward ops run again, so that a training step needs no more than a budget?

Inductor calls `partition` with the joint graph (`joint_graph`). It plans the graphs of `models`,
splits the joint graph by a plan (`split`), and simulates the compiled step (`calibrate`), until the
step fits. `hidden_bytes` adds to the planned graph what only a lowered step shows.
"""
