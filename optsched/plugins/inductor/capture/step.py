"""Capture of the joint graph of a training step from an eager model.

AOTAutograd traces forward pass, loss and backward pass in fake tensors into one graph, and the
capture stops before the graph is divided or compiled. Nothing is computed. Parameters, inputs and
gradients of the loss are inputs of the graph that the caller holds; the loss and the gradients of
the parameters are its outputs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from optsched.errors import FormatError, MissingDependencyError, UsageError
from optsched.formats.fx.live import from_fx
from optsched.model.graph import Graph
from optsched.runtime.keywords import keywords

Loss = Callable[..., Any]
MODULE = "module"
"""Key of a node's notes."""


@keywords
def capture_step(
    model: Any,
    batch: Any,
    loss: Loss | None = None,
    *,
    fake_cuda: bool = False,
    name: str = "",
) -> Graph:
    """Return the joint graph of a training step of an eager PyTorch model, without running it.

    Parameters
    ----------
    model
        A `torch.nn.Module`, in the mode (`train` or `eval`) to plan.
    batch
        Inputs of the model: a tensor, a tuple of positional or a mapping of keyword arguments. If
        `loss` takes two arguments, a pair of the inputs and the target.
    loss
        Function of the model's output, or of output and target, that returns the loss; a module
        such as `torch.nn.CrossEntropyLoss()` as well (default: the model's output is the loss, or
        has it as attribute `loss`).
    fake_cuda
        True to plan for tensors on a GPU, which need not exist; the ops are those traced on the
        CPU.
    name
        Name of the graph (default: the class of the model).

    Returns
    -------
    Graph
        Forward ops, loss and backward ops, named `MODULE/OP`; sizes in bytes. Plan it with
        :func:`solve` or :func:`recompute`, or write it with :func:`write_graph`.

    Raises
    ------
    UsageError
        If the loss is not one number, or does not depend on a parameter that needs a gradient.
    FormatError
        If the step cannot be traced; the message has the first line of PyTorch's own.
    MissingDependencyError
        If PyTorch is not installed.

    Examples
    --------
    >>> import torch
    >>> from optsched import capture_step, solve
    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.GELU())
    >>> batch = torch.randn(32, 64), torch.randint(8, (32,))
    >>> graph = capture_step(model, batch, torch.nn.CrossEntropyLoss())
    >>> solve(graph).status.value
    'optimal'
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise MissingDependencyError("torch", "torch") from None
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    # What `torch.compile` returns holds the eager model.
    model = getattr(model, "_orig_mod", model)
    inputs, target = _divide(batch, loss)
    with _named_modules(model) as preserved, preserved:
        traced = _trace(model, inputs, target, loss)
    modules = {node.name: node.meta.get("custom", {}).get(MODULE) for node in traced.graph.nodes}
    if fake_cuda:
        from optsched.plugins.inductor.capture import fake_cuda as device

        device.move_graph(traced, ())
    graph = from_fx(traced, name=name or type(model).__name__)
    # The path of a module tells where an op is, and what checkpoints of modules are near to a plan.
    named = (
        replace(op, name=f"{m}/{op.name}") if (m := modules.get(op.name)) else op
        for op in graph.ops
    )
    return replace(graph, ops=tuple(named))


@contextmanager
def _named_modules(model: Any) -> Iterator[Any]:
    """Note the module of each node that is traced within; yield a context that keeps notes."""
    from torch.fx import traceback

    entered: list[Any] = []

    def enter(name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            note = traceback.annotate({MODULE: name})
            note.__enter__()
            entered.append(note)

        return hook

    def leave(*_: Any) -> None:
        entered.pop().__exit__(None, None, None)

    hooks = []
    for name, module in model.named_modules():
        if name:
            hooks.append(module.register_forward_pre_hook(enter(name)))
            hooks.append(module.register_forward_hook(leave, always_call=True))
    try:
        yield traceback.preserve_node_meta()
    finally:
        for hook in hooks:
            hook.remove()


def _divide(batch: Any, loss: Loss | None) -> tuple[Any, tuple[Any, ...]]:
    """Return the inputs of the model, and the target if the loss takes one."""
    if loss is None or _required(loss) < 2:
        return batch, ()
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise UsageError("the loss takes output and target: batch must be a pair (inputs, target)")
    return batch[0], (batch[1],)


def _required(loss: Loss) -> int:
    """Return the number of positional arguments that a loss requires."""
    # A module's own signature is `(*args, **kwargs)`.
    try:
        found = inspect.signature(getattr(loss, "forward", loss)).parameters.values()
    # Builtins such as `torch.sum` have no signature; they are given the output alone.
    except ValueError:
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(x.kind in positional and x.default is inspect.Parameter.empty for x in found)


class _CapturedError(BaseException):
    """Ends the compilation at the joint graph; no `except Exception` on the way swallows it."""

    def __init__(self, joint: Any) -> None:
        super().__init__()
        self.joint = joint


def _trace(model: Any, inputs: Any, target: tuple[Any, ...], loss: Loss | None) -> Any:
    """Return the joint graph module that AOTAutograd hands to a partitioner."""
    import torch
    from torch._functorch.aot_autograd import aot_function
    from torch._guards import TracingContext, tracing
    from torch._subclasses import FakeTensorMode
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
    )

    leaves, form = torch.utils._pytree.tree_flatten((inputs, target))
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    step = _step_of(model, leaves, form, loss)
    # A tensor with two names, such as a tied embedding, is held once.
    held = {**dict(step.named_parameters()), **dict(step.named_buffers())}

    def call(held: dict[str, Any], *tensors: Any) -> Any:
        return torch.func.functional_call(step, held, tensors)

    def stop(joint: Any, _: Any, **__: Any) -> Any:
        raise _CapturedError(joint)

    def inference(graph: Any, _: Any) -> Any:
        raise UsageError("the loss does not depend on a parameter that requires a gradient")

    try:
        # Losses and models may use tensors that they hold themselves, such as labels or a mask.
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        with torch.enable_grad(), tracing(TracingContext(mode)), _uncompiled():
            aot_function(call, inference, partition_fn=stop, num_params_buffers=len(held))(
                held, *tensors
            )
    except _CapturedError as captured:
        return _cleaned(captured.joint)
    except UsageError:
        raise
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        why = f"op {error.func} makes a number or a size of values that only a run has"
        raise FormatError(f"cannot trace a step of {type(model).__name__}: {why}") from None
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise FormatError(f"cannot trace a step of {type(model).__name__}: {first}") from None
    raise UsageError("the loss does not depend on a parameter that requires a gradient")


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Run modules that were given to `torch.compile` as they are, so that they can be traced."""
    import torch

    allowed = torch._dynamo.config.patch(error_on_nested_fx_trace=False)
    with torch.compiler.set_stance("force_eager"), allowed:
        yield


