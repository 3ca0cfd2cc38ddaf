"""What IREE's compiler prints of its slabs, and how it lays them out."""
