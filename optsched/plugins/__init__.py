"""Adapters to compilers: graphs out of them, plans back into them. Each loads its compiler late."""
