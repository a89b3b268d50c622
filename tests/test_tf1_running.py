"""`tensorflow` is `unspool.tf1` inside a program, and only there."""

from __future__ import annotations

import gzip
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unspool.tf1
from unspool.tf1.examples import mnist
from unspool.tf1.running import locations, runner

IMPORTS = [
    "import tensorflow as tf; found = tf.nn.rnn_cell.LSTMCell",
    "from tensorflow.nn.rnn_cell import LSTMCell as found",
    "from tensorflow.contrib.rnn import LSTMCell as found",
    "import tensorflow.contrib.rnn as rnn; found = rnn.LSTMCell",
    "from tensorflow.contrib import rnn; found = rnn.LSTMCell",
    "import tensorflow.compat.v1 as tf; tf.disable_v2_behavior(); found = tf.nn.rnn_cell.LSTMCell",
    "from tensorflow.compat import v1 as tf; found = tf.nn.rnn_cell.LSTMCell",
    "from tensorflow.compat.v1.nn.rnn_cell import LSTMCell as found",
    "from tensorflow.python.ops import rnn_cell; found = rnn_cell.LSTMCell",
    "from tensorflow.python.ops.rnn_cell_impl import LSTMCell as found",
    "import tensorflow as tf; found = tf.python.ops.rnn_cell_impl.LSTMCell",
    "from tensorflow.contrib.rnn.python.ops import core_rnn_cell; found = core_rnn_cell.LSTMCell",
    "from tensorflow.contrib.rnn.python.ops.core_rnn_cell_impl import LSTMCell as found",
    "from tensorflow.models.rnn import rnn_cell; found = rnn_cell.LSTMCell",
    "from tensorflow.models.rnn.rnn_cell import *; found = LSTMCell",
]

