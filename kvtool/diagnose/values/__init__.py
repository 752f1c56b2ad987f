"""The values of one place in a prompt: what they are, by their form, their labels and their course."""
