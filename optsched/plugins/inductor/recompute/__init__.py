"""Recomputation in the backward graph.

Question: which forward ops run again, so that a training step needs no more than a budget?

1. Inductor calls `partition` with the joint graph.
2. `joint_step` refuses graphs that no plan may split (`joint_graph`), and peaks below what each
   split needs (`least_bytes`), has PyTorch's splits made (`models`) and its default one simulated.
   This shows hidden bytes (`hidden_bytes`), by which a peak may be impossible (`certain_bytes`).
3. `search` plans with several budgets, has the joint graph split by each plan (`split`), and the
   compiled step simulated (`calibrate`), until the step fits or the time is over.
4. `answer` takes the cheapest split that fits, be it PyTorch's; a plan in an order near to the
   joint graph's (`near_order`) if it fits as well.
5. If a step calls several compiled graphs, the bytes in each call and between them are measured
   (`step_measured`), and `step_plan` chooses one of the splits of each region (`step_points`) so
   that the step fits, on the first of several ranks (`step_team`).
"""