ELSEWHERE = """
from tensorflow.contrib.layers.python.layers import layers
from tensorflow.contrib.rnn.python.ops.core_rnn_cell import _linear
from tensorflow.contrib.seq2seq.python.ops import attention_wrapper, helper
from tensorflow.examples.tutorials.mnist import input_data
from tensorflow.python.client import device_lib
from tensorflow.python.framework import constant_op, dtypes, ops, tensor_shape, tensor_util
from tensorflow.python.layers import base as base_layer
from tensorflow.python.layers.core import Dense
from tensorflow.python.ops import array_ops, init_ops, math_ops, nn_ops, rnn, tensor_array_ops, variable_scope as vs
from tensorflow.python.platform import gfile, tf_logging as logging
from tensorflow.python.training import moving_averages
from tensorflow.python.util import nest
import tensorflow.python.platform

dense, flat = Dense(3), nest.flatten((1, [2]))
names = [layers.fully_connected, attention_wrapper.AttentionWrapper, helper.TrainingHelper, ops.Graph, dtypes.float32,
         tensor_shape.TensorShape, constant_op.constant, base_layer.Layer, array_ops.concat, init_ops.zeros_initializer,
         math_ops.tanh, nn_ops.softmax, rnn.dynamic_rnn, tensor_array_ops.TensorArray, vs.get_variable, gfile.GFile,
         logging.info, moving_averages.ExponentialMovingAverage, device_lib.list_local_devices()[0].name]
value = tensor_util.constant_value(constant_op.constant(3))
joined = _linear([array_ops.ones([2, 3]), array_ops.ones([2, 4])], 5, True)
transposed = rnn._transpose_batch_time(array_ops.ones([2, 3, 4]))
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "program.py") -> str:
        (tmp_path / name).write_text(text)
        return name

    return write


def process(*words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, env=environment)


class TestImports:
    @pytest.mark.parametrize("line", IMPORTS)
    def test_of_one_class_by_its_paths(self, write: Any, line: str) -> None:
        assert runner.run(write(line))["found"] is unspool.tf1.nn.rnn_cell.LSTMCell

    def test_of_what_is_inside_tensorflow(self, write: Any) -> None:
        found = runner.run(write(ELSEWHERE))
        assert found["flat"] == [1, 2]
        assert found["value"] == 3
        assert found["joined"].shape.as_list() == [2, 5]
        assert found["transposed"].shape.as_list() == [3, 2, 4]

    @pytest.mark.parametrize(
        "line",
        [
            "import unspool.tf1.contrib.seq2seq as s; s.TrainingHelper",
            "from unspool.tf1.nn.rnn_cell import LSTMCell",
            "import unspool.tf1.compat.v1 as tf; tf.nn.relu",
            "from unspool.tf1.app import flags; flags.FLAGS",
        ],
    )
    def test_by_the_name_unspool(self, line: str) -> None:
        exec(line)

    def test_every_place_is_a_module(self) -> None:
        """A table of paths rots unless each is tried."""
        paths = [*(each.replace("*", "x") for each in locations.INSIDE), *locations.PACKAGES]
        with unspool.tf1.install():
            modules = [importlib.import_module(f"tensorflow.{path}") for path in paths]
        assert [module.__name__ for module in modules] == [f"tensorflow.{path}" for path in paths]

    @pytest.mark.parametrize("path", unspool.tf1.namespace.modules())
    def test_every_name_of_a_module_is_there(self, path: str) -> None:
        module = unspool.tf1.namespace.module_at(path)
        assert module is not None
        assert [name for name in module.__all__ if not hasattr(module, name)] == []
        assert len(set(module.__all__)) == len(module.__all__)


class TestNamesThatAreMissing:
    @pytest.mark.parametrize(
        ("line", "kind", "message"),
        [
            ("import tensorflow as tf; tf.nn.rellu", AttributeError, "tf.nn.rellu; did you mean tf.nn.relu"),
            ("import tensorflow as tf; tf.pack([1])", AttributeError, "no tf.pack; it is tf.stack"),
            ("from tensorflow.contrib.rnn import LSTMCel", ImportError, "did you mean tf.contrib.rnn.LSTMCell"),
            ("import tensorflow.contrib.keraz", ImportError, "no tf.contrib.keraz"),
            ("from tensorflow.contrib import keraz", ImportError, "no tf.contrib.keraz"),
            ("from tensorflow.python.ops.rnn import dynamic_rrn", ImportError, "did you mean .*dynamic_rnn"),
            ("import tensorflow.sesssion", ImportError, "no tf.sesssion"),
        ],
    )
    def test_say_where_and_what_to_do(self, write: Any, line: str, kind: type[Exception], message: str) -> None:
        with pytest.raises(kind, match=rf"^program\.py:2: .*{message}"):
            runner.run(write(f"\n{line}"))

    def test_can_be_asked_for(self, write: Any) -> None:
        """As programs do that run under several versions."""
        text = """
import tensorflow as tf
try:
    from tensorflow.models.rnn import lost
except ImportError:
    lost = None
there, absent = hasattr(tf, "concat"), hasattr(tf, "concat_v2")
"""
        found = runner.run(write(text))
        assert (found["lost"], found["there"], found["absent"]) == (None, True, False)

    def test_inner_modules_are_none_of_tensorflows(self, write: Any) -> None:
        with pytest.raises(ImportError, match=r"no tf\.session"):
            runner.run(write("import tensorflow.session"))


class TestRun:
    def test_a_program_is_the_main_one(self, write: Any, tmp_path: Path) -> None:
        text = (
            "import sys\nname, argv, path, file = __name__, sys.argv, sys.path[0], __file__\nmain = sys.modules[name]"
        )
        found = runner.run(write(text), "--a", "b")
        assert found["name"] == "__main__"
        assert found["argv"] == ["program.py", "--a", "b"]
        assert found["path"] == str(tmp_path)
        assert found["file"] == "program.py"
        assert vars(found["main"])["argv"] is found["argv"]

    def test_it_imports_and_reads_what_lies_beside_it(self, write: Any) -> None:
        write("import tensorflow as tf\ndef build(x):\n    return tf.square(x)", "model_beside.py")
        write("3", "number.txt")
        text = """
import tensorflow as tf
import model_beside
with open("number.txt") as file, tf.Session() as session:
    nine = session.run(model_beside.build(int(file.read())))
