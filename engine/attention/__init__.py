"""Cut a step's attention into work for the kernels."""
