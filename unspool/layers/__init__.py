"""Modules over whole sequences, as torch's users expect them: a cell and its options, called with a batch."""
