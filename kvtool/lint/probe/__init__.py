"""Running a prompt builder with one circumstance changed at a time."""
