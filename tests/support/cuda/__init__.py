"""A CUDA device without a GPU, on which a CPU build of torch traces, lowers and runs graphs."""
