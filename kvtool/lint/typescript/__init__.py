"""TypeScript and JavaScript, read as the syntax tree that the rules for Python work on."""
