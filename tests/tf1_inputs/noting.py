"""What both libraries make of a case, as JSON: values, dtypes, static shapes, or the kind of the error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Case = Callable[[Any, Path], Any]
"""Takes a library and a folder for files to what is noted."""


def noted(tf: Any, case: Case, folder: Path) -> Any:
    """What a case makes of a library, in a graph of its own."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        return plain(case(tf, folder))


def complaint(tf: Any, case: Case, folder: Path) -> str:
    """The name of the error that a case raises."""
    try:
        noted(tf, case, folder)
    except Exception as error:
        return type(error).__name__
    return "nothing"


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if hasattr(value, "as_list"):
        return None if value.ndims is None else value.as_list()
    if hasattr(value, "as_numpy_dtype"):
        return value.name
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.name, "values": plain(value.tolist())}
    if isinstance(value, np.generic):
        return {"dtype": value.dtype.name, "values": value.item()}
    return value


def run(tf: Any, fetches: Any, feeds: Any = None) -> Any:
    """What a session computes once tables and variables are initialised."""
    with tf.Session() as session:
        initialize(tf, session)
        return session.run(fetches, feeds)


def initialize(tf: Any, session: Any) -> None:
    """Initialises all that a graph has."""
    initializers = [tf.global_variables_initializer(), tf.local_variables_initializer(), tf.tables_initializer()]
    session.run(initializers)


def elements(tf: Any, dataset: Any, most: int = 30, feeds: Any = None) -> dict[str, Any]:
    """A dataset's dtypes and static shapes, and its elements, so many at most."""
    iterator = tf.data.make_initializable_iterator(dataset)
    element, found = iterator.get_next(), []
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        session.run(iterator.initializer, feeds)
        try:
            while len(found) < most:
                found.append(session.run(element))
        except tf.errors.OutOfRangeError:
            found.append("end")
    return {
        "types": tf.data.get_output_types(dataset),
        "shapes": tf.data.get_output_shapes(dataset),
        "elements": found,
    }


def differences(found: Any, wanted: Any, path: str = "") -> list[str]:
    """Where two notes differ; floats by more than float32 rounds."""
    if isinstance(found, float) and isinstance(wanted, float):
        return [] if np.isclose(found, wanted, rtol=1e-5, atol=1e-7) else [f"{path}: {found} is not {wanted}"]
    if type(found) is not type(wanted):
        return [f"{path}: {found!r} is not {wanted!r}"]
    if isinstance(found, dict):
        if found.keys() != wanted.keys():
            return [f"{path}: {sorted(found)} are not {sorted(wanted)}"]
        return [each for key in found for each in differences(found[key], wanted[key], f"{path}.{key}")]
    if isinstance(found, list):
        if len(found) != len(wanted):
            return [f"{path}: {found!r} has not the length of {wanted!r}"]
        pairs = enumerate(zip(found, wanted, strict=True))
        return [each for place, (one, other) in pairs for each in differences(one, other, f"{path}[{place}]")]
    return [] if found == wanted else [f"{path}: {found!r} is not {wanted!r}"]
