"""How a cell runs, as data, text, HTML and pictures."""
