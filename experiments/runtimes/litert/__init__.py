"""LiteRT: where its arena puts tensors, as recorded packings."""
