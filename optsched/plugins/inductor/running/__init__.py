"""Reports of compiled graphs.

Question: which decision came from the cache with a graph, and how many bytes does the graph need?

`cached` adds lines to the module that Inductor writes, which report the graph's record when the
module is loaded; `measured` measures the first calls.
"""
