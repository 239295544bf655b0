"""From a graph of torch's operations to the kernels of a training step: forward pass, backward pass, update."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from wattstep.engines.exported.aten import AtenGraph, Node
from wattstep.engines.exported.folder import ExportedOptimizer, ExportedParameter
from wattstep.engines.exported.updates import Update
from wattstep.engines.opencl.plan import (
    BUFFERS,
    FEATURES,
    GRADIENTS,
    INPUT,
    PARAMETERS,
    STATES,
    Argument,
    Launch,
    Operation,
    Plan,
    Tensor,
    Written,
)
from wattstep.engines.opencl.updating import update_source
from wattstep.engines.step_phases import BACKWARD, FORWARD, OPTIMIZER
from wattstep.errors import InvalidValueError

NAME: Final = "opencl"
# Numbers by which kernels know activations, by ATen's names.
ACTIVATIONS: Final[Mapping[str, int]] = {"relu": 1, "tanh": 2, "sigmoid": 3, "hardtanh": 4}
# What gives the values that it is given, in another shape.
VIEWS: Final = (
    "view", "reshape", "_unsafe_view", "flatten", "squeeze", "unsqueeze", "alias", "clone", "contiguous",
    "getitem", "broadcast_tensors",
)  # fmt: skip
# Parts of a tensor may begin at multiples of so many values, on all devices that are known.
ALIGNED: Final = 256
Shape = tuple[int, ...]
Handler = Callable[["Lowering", Node], None]


@dataclass(frozen=True, kw_only=True)
class Value:
    """A tensor in a shape."""

    tensor: Tensor
    shape: Shape


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a gradient is to be written.

    Attributes:
        written: The argument of the kernel.
        defines: Its constants: whether it adds, and the activation that it goes back through.
        further: Further arguments, after it.
    """

    written: Written
    defines: Mapping[str, int]
    further: tuple[Argument, ...] = ()


class Refusal(InvalidValueError):
    """A network that is not trained here, by the name of what is not."""

    def __init__(self, node: Node, why: str) -> None:
        where = f" ({node['layer']})" if node.get("layer") else ""
        super().__init__(f"{NAME} does not train {node['op']}{where}: {why}", id="cannot-export")


def handlers() -> Mapping[str, Handler]:
    """What lowers each operation, by ATen's names."""
    rooms = ("layers", "images", "pointwise", "losses")
    found: dict[str, Handler] = {}
    for room in rooms:
        found |= import_module(f"wattstep.engines.opencl.{room}").HANDLERS
    return found


def known() -> set[str]:
    """ATen's names of the operations that are trained here."""
    return {*handlers(), *VIEWS}


