"""Variables that checkpoints hold in another form than sessions do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from unspool.tf1.variables import Variable


class Saveable:
    """A variable and the arrays that a checkpoint has for it. A `tf.train.Saver` of all variables finds those that are
    in the collection `tf.GraphKeys.SAVEABLE_OBJECTS`.

    Attributes:
        variable: whose value it is about.
        name: its own.
    """

    variable: Variable
    name: str

    def arrays(self, value: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
        """The arrays by name, of a value of the variable."""
        raise NotImplementedError(f"{type(self).__name__} must define arrays(value)")

    def value(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """The value of the variable, of arrays by name."""
        raise NotImplementedError(f"{type(self).__name__} must define value(arrays)")

    def blank(self) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays of the shapes and dtypes that `arrays` has, by name."""
        sizes: Any = self.variable.shape.as_list()
        return self.arrays(np.zeros(sizes, self.variable.dtype.as_numpy_dtype))
