"""The data layer: graphs, live ranges, packing problems and plans, without any solver."""
