"""Names of registered functions: a function that is defined again replaces itself, no other one."""

from __future__ import annotations

from optsched.errors import UsageError


def check_owner(what: str, name: str, held: object, new: object, table: str) -> None:
    """Refuse a name that another function holds.

    A function of the same module and name replaces the one held: a notebook cell that is run
    again, or a module that is loaded again, defines the function anew.

    Parameters
    ----------
    what
        What the name stands for, in words.
    name
        The name.
    held, new
        The function that holds the name, and the one to be registered.
    table
        Expression of the dictionary that a user deletes the name from.

    Raises
    ------
    UsageError
        If they are different functions.
    """
    if _owner(held) != _owner(new):
        raise UsageError(
            f"{what} named {name!r} is there already ({_owner(held)}): choose another name, or "
            f"remove that one first: del {table}[{name!r}]"
        )


def _owner(function: object) -> str:
    kind = type(function)
    name = getattr(function, "__qualname__", None)
    if name is None:
        # An object that is called, a partial function say: there is no telling which it is.
        return f"{kind.__module__}.{kind.__qualname__} at {id(function):#x}"
    return f"{getattr(function, '__module__', '')}.{name}"
