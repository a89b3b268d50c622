"""Control flow of a step that depends on values: checks, branches that each row may take, and constants."""
