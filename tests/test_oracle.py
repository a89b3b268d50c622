"""unspool computes what TensorFlow computes: 80 stored cases, every output, state, loss and gradient of each."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conformance.cases import Case, Computed, run_case
from conformance.compare import TOLERANCES, compare

FOLDER = Path(__file__).parent / "data" / "oracle"
CASES = [Case.load(path) for path in sorted(FOLDER.glob("case_*.npz"))]


def case_id(case: Case) -> str:
    kinds = "+".join(cell["kind"] for cell in case.spec["cells"])
    return f"{case.name}-{case.spec['loop']}-{kinds}-{case.spec['dtype']}"


def problems(case: Case, computed: Computed) -> dict[str, str]:
    return {comparison.key: comparison.problem for comparison in compare(case, computed) if comparison.problem}


def with_value(computed: Computed, key: str, value: np.ndarray | None) -> Computed:
    return replace(computed, values={**computed.values, key: value})


def test_there_are_80_cases():
    assert len(CASES) == 80


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_case(case: Case):
    computed = run_case(case)
    assert not problems(case, computed)
    # Nothing that TensorFlow computed was left out.
    wanted = {key for key in case.arrays if key.startswith(("out_", "state_", "loss", "grad"))}
    assert computed.values.keys() == wanted


# -- the comparison itself can fail ----------------------------------------------------------------------------------


@pytest.fixture(params=TOLERANCES)
def case(request: pytest.FixtureRequest) -> Case:
    return next(
        case
        for case in CASES
        if case.spec["dtype"] == request.param and case.spec["initial_state"] == [True] and case.spec["B"] > 1
    )


def test_a_perturbed_tensor_is_a_mismatch_whichever_it_is(case: Case):
    computed = run_case(case)
    for key, value in computed.values.items():
        assert value is not None
        wrong = value.copy()
        wrong.flat[-1] += 3 * TOLERANCES[case.spec["dtype"]] * max(1.0, np.abs(value).max())
        assert problems(case, with_value(computed, key, wrong)).keys() == {key}


@pytest.mark.parametrize(
    "change",
    [
        lambda value: np.full_like(value, np.nan),
        lambda value: value.astype("float16"),
        lambda value: value[None],
        lambda value: None,
    ],
    ids=["nan", "dtype", "shape", "no gradient"],
)
def test_a_gradient_that_is_no_number_or_of_another_kind_or_missing_is_a_mismatch(case: Case, change):
    computed = run_case(case)
    assert problems(case, with_value(computed, "grad_x", change(computed.values["grad_x"]))).keys() == {"grad_x"}


def test_no_gradient_is_right_where_tensorflow_has_zeros(case: Case):
    computed = run_case(case)
    zeros = replace(case, arrays={**case.arrays, "grad_x": np.zeros_like(case.arrays["grad_x"])})
    assert not problems(zeros, with_value(computed, "grad_x", None))


def test_a_result_that_is_not_there_is_a_mismatch(case: Case):
    computed = run_case(case)
    fewer = {key: value for key, value in computed.values.items() if key != "state_0"}
    assert problems(case, replace(computed, values=fewer)).keys() == {"state_0"}


def test_variables_in_another_order_are_a_mismatch(case: Case):
    computed = run_case(case)
    assert "variables" in problems(case, replace(computed, variables=computed.variables[::-1]))
