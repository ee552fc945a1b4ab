"""The classes that code declares: what its annotations reach, and the exceptions that it says it raises.

A recording names classes, and a name in a file must not choose what is imported or made. So it is the other way round:
starting from what the code says of itself (a return annotation, `returns=`, `raises=`), everything that an instance may
hold is collected, through generics, unions, fields of dataclasses, models and typed dicts, as deep as it goes. A
recorded name is looked up among these classes and nowhere else.

An annotation also admits instances of subclasses, so a name that is missing is looked for among the subclasses that
the program has defined by then. Exceptions of the standard library are as good as built in: where the program has
loaded the module of one, it is known. So are all others, where an exception is what was recorded (`loaded_errors`).

Annotations are often texts, and a name in one may not exist, such as one imported for type checkers only. What can be
resolved is; the rest is left out, and tried again when a class is missed. The texts are evaluated here and not by
`typing.get_type_hints`, which gives up on all of them at the first name that is missing, and which leaves what it finds
in the program's own annotations.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from types import FunctionType, MethodType, ModuleType
from typing import Annotated, Any, ClassVar, Final, ForwardRef, Literal, NewType, TypeVar, get_args, get_origin

from ..recorder.errors import RecordedError
from ..recorder.introspection import (
    class_name,
    inherits,
    instance_dict,
    isinstance_of,
    mro_of,
    namespace_of,
    static_attribute,
)
from ..recorder.values import RegisteredType, TypeRegistry
from .loaded_errors import loaded_error, standard_error

_ABSTRACT: Final = frozenset(("typing", "typing_extensions", "types", "abc", "contextlib", "collections.abc"))
"""Modules whose classes stand in annotations for what they hold, or for a protocol."""


class DeclaredTypes(TypeRegistry):
    """A registry of the classes that a function declares.

    Args:
        registered: what it knows of a class (a name, a `decode`) holds for a declared one too.
        fn: the function: what it returns is declared. A class returns its own instances.
        also: more that it declares: a class, an annotation, or a tuple of any, with the names that the function sees.
    """

    def __init__(self, registered: TypeRegistry, fn: Callable[..., Any] | None = None, also: Any = ()) -> None:
        super().__init__(registered)
        self._registered = registered
        self._classes: list[type] = []
        self._by_own_name: dict[str, type] = {}
        self._ambiguous: set[str] = set()
        # By id; the values keep what the ids name alive.
        self._met: dict[int, Any] = {}
        self._resolved: dict[tuple[str, int], _Names] = {}
        self._unresolved: dict[tuple[str, int], _Names] = {}
        layers = _layers_of(fn)
        names = _names_around(layers[-1])
        # Of a function within a function: the classes defined beside it, of which there may be others of the same name.
        self._around = names.scopes[0] if len(names.scopes) > 1 else {}
        self._declare((RecordedError, also), names)
        for layer in layers:  # a decorator may say something else than what it decorates, and mostly says the same
            self._declare(layer if isinstance_of(layer, type) else _annotations_of(layer).get("return"), names)

    @property
    def unresolved(self) -> tuple[str, ...]:
        """The texts of annotations of which something could not be resolved."""
        return tuple(dict.fromkeys(text for text, _ in self._unresolved))

    def is_ambiguous(self, name: str) -> bool:
        """Whether two classes of that name are declared, so that neither is known."""
        return name in self._ambiguous

    # -- declaring -----------------------------------------------------------------------------------

    def _declare(self, annotation: Any, names: _Names) -> None:
        """Admit all classes that an annotation reaches."""
        todo = [(annotation, names)]
        while todo:
            node, names = todo.pop()
            if type(node) is str or type(node) is ForwardRef:
                todo.extend(self._resolve(node, names))
            elif id(node) not in self._met:
                self._met[id(node)] = node
                if isinstance_of(node, type):
                    todo.extend(self._admit(node, names))
                else:
                    todo.extend((part, names) for part in _parts_of(node))

    def _resolve(self, written: str | ForwardRef, names: _Names) -> list[tuple[Any, _Names]]:
        text = written if isinstance(written, str) else written.__forward_arg__
        if type(written) is ForwardRef and type(written.__forward_module__) is str:
            names = _Names(_scope_of_module(written.__forward_module__), *names.scopes, outer=names.outer)
        # Texts may stand for texts, and for themselves in the end.
        if (text, id(names)) in self._resolved:
            return []
        self._resolved[text, id(names)] = names
        names.missing = False
        try:
            found = eval(compile(text.strip(), "<annotation>", "eval"), {"__builtins__": {}}, names)
        except Exception:  # the program's own text, which may be anything
            names.missing, found = True, None
        if names.missing:
            self._unresolved[text, id(names)] = names
        return [(found, names)]

    def _admit(self, cls: type, names: _Names) -> list[tuple[Any, _Names]]:
        """Register a class, and return what its instances may hold."""
        module, _, _ = (name := class_name(cls)).partition(":")
        if module in _ABSTRACT or (module == "builtins" and not inherits(cls, BaseException)):
            return []
        self._classes.append(cls)
        if self._by_own_name.setdefault(name, cls) is cls:
            self.register(cls)
        else:
            self._ambiguous.add(name)
        return _held_by(cls, names)

    # -- finding -------------------------------------------------------------------------------------

    def find(self, name: str) -> RegisteredType | None:
        """Return the entry for a name in a recording, or None."""
        if name in self._ambiguous:
            registered = self._registered.find(name)
            return registered if registered is not None and class_name(registered.cls) == name else None
        declared = self._by_own_name.get(name)
        if declared is not None:
            return self._registered.of(declared) or self.of(declared)
        found = super().find(name) or standard_error(name) or self._subclass(name)
        if found is None and self._unresolved:
            again, self._unresolved = self._unresolved, {}
            for (text, at), names in again.items():
                self._resolved.pop((text, at), None)
                self._declare(text, names)
            found = super().find(name) or self._subclass(name)
        return found

    def find_error(self, name: str) -> RegisteredType | None:
        """Return the entry for the name of an exception, which need not be declared where the program has it loaded."""
        return self.find(name) or (None if name in self._ambiguous else loaded_error(name, self._around))

    def _subclass(self, name: str) -> RegisteredType | None:
        """Look among the subclasses of what is declared, the newest first: a class may have been defined again."""
        seen: dict[int, type] = {}
        todo = [*self._classes]
        while todo:
            cls = todo.pop()
            if class_name(cls) == name:
                self._declare(cls, _Names())
                return self.of(cls)
            if id(cls) not in seen:
                seen[id(cls)] = cls
                todo.extend(type.__subclasses__(cls))
        return None


# -- what an annotation, and an instance, may hold ---------------------------------------------------------------------


def _parts_of(node: Any) -> list[Any]:
    """What stands directly in an annotation that is no class and no text."""
    kind = type(node)
    if kind is tuple or kind is list:
        return list(node)
    if kind is NewType:
        return [node.__supertype__]
    if kind is TypeVar:
        return [node.__bound__, *node.__constraints__]
    if kind.__name__ == "TypeAliasType":  # of newer Pythons, and of typing_extensions
        try:
            return [node.__value__]
        except Exception:  # it is evaluated when asked for
            return []
    origin = get_origin(node)
    if origin is None or origin is ClassVar:
        return []
    if origin is Literal:
        return [type(value) for value in get_args(node)]
    return [node.__origin__] if origin is Annotated else [origin, *get_args(node)]


def _held_by(cls: type, names: _Names) -> list[tuple[Any, _Names]]:
    """What instances of a class may hold, as annotations."""
    if inherits(cls, Enum):
        return [(type(member._value_), names) for member in namespace_of(cls).get("_member_map_", {}).values()]
    held: list[tuple[Any, _Names]] = []
    for base in mro_of(cls):
        module = class_name(base).partition(":")[0]
        if module.partition(".")[0] in sys.stdlib_module_names or module.startswith("pydantic."):
            continue
        namespace = namespace_of(base)
        around = _Names(_scope_of_module(module), namespace, outer=names.outer)
        held += [(annotation, around) for annotation in _annotations_of(base).values()]
        # Of `class Orders(list[Order])`, what the bases were given; of a model, what pydantic has resolved.
        held.append((namespace.get("__orig_bases__"), around))
        held += [(field.annotation, around) for field in (namespace.get("__pydantic_fields__") or {}).values()]
        held += [(part, around) for part in (namespace.get("__pydantic_generic_metadata__") or {}).values()]
        # Of a class that is no dataclass, the constructor tells more.
        made_by = namespace.get("__init__")
        if isinstance_of(made_by, FunctionType) and "__dataclass_fields__" not in namespace:
            around = _names_around(made_by)
            held += [(annotation, around) for annotation in _annotations_of(made_by).values()]
    return held


# -- names in annotations ----------------------------------------------------------------------------------------------


class _Names(dict[str, Any]):
    """The names that the text of an annotation may use; one that there is not stands for Any.

    Attributes:
        scopes: where names are looked up, in this order.
        outer: where they are looked up then, before the builtins: what the function sees from which all began.
        missing: whether one was not found.
    """

    def __init__(self, *scopes: Mapping[str, Any], outer: tuple[Mapping[str, Any], ...] = ()) -> None:
        super().__init__()
        self.scopes = scopes
        self.outer = outer or scopes
        self.missing = False

    def __missing__(self, name: str) -> Any:
        for scope in (*self.scopes, *self.outer, vars(builtins)):
            if name in scope:
                return scope[name]
        self.missing = True
        return Any


def _annotations_of(owner: Any) -> Mapping[str, Any]:
    try:
        return inspect.get_annotations(owner)
    except Exception:  # nothing that has any, or what evaluates them fails
        return {}


def _layers_of(fn: Any) -> list[Any]:
    """A callable, and what it calls in the end, by way of its decorators, partials and methods: the outermost first."""
    layers = [fn]
    while True:
        inner = None
        if isinstance_of(fn, functools.partial):
            inner = fn.func
        elif any(isinstance_of(fn, kind) for kind in (MethodType, staticmethod, classmethod)):
            inner = fn.__func__
        elif not isinstance_of(fn, type):
            inner = (instance_dict(fn) or {}).get("__wrapped__")
            if inner is None and not isinstance_of(fn, FunctionType):
                inner = static_attribute(type(fn), "__call__")
        if inner is None or any(inner is known for known in layers):
            return layers
        layers.append(fn := inner)


def _names_around(fn: Any) -> _Names:
    """The names that a function sees: of the functions around it and of its module."""
    if not isinstance_of(fn, FunctionType):
        return _Names()
    around = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            around[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return _Names(around, fn.__globals__)


def _scope_of_module(name: str) -> Mapping[str, Any]:
    module = sys.modules.get(name)
    return vars(module) if isinstance_of(module, ModuleType) else {}
