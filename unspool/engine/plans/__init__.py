"""Plans: made from a trace, kept as long as the cell lives, found again."""
