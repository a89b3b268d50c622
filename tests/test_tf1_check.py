"""`unspool check` finds the names that a program uses and are not there, without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tf1_scripts import SCRIPTS
from unspool import cli
from unspool.tf1.namespace import missing
from unspool.tf1.renamed import RENAMED
from unspool.tf1.running import check

TEN = """
import tensorflow as tf
import tensorflow.contrib.layers as layers
from tensorflow.contrib import rnn, lost_module
from tensorflow.python.ops import rnn_cell_impl as impl
nn = tf.nn

def build(x, cell=nn.lost_default):
    y = tf.pack([x, tf.lost_function(x)])
    z = layers.lost_layer(y)
    return tf.pack([y, impl.LostCell(3)(z)])

class Model(rnn.LostBase):
    rate = tf.train.lost_decay(0.1)

    def run(self):
        return [tf.GraphKeys.LOST_KEY, lambda x: tf.nn.rnn(x)]
"""
"""Ten names that are not there, one of them twice."""

FINE = [
    "import tensorflow as tf\ntf.Session().run(tf.constant(1).lost)",
    "import tensorflow as tf\ntf.app.flags.FLAGS.lost",
    "import tensorflow as tf\nprint(tf.__version__, tf.nn.__name__)",
    "import tensorflow as tf\ndef f(tf):\n    return tf.lost",
    "import tensorflow as tf\nrnn = tf.nn\nrnn = 3\nrnn.lost",
    "import tensorflow as tf\ntf.lost = 3",
    "import tensorflow as tf\nfor tf in []:\n    tf.lost",
    "import numpy as tf\ntf.lost",
    "from . import tensorflow\ntensorflow.lost",
    "try:\n    from tensorflow.lost import x\nexcept ImportError:\n    x = None",
    "import tensorflow as tf\ntry:\n    a = tf.lost\nexcept (KeyError, AttributeError):\n    a = 3",
    "import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()",
    "from tensorflow.nn.rnn_cell import *\nLSTMCell(3)",
    "from tensorflow.python.framework import dtypes\ndtypes.float32",
    "import tensorflow as tf\ntf.Summary",
]

LOST = {
    "import tensorflow\ntensorflow.nn.lost": "tf.nn.lost",
    "import tensorflow.contrib.rnn\ntensorflow.contrib.rnn.lost": "tf.contrib.rnn.lost",
    "import tensorflow as tf\ndef f():\n    return g.lost\ng = tf.nn": "tf.nn.lost",
    "import tensorflow as tf\nclass A:\n    def f(self):\n        return tf.lost": "tf.lost",
    "import tensorflow as tf\n@tf.lost\nasync def f():\n    pass": "tf.lost",
    "import tensorflow as tf\ntry:\n    a = tf.lost\nexcept KeyError:\n    pass": "tf.lost",
    "import tensorflow as tf\ntry:\n    pass\nexcept tf.errors.Lost:\n    pass": "tf.errors.Lost",
    "import tensorflow as tf\nx = {1: [tf.lost for i in range(3)]}": "tf.lost",
    "import tensorflow.compat.v1 as tf\ntf.lost": "tf.lost",
    "import tensorflow as tf\ntf.nn.rnn_cell.LSTMCell(3).zero_state(tf.lost(), 1)": "tf.lost",
}


@pytest.mark.parametrize("text", FINE)
def test_what_is_there_or_none_of_tensorflows(text: str) -> None:
    assert check.check(text) == []


@pytest.mark.parametrize("text", LOST)
def test_however_it_is_reached(text: str) -> None:
    [found] = check.check(text)
    assert found.message.startswith(f"unspool.tf1 has no {LOST[text]}")


def test_ten_unknown_names_are_ten_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TEN)
    with pytest.raises(SystemExit, match="1"):
        cli.main(["check", "train.py"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert [int(line.split(":")[1]) for line in lines] == [4, 8, 9, 9, 10, 11, 13, 14, 17, 17]
    assert "train.py:9: unspool.tf1 has no tf.pack; it is tf.stack (also on line 11)" in lines


def test_programs_that_run_lack_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main([str(path) for path in SCRIPTS.values()]) == 0
    assert capsys.readouterr().out.count("nothing is missing") == len(SCRIPTS)


@pytest.mark.parametrize(("text", "says"), [('print "x"', "train.py:1: cannot be read: Missing"), (None, "No such")])
def test_what_cannot_be_read(
    text: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("train.py").write_text(text)
    assert check.main(["train.py"]) == 1
    assert says in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["--help"], ["check"], ["lost"]])
def test_the_command_says_how_it_is_used(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0" if words == ["--help"] else "2"):
        cli.main(words)
    assert "unspool check" in capsys.readouterr().out


@pytest.mark.parametrize("name", RENAMED)
def test_older_names_are_absent_and_say_the_newer_one(name: str) -> None:
    path, _, last = name.rpartition(".")
    assert str(missing(path, last, [])) == f"unspool.tf1 has no {name}; it is {RENAMED[name]}"
    assert [each.message for each in check.check(f"import tensorflow as tf\n{name}")]


def test_what_is_inside_a_module_that_was_renamed() -> None:
    [found] = check.check("import tensorflow as tf\ntf.nn.seq2seq.sequence_loss([], [], [])")
    assert "it is tf.contrib.legacy_seq2seq" in found.message
