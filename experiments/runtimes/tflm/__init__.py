"""TFLite Micro: its arena before and after, byte for byte."""
