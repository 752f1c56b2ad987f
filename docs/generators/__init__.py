"""What the generated parts of the documentation are made from."""
