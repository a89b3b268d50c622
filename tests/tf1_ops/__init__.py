"""Calls of TensorFlow's operations, by subject: `conformance/tf1_ops.py` notes what TensorFlow makes of each."""

from __future__ import annotations

from tests.tf1_ops import (
    arithmetic,
    arrays,
    control,
    ctc,
    custom_gradients,
    distributions,
    images,
    joining,
    keras,
    metrics,
    neural,
    operators,
    products,
    reductions,
    sampling,
    scattering,
    segments,
    slicing,
    sparse,
    strings,
)
from tests.tf1_ops.call import Call

CALLS: dict[str, dict[str, Call]] = {
    "arithmetic": arithmetic.CALLS,
    "operators": operators.CALLS,
    "reductions": reductions.CALLS,
    "products": products.CALLS,
    "arrays": arrays.CALLS,
    "slicing": slicing.CALLS,
    "joining": joining.CALLS,
    "neural": neural.CALLS,
    "images": images.CALLS,
    "control": control.CALLS,
    "scattering": scattering.CALLS,
    "segments": segments.CALLS,
    "distributions": distributions.CALLS,
    "sparse": sparse.CALLS,
    "sampling": sampling.CALLS,
    "ctc": ctc.CALLS,
    "strings": strings.CALLS,
    "metrics": metrics.CALLS,
    "custom_gradients": custom_gradients.CALLS,
    "keras": keras.CALLS,
}
"""By subject and name."""
