"""The terminal views of sizes, plans and engines side by side."""
