"""Orders of a graph's nodes.

Question: which order needs the fewest bytes?

`runtime_graph` makes the graph that the solver gets. `candidates` has all orders, `choice` weighs
each by simulation, and `node_order` does both for the nodes of Inductor's scheduler.
"""
