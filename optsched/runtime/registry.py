"""Names of registered functions: a redefined function replaces itself, but no other function."""

from __future__ import annotations

from optsched.errors import UsageError


def check_owner(what: str, name: str, held: object, new: object, table: str) -> None:
    """Raise an error if another function holds a name.

    A function of the same module and name may replace the registered one. This happens if a
    notebook cell is run again or a module is reloaded.

    Raise `UsageError` if the functions differ.

    `what`: description of the named thing, for the message. `held`, `new`: the registered function,
    and the function to register. `table`: expression of the dictionary from which users can delete
    the name.
    """
    if _owner(held) != _owner(new):
        raise UsageError(
            f"{what} named {name!r} is already registered ({_owner(held)}): use another name, or "
            f"remove it first: del {table}[{name!r}]"
        )


def _owner(function: object) -> str:
    kind = type(function)
    name = getattr(function, "__qualname__", None)
    if name is None:
        # Callable objects, such as partial functions, have no name and are identified by address.
        return f"{kind.__module__}.{kind.__qualname__} at {id(function):#x}"
    return f"{getattr(function, '__module__', '')}.{name}"
