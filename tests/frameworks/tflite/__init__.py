"""TFLite files as TFLite Micro runs them."""
