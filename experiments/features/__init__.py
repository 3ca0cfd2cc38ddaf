"""What in-place, workspace and pools gain or cost on real graphs, with proofs."""
