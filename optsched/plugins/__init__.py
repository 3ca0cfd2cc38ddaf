"""Adapters to compilers: graphs out of them, plans back into them. Each loads its compiler late."""

from optsched.plugins.records import CompiledGraph, explain, forget, records

__all__ = ["CompiledGraph", "explain", "forget", "records"]
