"""Notes the losses of the programs in `tests/tf1_programs/scripts` under TensorFlow, from weights that both can make.

    python conformance/tf1_scripts.py [--out folder]

Needs the requirements in `conformance/requirements.txt`, and not unspool. Writes `tests/data/tf1_scripts/*.json`, which
`tests/test_tf1_scripts.py` compares `unspool.tf1` with.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow

from conformance.tf1_on_tensorflow import tf
from tests.tf1_scripts import COMPARED, RECORDED, STEPS, losses, weights_by_name


class TensorFlow1(ModuleType):
    """What a program gets for `import tensorflow`: `tensorflow.compat.v1`, with what is left of `tf.contrib`."""

    def __init__(self) -> None:
        super().__init__("tensorflow")
        self.__path__ = tensorflow.__path__
        self.__version__ = "1.15.0"

    def __getattr__(self, name: str) -> Any:
        return getattr(tf, name)


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """`import tensorflow` means TensorFlow 1 inside."""
    before = dict(sys.modules)
    sys.modules["tensorflow"] = TensorFlow1()
    sys.modules["tensorflow.contrib"] = tf.contrib
    for name in ("rnn", "layers", "seq2seq"):
        sys.modules[f"tensorflow.contrib.{name}"] = getattr(tf.contrib, name)
    try:
        yield
    finally:
        for name in ("tensorflow.contrib", *(f"tensorflow.contrib.{name}" for name in ("rnn", "layers", "seq2seq"))):
            del sys.modules[name]
        sys.modules["tensorflow"] = before["tensorflow"]


def run(path: Path, steps: int) -> list[float]:
    """A program's losses."""
    printed, argv, main, flags = io.StringIO(), sys.argv, sys.modules["__main__"], set(tf.flags.FLAGS)
    tf.reset_default_graph()
    sys.argv = [str(path), f"--steps={steps}"]
    module = sys.modules["__main__"] = ModuleType("__main__")
    try:
        with installed(), weights_by_name(tf), contextlib.redirect_stdout(printed):
            exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    finally:
        sys.argv, sys.modules["__main__"] = argv, main
        for name in set(tf.flags.FLAGS) - flags:
            tf.flags.FLAGS.__delattr__(name)
        tf.flags.FLAGS.unparse_flags()
    return losses(printed.getvalue())


def main() -> None:
    """One file a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDED)
    parser.add_argument("--only", nargs="*", default=list(COMPARED))
    options = parser.parse_args()
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as own, contextlib.chdir(own):  # where programs write
        for name in options.only:
            found = run(COMPARED[name], STEPS)
            (out / f"{name}.json").write_text(json.dumps(found) + "\n")
            print(f"{name}: {found[0]:.4f} to {found[-1]:.4f}")


if __name__ == "__main__":
    main()
