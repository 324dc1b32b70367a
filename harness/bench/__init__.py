"""Speed, measured: stages of the fast path, and the kernels on a GPU."""
