"""Facts read from Inductor's scheduler.

Question: which facts about a graph hold in every order of its nodes?

`support` refuses graphs that no rule describes. `scheduler` reads the facts of the others, with a
module per rule: `inplace`, `guards` of mutations, `triton` for GPUs, `ownership` of inputs
(`live_arguments`). `snapshot` writes Inductor's own view of a graph as a document, and `planning`
sets the nodes that this view describes.
"""
