"""Better orders from known ones."""
