"""Fingerprint of a cell: everything that the code of its step can reach, as one hashable key.

A trace takes numbers, flags and functions as they are at the time, so a plan holds while those are the same. They are
found by following references from the cell: the attributes that reachable code names, classes along the MRO, functions
with their closures, defaults and globals, containers and arrays by content. An attribute that no reachable code names
cannot be read by it, and may change.
"""

from __future__ import annotations

import abc
import decimal
import operator
import sys
import types
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.building import Buildable
from unspool.engine.guards.libraries import Same, is_fixed_class, methods_of
from unspool.engine.guards.names import (
    CALLED_BY_TORCH,
    MAKING,
    READ_BY_LOOPS,
    SHOWING,
    TORCH,
    is_fixed,
    is_fixed_module,
    names_of,
    nested,
)
from unspool.engine.guards.nodes import (
    UNSEEN,
    CannotGuardError,
    Key,
    Reached,
    check_keys,
    content_of,
    differing,
    joined,
    kind_name,
    read_attributes,
)
from unspool.engine.guards.slots import HOOKS, Absent, atom, attributes_of, globals_of, slots_of

MOST_NODES = 20_000
"""Objects that a step may reach; beyond that, to look at all of them would take longer than the loop."""

TENSOR, SPECIAL = " as a tensor", "special methods"
"""The slots under which a tensor's shape, and the special methods of a library's class, are noted."""
UNREAD = (TENSOR, SPECIAL)
"""What a step that runs again need not find unchanged: it is given its tensors, and tracers patch modules."""