"""
        assert runner.run(write(text))["nine"] == 9
        assert "model_beside" not in sys.modules

    def test_options_and_app_run(self, write: Any) -> None:
        text = """
import tensorflow as tf
tf.app.flags.DEFINE_integer("steps", 3, "")
seen = []
def main(argv):
    seen.append((tf.app.flags.FLAGS.steps, argv))
if __name__ == "__main__":
    tf.app.run()
"""
        assert runner.run(write(text), "--steps=5", "rest")["seen"] == [(5, ["program.py", "rest"])]

    def test_options_are_listed_as_programs_list_them(self, write: Any) -> None:
        text = """
import tensorflow as tf
tf.flags.DEFINE_integer("steps", 3, "")
FLAGS = tf.flags.FLAGS
FLAGS._parse_flags()
listed = sorted(FLAGS.__flags.items())
"""
        assert runner.run(write(text), "--steps", "5")["listed"] == [("steps", 5)]

    def test_another_exit_is_the_callers(self, write: Any) -> None:
        with pytest.raises(SystemExit) as end:
            runner.run(write("import sys; sys.exit(3)"))
        assert end.value.code == 3

    def test_nothing_is_left_behind(self, write: Any) -> None:
        tf = unspool.tf1
        tf.flags.DEFINE_string("outside", "kept", "")
        text = """
import tensorflow as tf
tf.flags.DEFINE_integer("inside", 3, "")
assert "outside" not in tf.flags.FLAGS
assert not tf.get_default_graph().get_operations()
tf.logging.set_verbosity(tf.logging.DEBUG)
tf.constant(1)
session = tf.InteractiveSession()
tf.nn.relu = None
raise KeyError("stopped")
"""
        outside = tf.constant(1)
        before = sys.argv, sys.path[:], sys.modules["__main__"], sys.meta_path[:], tf.logging.get_verbosity()
        real = sys.modules["tensorflow"] = type(sys)("tensorflow")
        try:
            with pytest.raises(KeyError):
                runner.run(write(text))
            assert sys.modules.pop("tensorflow") is real
        finally:
            sys.modules.pop("tensorflow", None)
        assert (sys.argv, sys.path, sys.modules["__main__"], sys.meta_path, tf.logging.get_verbosity()) == before
        assert [each for each in sys.modules if each.startswith("tensorflow")] == []
        assert "inside" not in tf.flags.FLAGS
        assert tf.flags.FLAGS.outside == "kept"
        assert tf.get_default_graph().get_operations() == [outside.op]
        assert tf.get_default_session() is None
        assert callable(tf.nn.relu)

    def test_a_program_for_python_2_says_so(self, write: Any) -> None:
        with pytest.raises(SyntaxError, match="2to3"):
            runner.run(write('print "hello"'))

    def test_what_a_program_saved_another_goes_on_with(self, write: Any) -> None:
        """Its graph, with a function of its own that names tensorflow."""
        saving = """
import numpy as np
import tensorflow as tf
def log(x):
    return np.float32(x * len(tf.__version__))
w = tf.Variable(2.0, name="w")
tf.py_func(log, [w], tf.float32, name="logged")
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    tf.train.Saver().save(sess, "./model")
"""
        loading = """
import tensorflow as tf
saver = tf.train.import_meta_graph("model.meta")
with tf.Session() as sess:
    saver.restore(sess, tf.train.latest_checkpoint("."))
    found = sess.run("logged:0")
