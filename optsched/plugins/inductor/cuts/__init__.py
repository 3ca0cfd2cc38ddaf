"""Cuts of fused nodes.

Question: which of Inductor's fused nodes are worth cutting, so that fewer bytes are live at once?

`parts` reads the parts of fused nodes, `find` chooses cuts and the order after them, and `rebuild`
makes nodes of the parts that stay together.
"""
