"""Ways to change what a step reads between two runs, one kind a file: the table that tests of guards run through.

A plan is made from a step as it was. So each entry is a way to be given numbers that are no longer true.
"""

from tests.cell_changes import (
    attributes,
    circumstances,
    classes,
    containers,
    functions,
    global_names,
    modules,
    objects,
    tensors,
)
from tests.cell_changes.table import CHANGES, Change, Stage

__all__ = [
    "CHANGES",
    "Change",
    "Stage",
    "attributes",
    "circumstances",
    "classes",
    "containers",
    "functions",
    "global_names",
    "modules",
    "objects",
    "tensors",
]