class Lowering:
    """A graph that becomes a plan.

    Args:
        graph: The loss of a batch.
        shapes: Of what a batch brings, by its place in the graph; and of tensors that are no parameters.
        parameters: All of the network.
        optimizer: How they are updated.
        fused: Whether kernels are joined: activations with what comes before them, loss with its
            gradient, gradients of linear layers with their update.

    Raises:
        InvalidValueError: Something in it is not trained here.
    """

    def __init__(
        self,
        graph: AtenGraph,
        shapes: Mapping[str, Shape],
        parameters: Sequence[ExportedParameter],
        optimizer: ExportedOptimizer,
        *,
        fused: bool,
    ) -> None:
        self.graph, self.fused = graph, fused
        self._update = Update(NAME, optimizer.name, optimizer.options, optimizer.rate)
        self._scalars = tuple(self._update.scalars(1))
        self._known = {each.name: each for each in parameters}
        self._nodes = _live(graph)
        self._users = _users(self._nodes)
        self.values: dict[str, Value] = {}
        self._lists: dict[str, list[Value]] = {}  # of nodes that give several
        counts = {name: math.prod(shapes[name]) for name in graph.inputs}
        self.inputs = _inputs({**counts, "scalars": len(self._scalars)}, together=fused)
        self._scalar_values = self.inputs.pop("scalars")
        self.parameters: dict[str, Tensor] = {}
        self._make_parameters()
        self.buffers = {
            name: Tensor(name=name, count=max(math.prod(shape), 1), category=BUFFERS)
            for name, shape in shapes.items()
            if name not in self.inputs
        }
        for name, tensor in {**self.inputs, **self.buffers}.items():
            self.values[name] = Value(tensor=tensor, shape=shapes[name])
        for place, name in graph.parameters.items():
            shape = self._known[name].shape
            self.values[place] = Value(tensor=self.parameters[name], shape=tuple(shape))
        self._trained = {
            self.parameters[name] for name, each in self._known.items() if each.trainable
        }
        self._needing = set(self._trained)  # tensors that a gradient is computed of
        self._consumers: Counter[Tensor] = Counter()  # that have not written their part of it yet
        self._gradients: dict[Tensor, Tensor] = {}
        self.updated: set[Tensor] = set()  # parameters whose gradient a kernel applies at once
        self.activations: dict[Tensor, int] = {}  # that the kernel before has made
        self.merged: set[str] = set()  # names of their nodes
        self.operations: list[Operation] = []
        self.backward: list[Callable[[], None]] = []
        self.losses: Tensor | None = None
        self.classes: int | None = None

    def plan(self) -> Plan:
        """The whole step."""
        found = handlers()
        for node in self._nodes:
            if node["op"] in VIEWS:
                self._view(node)
            elif node["name"] not in self.merged:
                found[node["op"]](self, node)
        if self.losses is None:
            raise InvalidValueError(
                f"{NAME} trains by cross entropy or squared errors alone", id="cannot-export"
            )
        for go_back in reversed(self.backward):
            go_back()
        self._updates()
        used = {
            tensor
            for operation in self.operations
            for launch in operation.launches
            for tensor in (*launch.reads, *launch.writes)
        }
        scalars = {"scalars": self._scalar_values} if self._scalars else {}
        return Plan(
            operations=self.operations,
            inputs={name: each for name, each in self.inputs.items() if each in used} | scalars,
            parameters=self.parameters,
            buffers={name: each for name, each in self.buffers.items() if each in used},
            losses=self.losses,
            classes=self.classes,
            update=update_source(self._update, self._scalars, decays=self._decays),
            scalars=self._scalars,
        )

    # --- values -----------------------------------------------------------------------------------

    def given(self, node: Node, place: int) -> Value:
        """A tensor among the arguments of a node."""
        argument = node["args"][place]
        if not isinstance(argument, dict) or argument.get("of") not in self.values:
            raise Refusal(node, f"its argument {place + 1} is no tensor that is known here")
        return self.values[argument["of"]]

    def optional(self, node: Node, place: int) -> Value | None:
        """A tensor that may be left out."""
        if len(node["args"]) <= place or node["args"][place] is None:
            return None
        return self.given(node, place)

    def made(self, node: Node, shape: Shape, *sources: Value) -> Value:
        """What a node gives, and after it the activation that its kernel makes as well, where it is fused.

        Args:
            node: The node.
            shape: Of its output.
            sources: Whose gradients depend on the output's.
        """
        tensor = Tensor(name=node["name"], count=math.prod(shape), category=FEATURES)
        value = Value(tensor=tensor, shape=shape)
        self.values[node["name"]] = value
        if any(each.tensor in self._needing for each in sources):
            self._needing.add(tensor)
        for each in sources:
            if each.tensor in self._needing:
                self._consumers[each.tensor] += 1
        return value

    def activate(self, node: Node, value: Value) -> dict[str, int]:
        """Constants of the kernel that makes `value`: the activation that alone follows, where kernels are fused."""
        after = self._sole_user(node["name"])
        if not self.fused or after is None or after["op"] not in ACTIVATIONS:
            return {}
        check_activation(after)
        self.merged.add(after["name"])
        self.values[after["name"]] = value
        self.activations[value.tensor] = ACTIVATIONS[after["op"]]
        return {"ACT": ACTIVATIONS[after["op"]]}

    def _sole_user(self, name: str) -> Node | None:
        users = self._users.get(name, [])
        if len(users) != 1:
            return None
        (user,) = users
        if user["op"] == "getitem":
            return self._sole_user(user["name"])
        return user

    def _view(self, node: Node) -> None:
        if node["op"] == "broadcast_tensors":
            self._lists[node["name"]] = parts = [
                self.values[each["of"]] for each in node["args"][0]
            ]
            if len({each.shape for each in parts}) > 1:
                raise Refusal(node, f"of shapes {', '.join(str(each.shape) for each in parts)}")
            return
        if (parts := self._lists.get(node["args"][0]["of"], [])) and node["op"] == "getitem":
            self.values[node["name"]] = parts[node["args"][1]]
            return
        value = self.given(node, 0)
        self.values[node["name"]] = Value(tensor=value.tensor, shape=_viewed(node, value.shape))

    # --- gradients --------------------------------------------------------------------------------

    def needs(self, value: Value) -> bool:
        """True if the loss has a gradient of it that matters."""
        return value.tensor in self._needing

    def gradient_of(self, value: Value) -> Tensor:
        """The gradient of what an operation gave, which all that came after it have written."""
        return self._gradients[value.tensor]

    def target(self, value: Value) -> Target:
        """Where an operation writes its part of the gradient of what it was given."""
        tensor = value.tensor
        before = tensor in self._gradients
        if not before:
            self._gradients[tensor] = self._regional.get(tensor) or Tensor(
                name=f"gradient of {tensor.name}",
                count=tensor.count,
                category=GRADIENTS if tensor in self._trained else FEATURES,
            )
        gradient = self._gradients[tensor]
        self._consumers[tensor] -= 1
        defines: dict[str, int] = {"ACCUMULATE": 1} if before else {}
        further: tuple[Argument, ...] = ()
        if tensor in self.activations and self._consumers[tensor] == 0:
            defines["DACT"] = self.activations[tensor]
            further = (tensor,)
        return Target(
            written=Written(tensor=gradient, read=before), defines=defines, further=further
        )

    def sole(self, value: Value | None) -> bool:
        """True if one operation alone has a part of its gradient."""
        return value is not None and self._consumers[value.tensor] == 1

    # --- operations -------------------------------------------------------------------------------

    def forward(self, node: Node, *launches: Launch) -> None:
        """Adds an operation of the forward pass."""
        self._add(node, f"aten::{node['op']}", FORWARD, launches)

    def back(self, node: Node, *launches: Launch) -> None:
        """Adds its counterpart."""
        if launches:
            self._add(node, f"aten::{node['op']}_backward", BACKWARD, launches)

    def _add(self, node: Node, name: str, phase: str, launches: Sequence[Launch]) -> None:
        self.operations.append(
            Operation(name=name, phase=phase, layer=node.get("layer"), launches=launches)
        )

    # --- updates ----------------------------------------------------------------------------------

    def _make_parameters(self) -> None:
        """Parameters with their states; those that are updated together lie in one region."""
        self._decays = any(each.decay for each in self._known.values() if each.trainable)
        self._states: dict[Tensor, list[Tensor]] = {}
        self._regional: dict[Tensor, Tensor] = {}
        self._regions: dict[float, tuple[Tensor, Tensor]] = {}
        at_once = self._updated_at_once() if self.fused else set()
        together: dict[float, list[ExportedParameter]] = {}
        for name, each in self._known.items():
            if self.fused and each.trainable and name not in at_once:
                together.setdefault(each.decay, []).append(each)
                continue
            tensor = Tensor(name=name, count=math.prod(each.shape), category=PARAMETERS)
            self.parameters[name] = tensor
            if each.trainable:
                self._states[tensor] = self._states_of(tensor)
        for decay, members in together.items():
            self._make_region(decay, members)

    def _make_region(self, decay: float, members: Sequence[ExportedParameter]) -> None:
        begins, count = [], 0
        for each in members:
            begins.append(count)
            count += -(-math.prod(each.shape) // ALIGNED) * ALIGNED
        region = Tensor(name="parameters", count=count, category=PARAMETERS)
        gradients = Tensor(name="gradients", count=count, category=GRADIENTS)
        self._regions[decay] = region, gradients
        self._states[region] = self._states_of(region)
        for each, begin in zip(members, begins, strict=True):
            count = math.prod(each.shape)
            self.parameters[each.name] = part = Tensor(
                name=each.name, count=count, category=PARAMETERS, within=(region, begin)
            )
            self._regional[part] = Tensor(
                name=f"gradient of {each.name}", count=count, category=GRADIENTS,
                within=(gradients, begin),
            )  # fmt: skip

    def _states_of(self, tensor: Tensor) -> list[Tensor]:
        return [
            Tensor(name=f"{state} of {tensor.name}", count=tensor.count, category=STATES)
            for state in self._update.states
        ]

    def _updated_at_once(self) -> set[str]:
        """Parameters of linear layers that are used once: their gradients need no place of their own."""
        names = self.graph.parameters
        uses = Counter(
            names[each] for node in self._nodes for each in _tensors(node["args"]) if each in names
        )
        chosen: set[str] = set()
        for node in self._nodes:
            if node["op"] == "linear":
                mine = [names[each] for each in _tensors(node["args"][1:]) if each in names]
                usable = all(uses[each] == 1 and self._known[each].trainable for each in mine)
                chosen.update(mine if usable and mine else ())
        return chosen

    def update_arguments(self, value: Value) -> tuple[Argument, ...] | None:
        """Arguments of the kernel's `update` of a parameter that is updated where its gradient is made.

        None: it is not.
        """
        if not self.fused or value.tensor not in self._states:
            return None
        self.updated.add(value.tensor)
        return self._arguments(value.tensor, self._decay_of(value.tensor))

    def _decay_of(self, tensor: Tensor) -> float:
        return self._known[tensor.name].decay

    def _arguments(self, tensor: Tensor, decay: float) -> tuple[Argument, ...]:
        return (
            Written(tensor=tensor, read=True),
            *(Written(tensor=state, read=True) for state in self._states[tensor]),
            *((float(decay),) if self._decays else ()),
            *((self._scalar_values,) if self._scalars else ()),
        )

    def _updates(self) -> None:
        for part in self._regional:
            if part not in self._gradients:
                raise InvalidValueError(
                    f"{NAME}: the loss does not depend on {part.name}, which is to train",
                    id="cannot-export",
                )
        for decay, (region, gradients) in self._regions.items():
            self._step(region, gradients, decay)
        for tensor in self._states:
            if tensor in self._gradients and tensor not in self.updated:
                self._step(tensor, self._gradients[tensor], self._decay_of(tensor))

    def _step(self, tensor: Tensor, gradient: Tensor, decay: float) -> None:
        launch = Launch(
            file="update", kernel="update_each", size=(tensor.count,), chunked=True, kind="optimizer",
            updates=True,
            arguments=(tensor.count, gradient, *self._arguments(tensor, decay)),
        )  # fmt: skip
        self.operations.append(
            Operation(name="opencl::update", phase=OPTIMIZER, layer=None, launches=(launch,))
        )


def _inputs(counts: Mapping[str, int], *, together: bool) -> dict[str, Tensor]:
    """What a batch brings, by name, in tensors of their own or as parts of one."""
    if not together:
        return {
            name: Tensor(name=name, count=count, category=INPUT) for name, count in counts.items()
        }
    sizes = [-(-count // ALIGNED) * ALIGNED for count in counts.values()]
    whole = Tensor(name="batch", count=sum(sizes), category=INPUT)
    begins = (sum(sizes[:at]) for at in range(len(sizes)))
    return {
        name: Tensor(name=name, count=count, category=INPUT, within=(whole, begin))
        for (name, count), begin in zip(counts.items(), begins, strict=True)
    }


def check_activation(node: Node) -> None:
    """Refuses bounds that no kernel has.

    Raises:
        InvalidValueError: With them.
    """
    bounds = tuple(float(each) for each in node["args"][1:3])
    if node["op"] == "hardtanh" and bounds != (0.0, 6.0):
        raise Refusal(node, f"bounds {bounds}, only 0 and 6 are")


def _tensors(arguments: Any) -> list[str]:
    """Names of the tensors among arguments."""
    if isinstance(arguments, dict):
        return [arguments["of"]] if "of" in arguments else []
    if isinstance(arguments, list):
        return [name for each in arguments for name in _tensors(each)]
    return []


def _live(graph: AtenGraph) -> list[Node]:
    """The nodes on which the loss depends."""
    wanted = {graph.loss}
    live: list[Node] = []
    for node in reversed(graph.nodes):
        if node["name"] in wanted:
            live.append(node)
            wanted.update(_tensors(node["args"]))
            wanted.update(_tensors(list(node["kwargs"].values())))
    return live[::-1]


def _users(nodes: Sequence[Node]) -> dict[str, list[Node]]:
    users: dict[str, list[Node]] = {}
    for node in nodes:
        for name in _tensors(node["args"]):
            users.setdefault(name, []).append(node)
    return users


def _viewed(node: Node, shape: Shape) -> Shape:
    """Shape of what a view gives.

    Raises:
        InvalidValueError: It is of a kind that is not known here.
    """
    op, arguments = node["op"], node["args"][1:]
    count = math.prod(shape)
    if op in ("view", "reshape", "_unsafe_view"):
        wanted = list(map(int, arguments[0]))
        rest = math.prod(each for each in wanted if each != -1)
        return tuple(count // rest if each == -1 else each for each in wanted)
    if op == "flatten":
        first, last = (int(each) % len(shape) for each in (*arguments, *(0, -1)[len(arguments) :]))
        return (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])
    if op == "unsqueeze":
        at = int(arguments[0]) % (len(shape) + 1)
        return (*shape[:at], 1, *shape[at:])
    if op == "squeeze":
        asked = arguments[0] if arguments else range(len(shape))
        axes = {each % len(shape) for each in ([asked] if isinstance(asked, int) else asked)}
        return tuple(size for at, size in enumerate(shape) if at not in axes or size != 1)
    if op == "getitem" and arguments != [0]:
        raise Refusal(node, "only the first of several results is")
    return shape
