"""Dataclasses of parameters, which a call takes as one object or, in short, field by field."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from ._errors import InvalidArgument

_Kind = TypeVar("_Kind")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def takes_fields_of(*kinds: type[Any]) -> Callable[[_Function], _Function]:
    """Makes the signature of a function list the fields of these classes in place of its
    `**fields`, for help() and editors."""
    def signed(function: _Function) -> _Function:
        own = inspect.signature(function)
        parameters = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        parameters += [field.replace(kind=field.KEYWORD_ONLY) for kind in kinds
                       for field in inspect.signature(kind).parameters.values()]
        setattr(function, "__signature__", own.replace(parameters=parameters))
        return function

    return signed


def whole_or_made(kind: type[_Kind], whole: Any, fields: dict[str, Any]) -> _Kind:
    """`whole`, or, if that is None, an object of these fields. Raises InvalidArgument for both and
    for an object of another kind, TypeError for a field that is none."""
    if whole is None:
        return kind(**fields)
    name = kind.__name__
    if not isinstance(whole, kind):
        raise InvalidArgument(f"{name.lower()} is {whole!r}; expected an spjit.{name}")
    if fields:
        given = ", ".join(f"{field}={value!r}" for field, value in fields.items())
        raise InvalidArgument(f"an spjit.{name} and {given} are given; expected all in the "
                              f"{name}: dataclasses.replace() makes another")
    return whole
