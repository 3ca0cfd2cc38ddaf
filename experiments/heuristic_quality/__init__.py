"""How good every sorter and packer is, by family of graphs, against proved optima."""
