"""Values and arrays of C types in shared memory:

the standard module's, with locks of this package's contexts.
"""

from multiprocessing import sharedctypes
from multiprocessing.sharedctypes import RawArray, RawValue, copy
from typing import TYPE_CHECKING, Any

from . import context

__all__ = ["Array", "RawArray", "RawValue", "Value", "copy", "synchronized"]


if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Array as Array
    from multiprocessing.sharedctypes import Synchronized as Synchronized
    from multiprocessing.sharedctypes import SynchronizedArray as SynchronizedArray
    from multiprocessing.sharedctypes import SynchronizedBase as SynchronizedBase
    from multiprocessing.sharedctypes import SynchronizedString as SynchronizedString
    from multiprocessing.sharedctypes import Value as Value
    from multiprocessing.sharedctypes import synchronized as synchronized
else:

    def Value(typecode_or_type: Any, *args: Any, lock: Any = True, ctx: Any = None) -> Any:  # noqa: N802 (the standard's name)
        """A value with a lock."""
        return sharedctypes.Value(
            typecode_or_type, *args, lock=lock, ctx=ctx or context._default_context.get_context()
        )

    def Array(  # noqa: N802
        typecode_or_type: Any, size_or_initializer: Any, *, lock: Any = True, ctx: Any = None
    ) -> Any:
        """An array with a lock."""
        ctx = ctx or context._default_context.get_context()
        return sharedctypes.Array(typecode_or_type, size_or_initializer, lock=lock, ctx=ctx)

    def synchronized(obj: Any, lock: Any = None, ctx: Any = None) -> Any:
        """A value or array with a lock."""
        return sharedctypes.synchronized(obj, lock, ctx or context._default_context.get_context())

    def __getattr__(name: str) -> Any:
        """What else the standard module has."""
        return getattr(sharedctypes, name)
