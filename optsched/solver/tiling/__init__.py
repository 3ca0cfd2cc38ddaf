"""Tiling in rows: which ops run in bands, with how many bands, so that an arena is least."""
