"""`TENSORFLOW_TESTS.md` says what is there, all of it, and nothing else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE.parent / "TENSORFLOW_TESTS.md"

# TensorFlow 1.15's tests, `test` left out; the last two of RNNCellTest are 1.13's.
TENSORFLOW_TESTS = {
    "python/kernel_tests/rnn_test.py": {
        "RNNTest": "InvalidSequenceLengthShape InvalidDtype BatchSizeFromInput ScalarStateIsAccepted "
        "UnbalancedOutputIsAccepted EagerMemory TensorArrayStateIsAccepted CellGetInitialState CellsBuild "
        "RNNWithKerasSimpleRNNCell RNNWithKerasGRUCell RNNWithKerasLSTMCell RNNWithStackKerasCell "
        "StaticRNNWithKerasSimpleRNNCell KerasAndTFRNNLayerOutputComparison SimpleRNNCellAndBasicRNNCellComparison "
        "BasicLSTMCellInterchangeWithLSTMCell RNNCellSerialization RNNCellActsLikeKerasRNNCellInProperScope",
    },
    "python/kernel_tests/rnn_cell_test.py": {
        "RNNTest": "InvalidSequenceLengthShape RNN Dropout DynamicCalculation Scope",
        "LSTMTest": "DType NoProjNoSharding ProjNoSharding ProjSharding CellClipping NoProjNoShardingSimpleStateSaver "
        "NoProjNoShardingTupleStateSaver NoProjNoShardingNestedTupleStateSaver StateTupleWithProjAndSequenceLength "
        "DoubleInput DoubleInputWithDropoutAndDynamicCalculation ShardNoShardEquivalentOutput SharingWeightsWithReuse "
        "SharingWeightsWithDifferentNamescope DynamicRNNAllowsUnknownTimeDimension DynamicRNNWithTupleStates "
        "DynamicRNNWithNestedTupleStates DynamicEquivalentToStaticRNN DynamicEquivalentToStaticRNNWithSequenceLength",
        "BidirectionalRNNTest": "BidirectionalRNN BidirectionalRNNWithoutSequenceLength BidirectionalDynamicRNN "
        "BidirectionalRNNScope BidirectionalDynamicRNNScope",
        "MultiDimensionalLSTMTest": "MultiDimensionalLSTMAllRNNContainers",
        "NestedLSTMTest": "NestedIOLSTMAllRNNContainers",
        "StateSaverRNNTest": "StateSaverRNNScope StateSaverCallsSaveState",
        "GRUTest": "Dynamic DynamicScope",
        "RawRNNTest": "RawRNN RawRNNZeroLength LoopState LoopStateWithTensorArray EmitDifferentStructureThanCellOutput "
        "RawRNNScope",
        "TensorArrayOnCorrectDeviceTest": "RNNOnCPUCellOnGPU RNNOnCPUCellOnCPU InputOnGPUCellNotDeclared",
        "RNNCellTest": "BasicRNNCell BasicRNNCellNotTrainable GRUCell BasicLSTMCell BasicLSTMCellDimension0Error "
        "BasicLSTMCellStateSizeError BasicLSTMCellStateTupleType BasicLSTMCellWithStateTuple LSTMCell "
        "LSTMCellVariables WrapperCheckpointing ResidualWrapper ResidualWrapperWithSlice DeviceWrapper "
        "DeviceWrapperDynamicExecutionNodesAreAllProperlyLocated MultiRNNCell MultiRNNCellWithStateTuple "
        "DeviceWrapperSerialization ResidualWrapperSerialization DropoutWrapperSerialization Linear "
        "WrappedCellProperty",
        "DropoutWrapperTest": "DropoutWrapperProperties DropoutWrapperZeroState DropoutWrapperKeepAllConstantInput "
        "DropoutWrapperKeepAll DropoutWrapperWithSeed DropoutWrapperKeepNoOutput "
        "DropoutWrapperKeepNoStateExceptLSTMCellMemory DropoutWrapperKeepNoInput DropoutWrapperRecurrentOutput "
        "DropoutWrapperRecurrentStateInputAndOutput DropoutWrapperRecurrentStateInputAndOutputWithSeed",
    },
    "contrib/rnn/python/kernel_tests/rnn_test.py": {
        "StackBidirectionalRNNTest": "StackBidirectionalRNN BidirectionalRNN StackBidirectionalRNNScope "
        "BidirectionalDynamicRNNScope",
    },
    "contrib/rnn/python/kernel_tests/rnn_cell_test.py": {
        "RNNCellTest": "OutputProjectionWrapper InputProjectionWrapper EmbeddingWrapper "
        "EmbeddingWrapperWithDynamicRnn HighwayWrapper",
    },
    "contrib/seq2seq/python/kernel_tests/decoder_test.py": {
        "DynamicDecodeRNNTest": "DynamicDecodeRNNBatchMajor DynamicDecodeRNNTimeMajor DynamicDecodeRNNZeroMaxIters "
        "DynamicDecodeRNNOneMaxIter DynamicDecodeRNNWithTrainingHelperMatchesDynamicRNNWithSeqLen "
        "DynamicDecodeRNNWithTrainingHelperMatchesDynamicRNNNoSeqLen",
    },
    "contrib/seq2seq/python/kernel_tests/basic_decoder_test.py": {
        "BasicDecoderTest": "StepWithTrainingHelperNoOutputLayer StepWithTrainingHelperWithOutputLayer "
        "StepWithGreedyEmbeddingHelper StepWithSampleEmbeddingHelper StepWithScheduledEmbeddingTrainingHelper "
        "StepWithScheduledOutputTrainingHelperWithoutNextInputsFnOrAuxInputs "
        "StepWithScheduledOutputTrainingHelperWithNextInputsFn "
        "StepWithScheduledOutputTrainingHelperWithAuxiliaryInputs "
        "StepWithScheduledOutputTrainingHelperWithNextInputsFnAndAuxInputs "
        "StepWithScheduledOutputTrainingHelperWithNoSampling StepWithInferenceHelperCategorical "
        "StepWithInferenceHelperMultilabel",
    },
    "contrib/seq2seq/python/kernel_tests/loss_test.py": {
        "LossTest": "SequenceLoss SequenceLossClass SumReduction WeightedSumReduction ZeroWeights",
    },
    "contrib/seq2seq/python/kernel_tests/beam_search_decoder_test.py": {
        "TestGatherTree": "_gather_tree _gather_tree_from_array_scalar _gather_tree_from_array_1d "
        "_gather_tree_from_array_1d_with_merged_batch_beam _gather_tree_from_array_2d "
        "_gather_tree_from_array_complex_trajectory",
        "TestArrayShapeChecks": "_array_shape_dynamic_checks",
        "TestEosMasking": "_eos_masking",
        "TestBeamStep": "_step _step_with_eos",
        "TestLargeBeamStep": "_step",
        "BeamSearchDecoderTest": "DynamicDecodeRNNBatchMajorNoAttention DynamicDecodeRNNBatchMajorYesAttention "
        "DynamicDecodeRNNBatchMajorYesAttentionWithAlignmentHistory",
        "BeamSearchDecoderV2Test": "DynamicDecodeRNNBatchMajorNoAttention DynamicDecodeRNNBatchMajorYesAttention "
        "DynamicDecodeRNNBatchMajorYesAttentionWithAlignmentHistory",
    },
    "contrib/seq2seq/python/kernel_tests/beam_search_ops_test.py": {
        "GatherTreeTest": "GatherTreeOne BadParentValuesOnCPU BadParentValuesOnGPU GatherTreeBatch",
    },
    "contrib/seq2seq/python/kernel_tests/attention_wrapper_test.py": {
        "AttentionWrapperTest": "AttentionWrapperState AttentionWrapperStateShapePropgation BahdanauNormalizedDType "
        "BahdanauNotNormalized BahdanauNormalized LuongNotNormalized LuongScaledDType LuongScaled NotUseAttentionLayer "
        "_safe_cumprod _monotonic_attention BahdanauMonotonicNotNormalized BahdanauMonotonicNormalized "
        "BahdanauMonotonicHard LuongMonotonicNotNormalized LuongMonotonicScaled LuongMonotonicHard MultiAttention "
        "MultiAttentionWithLayerInstances MultiAttentionNoAttentionLayer SingleAttentionAsList CustomizedAttention",
    },
    "contrib/seq2seq/python/kernel_tests/attention_wrapper_v2_test.py": {
        "AttentionMechanismTest": "_attention_shape_inference _get_config _layer_output _passing_memory_from_call "
        "_save_load_layer",
        "AttentionWrapperV2Test": "BahdanauNotNormalized BahdanauNormalized LuongNotNormalized LuongScaled "
        "NotUseAttentionLayer BahdanauMonotonicNotNormalized BahdanauMonotonicNormalized BahdanauMonotonicHard "
        "LuongMonotonicNotNormalized LuongMonotonicScaled LuongMonotonicHard",
    },
}


def rows():
    """`(file, class and test, what it pins, our test)` for every row of the tables of tests."""
    file = None
    for line in TABLE.read_text().splitlines():
        if line.startswith("## "):
            file = line.removeprefix("## ")
        elif file and line.startswith("| ") and not line.startswith("| TensorFlow's test"):
            yield file, *(cell.strip() for cell in line.strip("|").split("|"))


def named_tests():
    """Every `file::test` that the table names."""
    ours = [test.strip() for _, _, _, tests in rows() if not tests.startswith("n/a") for test in tests.split(",")]
    return sorted(ours)


def existing_tests():
    """Every `file::test` of this folder but those of this file."""
    return sorted(
        f"{path.name}::{node.name}"
        for path in HERE.glob("test_tf_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def test_every_test_of_tensorflow_has_a_row():
    known = [
        (file, group, name)
        for file, groups in TENSORFLOW_TESTS.items()
        for group in groups
        for name in groups[group].split()
    ]
    found = [(file, *re.fullmatch(r"(\w+)\._?test(\w+)", theirs).groups()) for file, theirs, _, _ in rows()]
    assert sorted(found) == sorted(known)


def test_every_test_the_table_names_exists_and_every_test_is_named_once():
    assert named_tests() == existing_tests()


def test_every_row_says_what_it_pins_and_what_is_not_there_says_why():
    for _, theirs, pins, ours in rows():
        assert pins, theirs
        assert re.fullmatch(r"n/a: .{20,}|test_tf_\w+\.py::test_\w+(, test_tf_\w+\.py::test_\w+)*", ours), theirs


def test_our_names_come_from_theirs():
    """The first test of a row bears TensorFlow's name, in snake case, so that one is found by the other."""
    for _, theirs, _, ours in rows():
        if not ours.startswith("n/a"):
            name = theirs.split(".test")[-1].split("._test")[-1].lower().replace("_", "")
            assert ours.split(",")[0].split("::test_")[1].replace("_", "") == name
