"""What a step reads by a global name: of its module, of other modules, of Python's and torch's own."""

from __future__ import annotations

import builtins
import contextvars
import decimal
import logging
import math
import os
import random
import sys
import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.cell_changes.table import Stages, change, made, module, unseen

BY_NAME = {
    "a name": ("", "GAIN"),
    "globals": ("", "globals()['GAIN']"),
    "vars of a module": ("import user_options", "vars(user_options)['GAIN']"),
    "getattr of a module": ("import user_options", "getattr(user_options, 'GA' + 'IN')"),
    "an imported module": ("import user_options", "user_options.GAIN"),
    "a module by another name": ("import user_options as o", "o.GAIN"),
    "a module in a module": ("import user_package.options", "user_package.options.GAIN"),
    "an import in the step": ("", "__import__('user_options').GAIN"),
    "the table of modules": ("import sys", "sys.modules['user_options'].GAIN"),
    "importlib": ("import importlib", "importlib.import_module('user_options').GAIN"),
    "eval": ("", "eval('GAIN')"),
    "a module's own getattr": ("import user_options", "user_options.DYNAMIC"),
}
SEEN = {"a name", "an imported module", "a module by another name", "a module in a module"}
"""Plain names and attributes; through the others a step can read anything, so that it may be refused."""


def _by_name(way: str) -> Any:
    def story(patch: pytest.MonkeyPatch) -> Stages:
        """What is read is not written in the code."""
        options = module(patch, "user_options", "GAIN = 0.5\ndef __getattr__(name): return GAIN")
        package = module(patch, "user_package", "", options=options, __path__=[])
        patch.setitem(sys.modules, "user_package.options", options)
        imports, expression = BY_NAME[way]
        own = module(patch, "user_own", f"{imports}\nGAIN = 0.5\ndef act(self, t): return t * {expression}")
        yield (cell := made(own.act))
        for gain in (0.7, 0.5):
            own.GAIN = options.GAIN = package.options.GAIN = gain
            yield cell

    story.__name__ = f"global_by_{way.replace(' ', '_')}"
    return (change if way in SEEN else unseen)(story)


for _way in BY_NAME:
    _by_name(_way)


@change
def import_statement_in_the_step(patch: pytest.MonkeyPatch) -> Stages:
    options = module(patch, "user_options", "GAIN = 0.5")
    own = module(patch, "user_own", "def act(self, t):\n    import user_options\n    return t * user_options.GAIN")
    yield (cell := made(own.act))
    options.GAIN = 0.7
    yield cell


@change
def import_from_in_the_step(patch: pytest.MonkeyPatch) -> Stages:
    options = module(patch, "user_options", "GAIN = 0.5")
    own = module(patch, "user_own", "def act(self, t):\n    from user_options import GAIN\n    return t * GAIN")
    yield (cell := made(own.act))
    options.GAIN = 0.7
    yield cell


@change
def module_is_replaced(patch: pytest.MonkeyPatch) -> Stages:
    own = module(patch, "user_own", "def act(self, t): return t * options.GAIN")
    own.options = module(patch, "user_options", "GAIN = 0.5")
    yield (cell := made(own.act))
    own.options = module(patch, "user_options", "GAIN = 0.7")
    yield cell


@change
def cell_class_in_a_module(patch: pytest.MonkeyPatch) -> Stages:
    text = """
        import torch
        from tests.cell_changes.table import Leaky, Stages
        GAIN = 0.5
        class Cell(Leaky):
            def act(self, t): return helper(t)
        def helper(t): return torch.tanh(t) * GAIN
    """
    own = module(patch, "user_own", text)
    yield (cell := own.Cell())
    own.GAIN = 0.7
    yield cell
    own.helper = torch.sigmoid
    yield cell


@change
def global_list_in_place(patch: pytest.MonkeyPatch) -> Stages:
    own = module(patch, "user_own", "LEVELS = [0.5]\ndef act(self, t): return t * LEVELS[0]")
    yield (cell := made(own.act))
    own.LEVELS[0] = 0.7
    yield cell


@change
def attribute_of_a_global_object(patch: pytest.MonkeyPatch) -> Stages:
    text = """
        class Options: pass
        options = Options()
        options.gain = 0.5
        def act(self, t): return t * options.gain
    """
    own = module(patch, "user_own", text)
    yield (cell := made(own.act))
    own.options.gain = 0.7
    yield cell