"""
        runner.run(write(saving))
        assert runner.run(write(loading, "loading.py"))["found"] == 2 * len("1.15.0")


class TestCommand:
    def test_a_module_with_arguments_in_a_process(self, write: Any, tmp_path: Path) -> None:
        (tmp_path / "package").mkdir()
        write("", "package/__init__.py")
        write("import sys, tensorflow as tf\nprint(__name__, sys.argv[1:], tf.__version__)", "package/train.py")
        ran = process("unspool", "run", "-m", "package.train", "--steps", "3")
        assert ran.stdout == "__main__ ['--steps', '3'] 1.15.0\n", ran.stderr

    def test_a_traceback_is_the_programs(self, write: Any) -> None:
        write("import tensorflow as tf\ndef build():\n    return tf.rellu\nbuild()")
        ran = process("unspool.tf1", "program.py")
        assert ran.returncode == 1
        lines = [line for line in ran.stderr.splitlines() if "^" not in line]
        assert lines[:-1] == [
            "Traceback (most recent call last):",
            '  File "program.py", line 4, in <module>',
            "    build()",
            '  File "program.py", line 3, in build',
            "    return tf.rellu",
        ]
        assert lines[-1].startswith("AttributeError: program.py:3: unspool.tf1 has no tf.rellu")

    @pytest.mark.parametrize("words", [[], ["-m"]])
    def test_no_program(self, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit, match="2"):
            runner.main(words)
        assert "usage" in capsys.readouterr().out

    def test_a_file_that_is_not_there(self) -> None:
        with pytest.raises(SystemExit, match=r"there is no file 'train\.py'"):
            runner.main(["train.py"])


class TestInstall:
    def test_until_it_is_undone(self) -> None:
        installed = unspool.tf1.install()
        import tensorflow as tf  # pyright: ignore[reportMissingImports]

        assert tf.Session is unspool.tf1.Session
        assert repr(tf) == "<module 'tensorflow' (unspool.tf1)>"
        assert "dynamic_rnn" in dir(tf.nn)
        installed.undo()
        installed.undo()
        assert "tensorflow" not in sys.modules

    def test_one_in_another(self) -> None:
        with unspool.tf1.install():
            import tensorflow as outer  # pyright: ignore[reportMissingImports]

            with unspool.tf1.install():
                import tensorflow as inner  # pyright: ignore[reportMissingImports]
            assert inner is not outer
            assert sys.modules["tensorflow"] is outer

    def test_summaries_are_written_without_tensorflow(self, write: Any) -> None:
        text = """
import tensorflow as tf
writer = tf.summary.FileWriter("logs")
writer.add_summary(tf.Session().run(tf.summary.scalar("loss", 1.0)), 1)
writer.close()
"""
        runner.run(write(text))
        assert list(Path("logs").iterdir())


class TestDigits:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        rng = np.random.default_rng(0)
        for name, count in zip(mnist.FILES, (20, 20, 6, 6), strict=True):
            sizes = (count, 28, 28) if "images" in name else (count,)
            values = rng.integers(0, 10, sizes).astype(np.uint8)
            data = np.array([2051 if "images" in name else 2049, *sizes], ">u4").tobytes() + values.tobytes()
            path = tmp_path / (f"{name}.gz" if count == 20 else name)
            path.write_bytes(gzip.compress(data) if count == 20 else data)
        return tmp_path

    def test_are_read_from_where_they_are(self, folder: Path) -> None:
        with unspool.tf1.install():
            from tensorflow.examples.tutorials.mnist import input_data  # pyright: ignore[reportMissingImports]
        digits = input_data.read_data_sets(folder, one_hot=True, validation_size=5)
        assert [part.num_examples for part in digits] == [15, 5, 6]
        assert digits.train.images.shape == (15, 784)
        assert digits.train.images.dtype == np.float32
        assert digits.test.labels.shape == (6, 10)

    def test_come_in_batches_of_shuffled_epochs(self, folder: Path) -> None:
        train = mnist.read_data_sets(folder, validation_size=0, seed=1, dtype=np.uint8, reshape=False).train
        batches = [train.next_batch(8) for _ in range(5)]
        assert train.epochs_completed == 1
        assert all(images.shape == (8, 28, 28, 1) for images, _ in batches)
        first = np.concatenate([labels for _, labels in batches])[:20]
        assert sorted(first) == sorted(train.labels)

    def test_that_are_missing_say_what_to_place_where(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=rf"train-images-idx3-ubyte\.gz, or .* in {tmp_path}.* t10k-labels"):
            mnist.read_data_sets(tmp_path)

    def test_that_are_something_else(self, folder: Path) -> None:
        (folder / f"{mnist.FILES[0]}.gz").write_bytes(b"no digits")
        with pytest.raises(ValueError, match="Invalid magic number"):
            mnist.read_data_sets(folder)
