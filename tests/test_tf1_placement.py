"""What programs say of devices, containers, options and files: accepted, read back, or as TensorFlow has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unspool import tf1 as tf
from unspool.tf1.running import runner
from unspool.tf1.running.numpy_names import FORMER


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("device", ["/gpu:0", "/cpu:0", "/job:worker/task:1"])
def test_a_cell_with_a_device_is_the_cell(device: str):
    inputs = tf.constant(np.random.default_rng(0).normal(size=(2, 3, 4)), tf.float32)
    plain = tf.nn.rnn_cell.GRUCell(5)
    expected, _ = tf.nn.dynamic_rnn(plain, inputs, dtype=tf.float32, scope="both")
    with tf.variable_scope("", reuse=True):
        wrapped = tf.contrib.rnn.DeviceWrapper(tf.nn.rnn_cell.GRUCell(5), device)
        found, _ = tf.nn.dynamic_rnn(wrapped, inputs, dtype=tf.float32, scope="both")
    assert len(tf.trainable_variables()) == 4
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(*session.run([found, expected]))


def test_a_session_lists_its_devices():
    first = tf.Session().list_devices()[0]
    assert (first.name, first.device_type) == ("/job:localhost/replica:0/task:0/device:CPU:0", "CPU")


def test_a_container_and_colocation_change_no_names():
    graph = tf.get_default_graph()
    with tf.container("training"), graph.container("other") as name, graph.colocate_with(tf.constant(1)):
        variable = tf.Variable(0.0, name="weight")
    assert (variable.name, name) == ("weight:0", "other")


def test_the_version_of_a_graph_grows():
    graph = tf.get_default_graph()
    before = graph.version
    tf.constant(1)
    assert graph.version > before


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda config: config.log_device_placement, False),
        (lambda config: config.intra_op_parallelism_threads, 0),
        (lambda config: config.device_count, {}),
        (lambda config: config.gpu_options.per_process_gpu_memory_fraction, 0.0),
        (lambda config: config.gpu_options.visible_device_list, ""),
        (lambda config: config.graph_options.optimizer_options.global_jit_level, tf.OptimizerOptions.DEFAULT),
    ],
)
def test_options_have_their_first_values(read: Any, expected: Any):
    assert read(tf.ConfigProto(allow_soft_placement=True)) == expected


def test_options_of_two_sessions_are_apart():
    one, other = tf.ConfigProto(), tf.ConfigProto()
    one.device_count["GPU"] = 0
    one.gpu_options.allow_growth = True
    assert other.device_count == {}
    assert other.gpu_options.allow_growth is False


def test_an_option_that_is_not_there_is_named():
    with pytest.raises(AttributeError, match="ConfigProto has no field 'gpu_option'"):
        _ = tf.ConfigProto().gpu_option


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_file_takes_texts_and_bytes(tmp_path: Path, mode: str):
    with tf.gfile.GFile(tmp_path / "file", mode) as file:
        file.write("é\r\n")
        file.write(b"\xc3\xa9\n")
    with tf.gfile.GFile(tmp_path / "file") as file:
        assert file.size() == 7
        assert [file.next(), next(file), *file] == ["é\r\n", "é\n"]
        with pytest.raises(StopIteration):
            file.next()
        file.seek(4)
        assert (file.tell(), file.read()) == (4, "é\n")
    assert tf.gfile.GFile(tmp_path / "file", "rb").readlines() == [b"\xc3\xa9\r\n", b"\xc3\xa9\n"]
    with pytest.raises(TypeError, match="offset argument required"):
        tf.gfile.GFile(tmp_path / "file").seek()


def test_a_program_has_the_former_names_of_numpy_while_it_runs(tmp_path: Path):
    missing = [name for name in FORMER if name not in vars(np)]
    assert "float" in missing
    program = tmp_path / "program.py"
    program.write_text("import numpy as np\nfound = np.zeros(1, np.float).dtype, np.array([1], np.int), np.Inf, np.NaN")
    assert runner.run(program)["found"][0] == np.float64
    program.write_text("raise KeyError")
    with pytest.raises(KeyError):
        runner.run(program)
    assert [name for name in FORMER if name not in vars(np)] == missing


RAGGED = """
import numpy as np, tensorflow as tf
lists = np.array([[1], [1, 2]])
same = np.asarray([np.zeros(2), np.zeros(3)])
whole = np.array([[1, 2], [3, 4]])
def refused(function):
    try:
        function()
    except ValueError as error:
        return str(error)
numbers = refused(lambda: np.array([[1], [1, 2]], np.int32))
library = refused(lambda: np.mean([[1], [1, 2]]))
tensor = refused(lambda: tf.constant([[1], [1, 2]]))
"""


def test_a_program_makes_arrays_of_lists_and_libraries_do_not(tmp_path: Path):
    make = np.array
    program = tmp_path / "program.py"
    program.write_text(RAGGED)
    found = runner.run(program)
    assert (found["lists"].dtype, found["lists"].tolist()) == (object, [[1], [1, 2]])
    assert [each.shape for each in found["same"]] == [(2,), (3,)]
    assert found["whole"].dtype == int
    for name in ("numbers", "library", "tensor"):
        assert "inhomogeneous" in found[name] or "rectangular" in found[name], name
    assert np.array is make
    with pytest.raises(ValueError, match="inhomogeneous"):
        np.array([[1], [1, 2]])


@pytest.mark.parametrize(
    "line",
    [
        "from tensorflow.core.example import example_pb2; found = example_pb2.Example",
        "from tensorflow.core.example.feature_pb2 import Feature as found",
        "from tensorflow.core.protobuf import config_pb2; found = config_pb2.ConfigProto",
        "from tensorflow.python.client import timeline; found = timeline.Timeline",
        "from tensorflow.contrib.rnn import core_rnn_cell; found = core_rnn_cell.BasicLSTMCell",
    ],
)
def test_modules_inside_tensorflow_are_found(tmp_path: Path, line: str):
    program = tmp_path / "program.py"
    program.write_text(line)
    assert callable(runner.run(program)["found"])


@pytest.mark.parametrize("name", ["ClusterSpec", "Server"])
def test_what_needs_servers_says_so(name: str):
    with pytest.raises(AttributeError, match="run the program in one process"):
        getattr(tf.train, name)
