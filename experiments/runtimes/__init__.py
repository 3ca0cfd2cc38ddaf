"""Runtimes that run our plans: measured bytes beside planned bytes."""
