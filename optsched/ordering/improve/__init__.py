"""Search for better orders near known ones, without proof."""
