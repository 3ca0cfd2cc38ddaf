"""Comparisons in print: terminal, Markdown, CSV, JSON."""