@change
def global_function(patch: pytest.MonkeyPatch) -> Stages:
    own = module(patch, "user_own", "def helper(t): return t * 0.5\ndef act(self, t): return helper(t)")
    yield (cell := made(own.act))
    own.helper = torch.tanh
    yield cell


@change
def global_of_a_function_within_the_step(patch: pytest.MonkeyPatch) -> Stages:
    text = """
        GAIN = 0.5
        def act(self, t):
            def inner(t): return (lambda t: t * GAIN)(t)
            return inner(t)
    """
    own = module(patch, "user_own", text)
    yield (cell := made(own.act))
    own.GAIN = 0.7
    yield cell


@change
def global_of_a_helper_in_another_module(patch: pytest.MonkeyPatch) -> Stages:
    other = module(patch, "user_other", "GAIN = 0.5\ndef helper(t): return t * GAIN")
    own = module(patch, "user_own", "from user_other import helper\nGAIN = 1\ndef act(self, t): return helper(t)")
    yield (cell := made(own.act))
    other.GAIN = 0.7
    yield cell


@change
def global_two_modules_away(patch: pytest.MonkeyPatch) -> Stages:
    far = module(patch, "user_far", "GAIN = 0.5\ndef gain(): return GAIN")
    module(patch, "user_other", "import user_far\nclass Other:\n    def gain(self): return user_far.gain()")
    own = module(patch, "user_own", "import user_other\ndef act(self, t): return t * user_other.Other().gain()")
    yield (cell := made(own.act))
    far.GAIN = 0.7
    yield cell


@change
def function_of_a_module(patch: pytest.MonkeyPatch) -> Stages:
    other = module(patch, "user_other", "def helper(t): return t * 0.5")
    own = module(patch, "user_own", "import user_other\ndef act(self, t): return user_other.helper(t)")
    yield (cell := made(own.act))
    other.helper = torch.tanh
    yield cell


@change
def same_text_in_two_modules(patch: pytest.MonkeyPatch) -> Stages:
    """Equal code objects, whose names mean different things."""
    one, two = (module(patch, name, "def helper(t): return t * GAIN") for name in ("user_one", "user_two"))
    one.GAIN, two.GAIN = 0.5, 0.7
    one_code, two_code = one.helper.__code__, two.helper.__code__
    assert one_code.co_code == two_code.co_code
    yield (cell := made(lambda self, t: self.squash(t), squash=one.helper))
    cell.squash = two.helper
    yield cell


@change
def same_text_and_file_in_two_modules(patch: pytest.MonkeyPatch) -> Stages:
    """As when a notebook runs a piece of code again: code objects that compare as equal."""
    one, two = (module(patch, "user_one", "def helper(t): return t * GAIN", GAIN=gain) for gain in (0.5, 0.7))
    assert one.helper.__code__ == two.helper.__code__
    yield (cell := made(lambda self, t: self.squash(t), squash=one.helper))
    cell.squash = two.helper
    yield cell


@change
def class_attribute_in_another_module(patch: pytest.MonkeyPatch) -> Stages:
    other = module(patch, "user_other", "class Options:\n    gain = 0.5")
    own = module(patch, "user_own", "from user_other import Options\ndef act(self, t): return t * Options.gain")
    yield (cell := made(own.act))
    other.Options.gain = 0.7
    yield cell


@change
def global_hides_a_builtin(patch: pytest.MonkeyPatch) -> Stages:
    own = module(patch, "user_own", "def act(self, t): return t * max(0.5, 0.1)")
    yield (cell := made(own.act))
    own.max = lambda *args: 0.7
    yield cell
    del own.max
    yield cell


@change
def global_appears(patch: pytest.MonkeyPatch) -> Stages:
    text = """
        def act(self, t):
            try: return t * GAIN
            except NameError: return t
    """
    own = module(patch, "user_own", text)
    yield (cell := made(own.act))
    own.GAIN = 0.7
    yield cell


@change
def builtin_is_patched(patch: pytest.MonkeyPatch) -> Stages:
    patch.setattr(builtins, "gain_of_all", 0.5, raising=False)
    own = module(patch, "user_own", "def act(self, t): return t * gain_of_all")
    yield (cell := made(own.act))
    patch.setattr(builtins, "gain_of_all", 0.7)
    yield cell


@change
def function_of_torch_is_patched(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: torch.tanh(t)))
    patch.setattr(torch, "tanh", torch.sigmoid)
    yield cell
    patch.undo()
    yield cell


