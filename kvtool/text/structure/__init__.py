"""Structure of a text: sections, lists, tables, data and sentences as nested units with their places."""
