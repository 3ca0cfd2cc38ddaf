"""Model files of packages that this project did not choose, from file to saving at first try."""
