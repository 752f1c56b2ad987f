"""How a step's attention is cut into work for the kernels."""
