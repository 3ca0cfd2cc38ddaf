"""TFLite's `.tflite`: read as the graph that TFLite Micro plans, and a plan put back into it.

`model` says what a file holds, `graph` what of it the arena holds and when, `scratch` what kernels
need beside, `apply` writes a plan.
"""
