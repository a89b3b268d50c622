"""Steps with effects, by name: importing a family adds its entries to the table."""

from tests.impure_cells import counters, draws, notes, world
from tests.impure_cells.table import IMPURE, impure_cell

__all__ = ["IMPURE", "counters", "draws", "impure_cell", "notes", "world"]
