"""Views of the probe of an agent."""
