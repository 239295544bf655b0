"""Builds the graph that MNN trains: forward pass, backward pass and update, in the order in which they run.

MNN runs the operations of a saved graph in the order in which they lie in its file, and what updates
a parameter writes over it at once. So the order decides what is computed: all gradients must be there
before the first parameter changes, and a moment must be updated before it is used.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wattstep.engines.exported.folder import ExportedOptimizer, ExportedParameter
from wattstep.engines.exported.updates import Update
from wattstep.engines.mnn.library import load_mnn
from wattstep.errors import InvalidValueError

GRAPH: Final = "graph.mnn"
OPERATIONS: Final = "operations.json"
UPDATE: Final = "update:"  # goes before a parameter's name: the operation that updates it
LOSS: Final = "loss"
_CONVERTED: Final = (
    "__matmul_converted"  # what the converter adds where a product became a convolution
)
_LAYOUTS: Final = ("Reshape", "ConvertTensor", "Squeeze", "Unsqueeze", "Permute")
_CONSTANTS: Final = ("Const", "Trainable")
_GRADIENT: Final = re.compile(r"grad::(.*)(\d)")
Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class GraphOperation:
    """Operation of the graph, which MNN may run as several.

    Attributes:
        phase: "forward", "backward" or "optimizer".
        type: MNN's, e.g. "Convolution".
        node: Of the ONNX file for which it computes, e.g. "/model/stem/stem.0/Conv", or "loss"; "":
            none.
        operand: Number of the node's input whose gradient this is; -1: it is no such gradient.
    """

    phase: str
    type: str
    node: str = ""
    operand: int = -1


def read_operations(path: Path) -> dict[str, GraphOperation]:
    """What `TrainingGraph.save` wrote of its operations, by name."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return {name: GraphOperation(**each) for name, each in document.items()}


