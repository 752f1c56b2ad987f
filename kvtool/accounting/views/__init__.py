"""What reports draw, collected in the pass that they are about."""
