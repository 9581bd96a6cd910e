"""Values and arrays of C types in shared memory, with locks of this package's contexts."""

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

    def Value(  # noqa: N802 (the standard's name)
        typecode_or_type: Any, *args: Any, lock: Any = True, ctx: Any = None
    ) -> Any:
        """Returns a value with a lock."""
        return sharedctypes.Value(
            typecode_or_type, *args, lock=lock, ctx=ctx or context._default_context.get_context()
        )

    def Array(  # noqa: N802
        typecode_or_type: Any, size_or_initializer: Any, *, lock: Any = True, ctx: Any = None
    ) -> Any:
        """Returns an array with a lock."""
        ctx = ctx or context._default_context.get_context()
        return sharedctypes.Array(typecode_or_type, size_or_initializer, lock=lock, ctx=ctx)

    def synchronized(obj: Any, lock: Any = None, ctx: Any = None) -> Any:
        """Returns a value or array with a lock."""
        return sharedctypes.synchronized(obj, lock, ctx or context._default_context.get_context())

    def __getattr__(name: str) -> Any:
        """Returns any other name of the standard module."""
        return getattr(sharedctypes, name)
