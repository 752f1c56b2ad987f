"""Templates and Python files read without traffic, ignore comments, and the probe of a prompt builder."""
