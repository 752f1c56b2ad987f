"""Data of reports' charts, collected during the reported run."""
