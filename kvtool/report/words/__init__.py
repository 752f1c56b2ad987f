"""What results say in words and figures, the same in every format."""