@change
def function_of_nn_functional_is_patched(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: F.relu(t)))
    patch.setattr(F, "relu", torch.sigmoid)
    yield cell


@change
def function_below_a_module_of_torch_is_patched(patch: pytest.MonkeyPatch) -> Stages:
    """`nn.Linear.forward` reads `F.linear` by a global name of its own."""
    linear = F.linear
    yield (cell := made(lambda self, t: torch.tanh(t)))
    patch.setattr(F, "linear", lambda *args: 2 * linear(*args))
    yield cell


@change
def method_of_tensors_is_patched(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t.sigmoid()))
    patch.setattr(Tensor, "sigmoid", lambda t: torch.tanh(t))
    yield cell


@change
def function_of_math_is_patched(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * math.sqrt(4.0)))
    patch.setattr(math, "sqrt", lambda x: x)
    yield cell


@unseen
def environment_variable(patch: pytest.MonkeyPatch) -> Stages:
    """A mapping outside of Python, behind functions of `os`."""
    patch.setenv("USER_GAIN", "0.5")
    yield (cell := made(lambda self, t: t * float(os.environ["USER_GAIN"])))
    patch.setenv("USER_GAIN", "0.7")
    yield cell
    patch.setenv("USER_GAIN", "0.9")
    yield cell


@unseen
def environment_variable_by_getenv(patch: pytest.MonkeyPatch) -> Stages:
    """As above, by a function of the standard library."""
    yield (cell := made(lambda self, t: t * float(os.getenv("USER_GAIN", "0.5"))))
    patch.setenv("USER_GAIN", "0.7")
    yield cell


@unseen
def context_variable(patch: pytest.MonkeyPatch) -> Stages:
    """Its value is in the thread's context, in C."""
    gain = contextvars.ContextVar("gain", default=0.5)
    yield (cell := made(lambda self, t: t * gain.get()))
    gain.set(0.7)
    yield cell


@unseen
def thread_local(patch: pytest.MonkeyPatch) -> Stages:
    """Its attributes are others in every thread."""
    local = threading.local()
    local.gain = 0.5
    yield (cell := made(lambda self, t: t * local.gain))
    local.gain = 0.7
    yield cell


@unseen
def level_of_a_logger(patch: pytest.MonkeyPatch) -> Stages:
    """A logger asks the loggers above it, and caches what they say."""
    log = logging.getLogger("user.cell")
    yield (cell := made(lambda self, t: t * (0.5 if log.isEnabledFor(logging.DEBUG) else 0.7)))
    log.setLevel(logging.DEBUG)
    yield cell
    log.setLevel(logging.NOTSET)
    yield cell


@unseen
def decimal_context(patch: pytest.MonkeyPatch) -> Stages:
    """What a division gives is decided by a context in C."""

    def act(self: Any, t: Tensor) -> Tensor:
        return t * float(decimal.Decimal(1) / decimal.Decimal(3))

    with decimal.localcontext() as context:
        yield (cell := made(act))
        context.prec = 3
        yield cell


@unseen
def working_directory(patch: pytest.MonkeyPatch) -> Stages:
    """The system's, not Python's."""
    patch.chdir("/")
    yield (cell := made(lambda self, t: t * len(os.getcwd())))
    patch.chdir(os.path.dirname(os.__file__))
    yield cell


@unseen
def seed_of_random(patch: pytest.MonkeyPatch) -> Stages:
    """A step that reads the state of the generator, without drawing."""
    state = random.getstate()
    try:
        random.seed(1)
        yield (cell := made(lambda self, t: t * (random.getstate()[1][1] % 7 + 1)))
        random.seed(2)
        yield cell
    finally:
        random.setstate(state)


@unseen
def arguments_of_the_program(patch: pytest.MonkeyPatch) -> Stages:
    """A list of a module of Python's own."""
    patch.setattr(sys, "argv", ["program"])
    yield (cell := made(lambda self, t: t * len(sys.argv)))
    sys.argv.append("--fast")
    yield cell


@unseen
def frame_of_the_caller(patch: pytest.MonkeyPatch) -> Stages:
    """A step that looks up the stack sees what called it."""

    def depth(self: Any, t: Tensor) -> Tensor:
        return t * (0.5 if sys._getframe(1).f_globals.get("USER_FAST") else 0.7)

    yield (cell := made(depth))
    patch.setitem(sys.modules["tests.cell_changes.table"].__dict__, "USER_FAST", True)
    yield cell
