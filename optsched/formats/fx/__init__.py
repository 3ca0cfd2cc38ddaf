"""PyTorch's programs: `.pt2` files of `torch.export`, and live `GraphModule`s.

`pt2` finds the program in a file, `exported` and `live` make an :class:`FxProgram` of it, `aliases`
says which tensors share bytes, `graph` makes the graph.
"""

from optsched.formats.fx.live import from_fx

__all__ = ["from_fx"]
