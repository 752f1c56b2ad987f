"""What a text and the code around it say of a prompt and its placeholders."""
