"""What a text is made of, for all who ask: sections, lists, tables, data and sentences as nested units with their places."""