class Fingerprint:
    """What the step of a cell can reach.

    Tensors are marked by their shapes alone, since a plan reads them at every call.

    Raises:
        CannotGuardError: if something that it reaches cannot be told from what it will be later.

    >>> linear = nn.Linear(2, 3)
    >>> before = Fingerprint(linear)
    >>> linear.eval().bias.data.zero_()
    tensor([0., 0., 0.])
    >>> Fingerprint(linear).differences(before.key)
    ['training']
    """

    def __init__(self, cell: Any) -> None:
        self.tensors: list[Tensor] = []
        """The tensors that the step may read, parameters and buffers of its modules among them, always in one order."""
        self.codes: dict[int, types.CodeType] = {}
        """The code that may run in a step, by its identity."""
        self.nodes: list[Reached] = []
        self.read: dict[int, tuple[str, ...]] = {}
        """The names that are read of Python modules and among the globals of functions, by the number of their node."""
        self._numbers: dict[int, int] = {}
        self._queue: deque[tuple[int, bool]] = deque()
        self._unread: deque[types.CodeType] = deque()
        self._entries: list[tuple[int, str, Hashable]] = []
        self._names = dict.fromkeys([*READ_BY_LOOPS, *CALLED_BY_TORCH])
        self._own_names: set[str] = set()
        self._computed = False
        self._waiting: dict[str, list[tuple[int, int, Any]]] = {}
        self._unmade: set[int] = set()
        self._add(cell, "", (-1, 0), tolerant=False)
        for module in (torch, nn.functional):
            self._add(module, module.__name__, (-1, 0), tolerant=True)
        self._add_class(Tensor, (-1, 0))
        while self._queue or self._unread:
            if self._unread:
                self._name_all(self._unread.popleft())
            else:
                self._visit(*self._queue.popleft())
        self.key: Key = tuple(self._entries)

    def differences(self, key: Key, *, tensors: bool = True) -> list[str]:
        """The names of what is not as it was when the key was made; of tensors, only if they count too."""
        places = [place for place in differing(key, self.key) if tensors or place[1] not in UNREAD]
        named = [self._place(*place) for place in places if place[0] < len(self.nodes)]
        return list(dict.fromkeys(named)) or ["its structure"] * bool(places)

    def _place(self, number: int, slot: str) -> str:
        """A slot by name; for one of a container, the container."""
        inside = slot == TENSOR or slot.startswith(("[", " "))
        return joined(self.nodes[number].path, "" if inside else slot)

    # -- marks --------------------------------------------------------------------------------------------------------

    def _mark(self, value: Any, path: str, parent: tuple[int, int], tolerant: bool) -> Hashable:
        """What tells a value from others: its own, or the number of its node."""
        found = atom(value)
        if isinstance(value, operator.attrgetter):
            self._name(tuple(name for path in value.__reduce__()[1] for name in path.split(".")))
        if found is not None:
            return found
        if value is Absent:
            return "absent"
        if isinstance(value, types.FunctionType) and not value.__closure__ and is_fixed(value.__code__.co_filename):
            code = value.__code__
            if not (code.co_name.startswith("__") and code.co_filename.startswith(TORCH)):  # which read no attributes
                self._reach(code)
            return Same(value)
        if isinstance(value, type) and is_fixed_class(value):
            if isinstance(value, abc.ABCMeta):
                self._add_class(value, parent)
            if value is decimal.Decimal:
                raise CannotGuardError("decimal.Decimal, which computes by a context whose changes cannot be seen")
            return Same(value)
        return ("node", self._add(value, path, parent, tolerant))

    def _add(self, value: Any, path: str, parent: tuple[int, int], tolerant: bool) -> int:
        found = self._numbers.get(id(value))
        if found is not None:
            if isinstance(value, type):
                self._make(value)
            return found
        number = self._numbers[id(value)] = len(self.nodes)
        if number > MOST_NODES:
            raise CannotGuardError(f"more than {MOST_NODES} objects can be reached from the step, {path} among them")
        if isinstance(value, Tensor):
            self.tensors.append(value)
            self.nodes.append(Reached(value, path, None, [], parent))
            ordinary = type(value) in (Tensor, nn.Parameter, nn.Buffer)
            kind = Tensor if ordinary else type(value)
            look = (kind, value.shape, value.dtype, value.device, value.requires_grad)
            self._entries.append((number, TENSOR, look))
            if ordinary and value.__dict__:
                self.nodes[number] = Reached(value, path, read_attributes, list(value.__dict__), parent)
                self._queue.append((number, tolerant))
            return number
        if isinstance(value, types.ModuleType):
            self.nodes.append(Reached(value, path, None, [], parent))
            self._entries.append((number, "", value.__name__))
        elif (content := content_of(value, path)) is not None:
            self.nodes.append(Reached(value, path, content, [""], parent, by_content=True))
            self._entries.append((number, "", (value.__class__, *content(value))))
            return number
        else:
            slots = slots_of(value)
            opaque = slots is None or isinstance(value, UNSEEN)
            if opaque and not tolerant:
                raise CannotGuardError(f"{path or 'the cell'}, a {kind_name(value)}, whose changes cannot be seen")
            read, names = (None, []) if slots is None or opaque else slots
            self.nodes.append(Reached(value, path, read, names, parent))
            self._entries.append((number, "", Same(value.__class__)))
            if opaque:
                self._entries.append((number, "itself", Same(value)))
                return number
        self._queue.append((number, tolerant))
        return number

    def _emit(self, number: int, slot: str, value: Any, place: int, tolerant: bool) -> None:
        path = joined(self.nodes[number].path, slot)
        self._entries.append((number, slot, self._mark(value, path, (number, place), tolerant)))

    # -- code ---------------------------------------------------------------------------------------------------------

    def _reach(self, code: types.CodeType) -> None:
        """Notes that the code of a function may run."""
        if id(code) not in self.codes:
            self.codes.update((id(each), each) for each in nested(code))
            self._unread.append(code)

    def _name_all(self, code: types.CodeType) -> None:
        """Takes up all attributes that code names."""
        names = names_of(code)
        fixed = is_fixed(code.co_filename)
        if not fixed:
            self._own_names.update((*names.attributes, *names.globals))
        self._name(names.attributes)
        for name in () if fixed else names.modules:
            if name in sys.modules:
                self._add(sys.modules[name], name, (-1, 0), tolerant=True)
        if names.computed and not fixed and not self._computed:
            self._computed = True
            waiting, self._waiting = self._waiting, {}
            for name, slots in waiting.items():
                for number, place, value in slots:
                    self._name_or_wait(number, name, value, place, implied=False)

    def _name(self, names: Sequence[str]) -> None:
        """Takes up all attributes of these names."""
        for name in names:
            if name not in self._names:
                self._names[name] = None
                for number, place, value in self._waiting.pop(name, ()):
                    self._emit(number, name, value, place, tolerant=False)
                for number in list(self.read):
                    self._look_up(number, name)

    def _look_up(self, number: int, name: str) -> None:
        """Takes up what a Python module has under a name."""
        module = self.nodes[number].value
        if isinstance(module, types.ModuleType) and name in module.__dict__ and name not in self.read[number]:
            place = len(self.read[number])
            self.read[number] = (*self.read[number], name)
            value = module.__dict__[name]
            fixed = is_fixed_module(module)
            if isinstance(value, types.ModuleType) and name not in self._own_names:
                self._entries.append((number, name, Same(value)))  # which only torch goes into
            elif fixed and isinstance(value, types.FunctionType):
                self._entries.append((number, name, Same(value)))
            else:
                self._emit(number, name, value, place, tolerant=fixed)

    # -- visits -------------------------------------------------------------------------------------------------------

    def _visit(self, number: int, tolerant: bool) -> None:
        node = self.nodes[number]
        value = node.value
        if isinstance(value, types.ModuleType):
            self.read[number] = ()
            for name in [name for name in self._names if name in value.__dict__]:
                self._look_up(number, name)
        elif isinstance(value, types.FunctionType):
            self._visit_function(number, value, tolerant)
        elif isinstance(value, type):
            self._visit_class(number, value)
            self._make(value)
        elif isinstance(value, nn.Module) and not isinstance(value, torch.jit.ScriptModule):
            self._visit_module(number, value)
        elif node.names and node.names[0] == "__class__":
            self._visit_instance(number, value)
        else:
            if isinstance(value, dict | set | frozenset):
                check_keys(node, self.nodes[0].value)
            for place, (slot, each) in enumerate(zip(node.names, node.slots(), strict=True)):
                self._emit(number, slot, each, place, tolerant)

    def _visit_function(self, number: int, function: types.FunctionType, tolerant: bool) -> None:
        code = function.__code__
        self._entries.append((number, "__code__", Same(code)))
        self._reach(code)
        names = self.nodes[number].names
        for place, value in enumerate(self.nodes[number].slots()):
            if names[place] not in ("__code__", "__globals__"):
                self._emit(number, names[place], value, place, tolerant or is_fixed(code.co_filename))
        if is_fixed(code.co_filename):
            return
        self.read[number] = named = names_of(code).globals
        module = function.__globals__.get("__name__", "globals")
        for place, (name, value) in enumerate(zip(named, globals_of(function, named), strict=True)):
            mark = self._mark(value, f"{module}.{name}", (number, len(names) + place), tolerant=False)
            self._entries.append((number, f"global {name}", mark))

    def _visit_class(self, number: int, kind: type) -> None:
        node = self.nodes[number]
        self._unmade.add(number)
        self._entries.append((number, "", Same(kind)))
        if isinstance(kind, abc.ABCMeta):
            self._entries.append((number, "register", abc.get_cache_token()))
        for place, base in enumerate(kind.__mro__[1:], 3):
            if base.__module__ not in ("builtins", "torch._C"):  # whose classes cannot be changed
                self._add_class(base, (number, place))
        if kind.__class__ is not type:
            self._emit(number, "__class__", kind.__class__, 0, tolerant=False)
        start = len(node.names) - len(kind.__dict__)
        if is_fixed_class(kind):
            special, others = methods_of(kind)
            self._entries.append((number, SPECIAL, special))
            for place, name, value in others:
                self._name_or_wait(number, name, value, start + place, implied=False)
            return
        for place, (name, value) in enumerate(kind.__dict__.items()):
            self._name_or_wait(number, name, value, start + place, implied=name not in MAKING)

    def _make(self, kind: type) -> None:
        """Takes up what makes objects of a class that the step has hold of: `__init__` may be that of a base."""
        made = self._unmade & {self._numbers.get(id(base), -1) for base in kind.__mro__}
        self._unmade -= made
        for name in MAKING if made else ():
            for number, place, value in list(self._waiting.get(name, ())):
                if number in made and callable(value):
                    self._emit(number, name, value, place, tolerant=False)

    def _add_class(self, kind: type, parent: tuple[int, int]) -> None:
        """A class along an MRO: also of torch's classes, the methods are marked."""
        if id(kind) not in self._numbers:
            slots = slots_of(kind)
            assert slots is not None
            number = self._numbers[id(kind)] = len(self.nodes)
            self.nodes.append(Reached(kind, kind.__qualname__, *slots, parent))
            self._visit_class(number, kind)

    def _name_or_wait(self, number: int, name: str, value: Any, place: int, *, implied: bool) -> None:
        """Takes up an attribute that code names or that runs without being named; else once it is named."""
        special = implied and name.startswith("__") and name.endswith("__") and callable(value)
        if name in SHOWING or (value is None and special):
            return
        owner = self.nodes[number].value
        computed = self._computed and not (isinstance(owner, type) and is_fixed_class(owner))
        if special or name in self._names or computed:
            self._emit(number, name, value, place, tolerant=False)
        else:
            self._waiting.setdefault(name, []).append((number, place, value))

    def _visit_module(self, number: int, module: nn.Module) -> None:
        node, fixed = self.nodes[number], is_fixed_class(module.__class__)
        values = node.slots()
        self._add_class(module.__class__, (number, 0))
        own = module.__dict__
        attributes = len(attributes_of(module))
        registered = sum(len(own[each]) for each in ("_parameters", "_buffers", "_modules"))
        unread = {"built", "building", "built_for"} if isinstance(module, Buildable) else set[str]()
        start = len(values) - attributes - registered
        for place in range(start, len(values)):
            name, value = node.names[place], values[place]
            if place >= start + attributes or (fixed and name not in unread):
                self._emit(number, name, value, place, tolerant=fixed)
            elif name not in unread:
                self._name_or_wait(number, name, value, place, implied=False)
        self._entries += [(number, kind, bool(own[kind])) for kind in HOOKS]

    def _visit_instance(self, number: int, value: Any) -> None:
        node, fixed = self.nodes[number], is_fixed_class(value.__class__)
        values = node.slots()
        self._add_class(value.__class__, (number, 0))
        for place, (name, each) in list(enumerate(zip(node.names, values, strict=True)))[1:]:
            if fixed or name.startswith("["):
                self._emit(number, name, each, place, tolerant=fixed)
            else:
                self._name_or_wait(number, name, each, place, implied=False)