def _step_of(model: Any, leaves: list[Any], form: Any, loss: Loss | None) -> Any:
    """Return a module that takes the tensors of a batch and returns the loss."""
    import torch

    class Step(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            # A loss that is a module may have parameters of its own.
            self.loss = loss

        def forward(self, *tensors: Any) -> Any:
            given = iter(tensors)
            filled = [next(given) if isinstance(x, torch.Tensor) else x for x in leaves]
            inputs, target = torch.utils._pytree.tree_unflatten(filled, form)
            return _number(_loss_of(self.model, inputs, target, self.loss))

    return Step()


def _loss_of(model: Any, inputs: Any, target: tuple[Any, ...], loss: Loss | None) -> Any:
    if isinstance(inputs, Mapping):
        output = model(**inputs)
    else:
        output = model(*inputs) if isinstance(inputs, tuple | list) else model(inputs)
    if loss is not None:
        return loss(output, *target)
    found = getattr(output, "loss", None)
    return output if found is None else found


def _number(loss: Any) -> Any:
    import torch

    if isinstance(loss, torch.Tensor) and loss.numel() == 1:
        return loss
    shape = f"of shape {list(loss.shape)}" if isinstance(loss, torch.Tensor) else "not a tensor"
    hint = "give a function as loss, such as torch.sum"
    raise UsageError(f"the loss must be one number, but it is {shape}: {hint}")


def _cleaned(joint: Any) -> Any:
    """Return the graph without unused and repeated ops, as PyTorch's partitioners clean it."""
    from torch._functorch.compile_utils import fx_graph_cse

    joint.graph.eliminate_dead_code()
    joint.graph = fx_graph_cse(joint.graph)
    joint.recompile()
    return joint
