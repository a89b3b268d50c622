"""Real TensorFlow in a process, and mostly an environment, of its own: trains a model whenever it is told to.

    python -m benchmarks.tensorflow_worker 2 '{"kind": "Unrolled", "rows": 1, "steps": 50, "units": 128}'

The number is that of its threads. For every line that it reads it runs a step, and writes the milliseconds that it took
and the loss.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # Keras 3 has none of these cells

from benchmarks.tf1_models import MODELS

if __name__ == "__main__":
    import tensorflow.compat.v1 as tf

    warnings.simplefilter("ignore")
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    threads, described = int(sys.argv[1]), json.loads(sys.argv[2])
    config = tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    model = MODELS[described.pop("kind")](**described)
    step = model.trained(tf, lambda graph: tf.Session(graph=graph, config=config))
    for _ in sys.stdin:
        began = time.perf_counter()
        loss = step()
        print(json.dumps([1e3 * (time.perf_counter() - began), loss]), flush=True)
