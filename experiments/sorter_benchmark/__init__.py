"""Study: how long the sorters take on wide graphs, and Inductor's own beside them."""
