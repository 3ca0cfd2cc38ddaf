"""Quality of every sorter and packer, by family of graphs, against proved optima."""