class TrainingGraph:
    """A network in MNN's expressions, to which loss, gradients and updates are added.

    Args:
        network: The converted network, whose output is "scores".
        inputs: Names of its inputs.
        nodes: Of the ONNX file, by the names of their outputs.

    Raises:
        InvalidValueError: MNN cannot work out its shapes.
    """

    def __init__(self, network: Path, inputs: Sequence[str], nodes: Mapping[str, str]) -> None:
        mnn = load_mnn()
        # The package's own functions cast every operand to the type that it has.
        from _mnncengine import _expr

        self._build, self._expressions = _expr, mnn.expr
        # Without the first, nothing that is built is ever updated, in silence.
        mnn.expr.lazy_eval(True)
        mnn.expr.set_lazy_mode(0)
        self._nodes = nodes
        self._operations: dict[str, GraphOperation] = {}
        self._visited = {*inputs}
        self._parameters: dict[str, Any] = {}
        self._runs: list[tuple[Any, Any]] = []  # what is computed, in order: place, value
        known = mnn.expr.load_as_dict(str(network))
        module = mnn.nn.load_module([known[name] for name in inputs], [known["scores"]], True)
        module.train(True)
        self._optimizer = mnn.optim.SGD(module, 0.0)  # for its gradients alone
        placed = [
            self._input(name, known[name].shape, known[name].dtype, known[name].data_format)
            for name in inputs
        ]
        scores = module.forward(placed if len(placed) > 1 else placed[0])
        self._scores = scores[0] if isinstance(scores, (list, tuple)) else scores
        try:
            self._shape = [int(size) for size in self._scores.shape]
        except TypeError as error:
            raise InvalidValueError("MNN cannot work out its shapes", id="cannot-export") from error
        values = self._describe(self._scores, "forward", "")
        self._constants = [
            each for each in values if each.op_type in _CONSTANTS and each.dtype == _expr.float
        ]
        self.parted = self._part([each for each in values if each.op_type == "Permute"])

    def _part(self, permutations: Sequence[Any]) -> int:
        """Puts a product with one between a convolution and a permutation of what it gives.

        Without it MNN fuses the gradient's layouts into something else, and the gradient of the
        convolution's weights is wrong.
        """
        parted = 0
        for each in permutations:
            source = each.inputs[0]
            while source.op_type in _LAYOUTS:
                source = source.inputs[0]
            if source.op_type.startswith("Convolution"):
                product = each.inputs[0] * self._number(1.0)
                self._describe(product, "forward", "")
                each.set_inputs([product])
                parted += 1
        return parted

    # --- the network ----------------------------------------------------------------------------

    def set_parameters(
        self,
        marked: Mapping[str, Array],
        initial: Mapping[str, Array],
        parameters: Sequence[ExportedParameter],
    ) -> None:
        """Gives parameters their names and initial values, and makes all others constant.

        Args:
            marked: By name, the values that the network was converted with, by which they are found:
                no two alike.
            initial: By name, those that it begins with.
            parameters: All.

        Raises:
            InvalidValueError: One of them is not in the converted network.
        """
        trainable = {each.name: each.trainable for each in parameters}
        for constant in self._constants:
            name, how = _find(np.asarray(constant.read(), np.float32), marked)
            if not name:
                if constant.op_type == "Trainable":  # e.g. the bias of a convolution that has none
                    constant.fix_as_const()
                continue
            array = np.asarray(initial[name], np.float32)
            if how == "repeated":  # which the converter made of a parameter that is expanded
                self._repeat(constant, name, array, trainable[name])
                continue
            self._place(constant, name, array.T if how == "turned" else array, trainable[name])
        lost = [each.name for each in parameters if each.name not in self._parameters]
        if lost:
            raise InvalidValueError(
                f"MNN's converter leaves no parameter {', '.join(lost[:3])}", id="cannot-export"
            )
        self._parameters = {name: self._parameters[name] for name in trainable if trainable[name]}

    def _place(self, constant: Any, name: str, array: Array, trainable: bool) -> None:
        """Puts a parameter in a constant's place; one that is shared lies once."""
        shape = list(constant.shape)
        if name in self._parameters:
            first = self._parameters[name]
            if [size for size in first.shape if size != 1] != [size for size in shape if size != 1]:
                raise InvalidValueError(
                    f"MNN has the shared parameter {name} in two layouts", id="cannot-export"
                )
            value = self._build.reshape(first, shape)
            self._describe(value, "forward", "")
            constant.replace(value)
            return
        value = self._constant(array, shape)
        if trainable:
            value.fix_as_trainable()
        value.name = name
        constant.replace(value)
        self._visited.add(name)
        self._parameters[name] = constant  # which has its gradient, as the other has not

    def _repeat(self, constant: Any, name: str, array: Array, trainable: bool) -> None:
        """Puts a parameter, as often as it is needed, in the place of a constant that repeats it."""
        shape = list(constant.shape)
        first = [1] * (len(shape) - array.ndim) + list(array.shape)
        if name in self._parameters or any(
            one not in (1, size) for one, size in zip(first, shape, strict=True)
        ):
            raise InvalidValueError(
                f"MNN's converter repeats the parameter {name}", id="cannot-export"
            )
        value = self._constant(array, first)
        if trainable:
            value.fix_as_trainable()
        value.name = name
        self._visited.add(name)
        constant.replace(value * self._constant(np.ones(shape), shape))
        self._describe(constant, "forward", "")
        self._parameters[name] = next(each for each in constant.inputs if each.name == name)

    # --- the loss -------------------------------------------------------------------------------

    def add_loss(self, loss: str, targets: tuple[int, ...]) -> None:
        """Loss and gradients.

        Args:
            loss: Of the specification.
            targets: Shape of the targets of a batch.

        Raises:
            InvalidValueError: There is no such loss here, or a parameter gets no gradient.
        """
        made = {"cross entropy": self._cross_entropy, "mean squared error": self._squared_error}
        if loss not in made:
            raise InvalidValueError(f"mnn's graph has no {loss} loss", id="cannot-export")
        scores, value, slope = made[loss](targets)
        value.name = LOSS
        self._describe(value, "forward", LOSS)
        self._runs.append((None, value))
        wanted = list(self._parameters.values())
        places, gradients = self._optimizer.grad([scores], [slope], wanted)
        by_name = {place.name: each for place, each in zip(places, gradients, strict=True)}
        still = [name for name in self._parameters if name not in by_name]
        if still:
            raise InvalidValueError(
                f"MNN has no gradient for {len(still)} of {len(wanted)} parameters: "
                + ", ".join(still[:3]),
                id="no-gradient",
            )
        self._gradients = by_name
        self._describe(slope, "backward", LOSS)

    def _cross_entropy(self, targets: tuple[int, ...]) -> tuple[Any, Any, Any]:
        """Scores as rows, the loss, and its derivative with respect to them, as torch takes both."""
        build, rows = self._build, math.prod(targets)
        scores, classes = self._scores, self._shape[1]
        if len(self._shape) > 2:  # classes stand second: (batch, classes, ...)
            order = [0, *range(2, len(self._shape)), 1]
            scores = build.transpose(scores, order)
        scores = build.reshape(build.convert(scores, build.NCHW), [rows, classes])
        labels = self._input("targets", [rows], build.int, build.NCHW)
        chosen = build.one_hot(labels, classes, 1.0, 0.0, 1)
        centred = scores - build.reduce_max(scores, [1], True)
        powers = build.exp(centred)
        total = build.reduce_sum(powers, [1], True)
        each = build.log(total) - build.reduce_sum(chosen * centred, [1], True)
        value = build.reduce_sum(each, [], False) * self._number(1 / rows)
        slope = (powers / total - chosen) * self._number(1 / rows)
        return scores, value, slope

    def _squared_error(self, targets: tuple[int, ...]) -> tuple[Any, Any, Any]:
        build, count = self._build, math.prod(targets)
        scores = build.convert(self._scores, build.NCHW)
        wanted = self._input("targets", list(targets), build.float, build.NCHW)
        error = scores - wanted
        value = build.reduce_sum(error * error, [], False) * self._number(1 / count)
        return scores, value, error * self._number(2 / count)

    # --- the update -----------------------------------------------------------------------------

    def add_updates(
        self, optimizer: ExportedOptimizer, parameters: Sequence[ExportedParameter]
    ) -> None:
        """What the optimizer does, see `updates`.

        Args:
            optimizer: A checked one.
            parameters: All.
        """
        decays = {each.name: each.decay for each in parameters}
        update = Update("mnn", optimizer.name, optimizer.options, optimizer.rate)
        scalars = {
            name: self._input(name, [], self._build.float, self._build.NCHW)
            for name in update.scalars(1)
        }
        later = []
        for name, gradient in reversed(self._gradients.items()):  # as the backward pass goes
            self._runs.append((None, gradient))
            place, decay = self._parameters[name], decays[name]
            states = _States(self, name, update.states)
            value = update(place, gradient, states, decay, scalars, self._build.sqrt)
            value.name = UPDATE + name
            later.append((place, value))
        self._runs += later

    def add_state(self, parameter: str, what: str) -> Any:
        """The place of something that is kept of a parameter from step to step, at first zero."""
        shape = list(self._parameters[parameter].shape)
        place = self._constant(np.zeros(shape, np.float32), shape)
        place.fix_as_trainable()
        place.name = f"{what}:{parameter}"
        self._visited.add(place.name)
        return place

    def set_state(self, place: Any, value: Any) -> None:
        """From here on what reads the place reads the value."""
        value.name = UPDATE + place.name
        self._runs.append((place, value))

    # --- the file -------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Writes the graph, and what its operations are for."""
        build = self._build
        for place, value in self._runs:
            phase = "backward" if place is None else "optimizer"
            self._describe(value, phase, "")
        # The last of what is saved runs first. What updates nothing is in the list for its place in
        # the order alone, as an update of something that is not there.
        nothing = build.placeholder([1], build.NCHW, build.float)
        nothing.name = "nothing"
        turned = self._runs[::-1]
        places = [nothing if place is None else place for place, _ in turned]
        self._optimizer.save_graph(
            str(folder / GRAPH), [self._runs[0][1]], places, [value for _, value in turned]
        )
        for output, node in self._nodes.items():  # of operations whose value has no name here
            self._operations.setdefault(output, GraphOperation(phase="forward", type="", node=node))
        document = {name: asdict(each) for name, each in self._operations.items()}
        (folder / OPERATIONS).write_text(json.dumps(document, indent=0) + "\n", encoding="utf-8")

    # --- expressions ----------------------------------------------------------------------------

    def _input(self, name: str, shape: Sequence[int], kind: Any, layout: Any) -> Any:
        value = self._build.placeholder(list(shape), layout, kind)
        value.name = name
        self._visited.add(name)
        return value

    def _constant(self, array: Array, shape: list[int]) -> Any:
        value = np.ascontiguousarray(array, np.float32)
        return self._expressions.const(value, shape, self._build.NCHW, self._build.float)

    def _number(self, value: float) -> Any:
        return self._expressions.const([float(value)], [], self._build.NCHW, self._build.float)

    def _describe(self, root: Any, phase: str, node: str) -> list[Any]:
        """Names what a value is computed from, so far as that was not done, and notes what it is for.

        Args:
            root: The value.
            phase: Of the step.
            node: For which it is computed. What has a node of its own belongs to that one, and so
                does what is computed for it.

        Returns:
            Everything that got a name.
        """
        values = []
        pending = [(root, node)]
        while pending:
            value, node = pending.pop()
            name = value.name
            if name in self._visited:
                continue
            values.append(value)
            own, operand = self._node(name)
            node = own or node
            # No digit at the end: MNN writes the number of an operand behind a name.
            numbered = f"{phase}{len(self._visited)}:"
            if value.op_type not in _CONSTANTS:
                key = name or numbered
                while key in self._operations:  # as MNN tells equal names apart
                    key += "_"
                self._operations[key] = GraphOperation(
                    phase=phase, type=value.op_type, node=node, operand=operand
                )
            if name != LOSS and not name.startswith(UPDATE):  # which are found by their names
                value.name = name = numbered
            self._visited.add(name)
            pending += [(each, node) for each in value.inputs]
        return values

    def _node(self, name: str) -> tuple[str, int]:
        """Node that a name tells of, "" where it tells of none, and the operand whose gradient it is, or -1."""
        if match := _GRADIENT.fullmatch(name):
            of = match[1]
            known = self._operations.get(of)
            node = known.node if known else self._nodes.get(of.removesuffix(_CONVERTED), "")
            return node, int(match[2])
        return self._nodes.get(name.removesuffix(_CONVERTED), ""), -1


class _States(dict[str, Any]):
    """The states of a parameter, which stay in their places when they are set."""

    def __init__(self, graph: TrainingGraph, parameter: str, names: Sequence[str]) -> None:
        super().__init__({name: graph.add_state(parameter, name) for name in names})
        self._graph = graph

    def __setitem__(self, name: str, value: Any) -> None:
        self._graph.set_state(self[name], value)


def _find(value: Array, marked: Mapping[str, Array]) -> tuple[str, str]:
    """Name of the parameter that has these values, "" for none, and how: "plain", "turned" or "repeated"."""
    flat = value.ravel()
    for name, array in marked.items():
        if flat.size % array.size:
            continue
        if flat.size != array.size:
            if np.array_equal(np.tile(array.ravel(), flat.size // array.size), flat):
                return name, "repeated"
        elif np.array_equal(array.ravel(), flat):
            return name, "plain"
        elif array.ndim == 2 and np.array_equal(array.T.ravel(), flat):
            return name, "turned"
    return "", "plain"
