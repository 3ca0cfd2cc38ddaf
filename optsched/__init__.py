"""Exact memory planning for tensor graphs: an order of ops and offsets of buffers, with proof."""

from __future__ import annotations
