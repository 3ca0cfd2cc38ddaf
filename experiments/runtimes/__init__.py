"""Runtimes that run our plans: what they hold, measured beside what was planned."""
