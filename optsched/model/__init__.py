"""The data layer: graphs, live ranges, packing problems and plans; no solver."""
