"""Simulation of the code that Inductor generates.

Question: how many bytes does this code hold, line by line, when the nodes run in a given order?

`facts` describes a graph as plain data; `simulate` adds an order and counts bytes. No module here
imports torch.
"""
