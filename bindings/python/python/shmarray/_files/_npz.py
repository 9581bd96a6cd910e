"""Named arrays in one file: NPZ files."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from mmap import mmap
from typing import Any, Literal, overload

import numpy as np
from numpy.lib import npyio  # import numpy has imported it
from numpy.typing import ArrayLike, NDArray

from .. import _core
from ._loading import (
    NO_OBJECTS,
    header_limit,
    is_path,
    name_file,
    name_of,
    pickle_options,
    read_only,
    unpickle,
)
from ._npy import Source, is_core_s, numpy_bytes, plain_array, warn_of_version, with_suffix

Member = NDArray[Any] | bytes
_NAMES_SHOWN = 5


@npyio.NpzFile.register  # isinstance says so, and nothing of NumPy's class opens the file again
class NpzFile(Mapping[str, Member]):
    """The arrays of an NPZ file by their names: a ``numpy.lib.npyio.NpzFile`` that core reads.

    ``load_npz`` returns it. A member is loaded when it is asked for, each time anew. One that is no
    NPY file is its bytes. ``files`` has the names without ``.npy``; names with it are found, too.
    ``f.name`` is ``npz["name"]``.

    Closing it, which is what ``with`` does, closes the file. The arrays stay.

    >>> save_npz("sample.npz", image=np.ones((2, 3)), label=np.arange(2))
    >>> sample = load_npz("sample.npz")
    >>> sample.files, sample["image"].shape, sample.f.label
    (['image', 'label'], (2, 3), array([0, 1]))
    >>> sorted(sample.load(threads=2))
    ['image', 'label']
    """

    files: list[str]
    """The names of the members without ``.npy``, in the order of the archive."""
    allow_pickle: bool
    """Whether members of Python objects are unpickled."""
    pickle_kwargs: dict[str, Any]
    """How they are."""
    max_header_size: int | None
    """The most bytes of the text of a member's header, if ``allow_pickle`` is False."""
    _archive: Any = None
    _zip: Any = None
    _fid: Any = None

    def __init__(self, archive: Any, source: Any, name: str, is_readonly: bool) -> None:
        self._archive = archive
        self._source = source
        self._name = name
        self._is_readonly = is_readonly
        names = archive.names()
        self._indices = {name: index for index, name in enumerate(names)}
        self.files = [name.removesuffix(".npy") for name in names]

    @property
    def f(self) -> _Attributes:
        """The members as attributes."""
        return _Attributes(self)

    @property
    def zip(self) -> Any:
        """A ``zipfile.ZipFile`` of the archive, made when it is first asked for; None when closed.

        Of a file that the program has open it moves the position.
        """
        if self._zip is None and self._archive is not None:
            from zipfile import ZipFile

            self._zip = ZipFile(self._file())
        return self._zip

    @property
    def fid(self) -> Any:
        """The file of a path, opened when it is first asked for; else None."""
        return self._file() if is_path(self._source) and self._archive is not None else None

    def _file(self) -> Any:
        """Returns the archive as a file of Python's, which ``close`` closes."""
        if self._fid is None:
            fd = self._archive.descriptor()
            if fd is None:
                self._fid = io.BytesIO(self._source)
            else:
                self._fid = open(self._name, "rb", opener=lambda *_: fd)  # noqa: SIM115
        return self._fid

    def load(
        self, names: Iterable[str] | None = None, *, threads: int | None = None
    ) -> dict[str, Member]:
        """Returns these members, or all, loaded at once by several threads.

        Parameters
        ----------
        names : iterable of str, optional
            The names; all if left out.
        threads : int, optional
            How many threads; one for each core if left out.

        Raises as ``load_npz`` and KeyError.
        """
        wanted = self.files if names is None else list(names)
        count = _thread_count(threads)
        indices = [self._index(name) for name in wanted]
        try:
            loaded = self._opened().load_all(indices, count, self._most())
            members = zip(indices, loaded, strict=True)
            found = [self._finished(index, member) for index, member in members]
        except Exception as error:
            name_file(error, self._source)
            raise
        return dict(zip(wanted, found, strict=True))

    def close(self) -> None:
        """Closes the file. The arrays stay."""
        opened = (self._zip, self._fid)
        self._archive = self._source = self._zip = self._fid = None
        for file in opened:
            if file is not None:
                file.close()

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> NpzFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getitem__(self, name: str) -> Member:
        index = self._index(name)
        try:
            member: Member | None = self._opened().load(index, self._most())
            if member is None or self._is_readonly:
                return self._finished(index, member)
        except Exception as error:
            name_file(error, self._source)
            raise
        return member

    def __contains__(self, name: object) -> bool:
        return name in self._indices or f"{name}.npy" in self._indices

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __repr__(self) -> str:
        names = ", ".join(self.files[:_NAMES_SHOWN])
        more = "..." if len(self.files) > _NAMES_SHOWN else ""
        return f"NpzFile {self._name!r} with keys: {names}{more}"

    def _opened(self) -> Any:
        if self._archive is None:
            raise ValueError("the NPZ file is closed")
        return self._archive

    def _index(self, name: str) -> int:
        index = self._indices.get(name)
        if index is None and isinstance(name, str):
            index = self._indices.get(f"{name}.npy")
        if index is None:
            raise KeyError(f"{name} is not a file in the archive")
        return index

    def _most(self) -> int | None:
        """Returns core's limit on a header."""
        if self.max_header_size is None:
            return None
        return header_limit(self.allow_pickle, self.max_header_size)

    def _finished(self, index: int, member: Member | None) -> Member:
        """Returns the member as the program wants it. One of Python objects is unpickled now."""
        if member is None:
            member = self._objects(index)
        if self._is_readonly and not isinstance(member, bytes):
            return read_only(member)
        return member

    def _objects(self, index: int) -> NDArray[Any]:
        name = self._opened().names()[index]
        if not self.allow_pickle:
            raise ValueError(f"{self._name}: member {name!r}: {NO_OBJECTS}")
        try:
            return unpickle(io.BytesIO(self._opened().read(index)), self.pickle_kwargs)
        except Exception as error:
            error.add_note(f"while member {name!r} of {self._name} was loaded")
            raise


class _Attributes:
    """The members of an NPZ file as attributes."""

    def __init__(self, npz: NpzFile) -> None:
        object.__setattr__(self, "_npz", npz)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") and name != "__dir__":
            return object.__getattribute__(self, name)
        npz = object.__getattribute__(self, "_npz")
        try:
            return npz[name]
        except KeyError:
            raise AttributeError(name) from None

    def __dir__(self) -> list[str]:
        names: list[str] = object.__getattribute__(self, "_npz").files
        return list(names)


def load_npz(
    source: Source,
    mmap_mode: Literal["r", "r+", "w+", "c"] | None = None,
    allow_pickle: bool = False,
    fix_imports: bool = True,
    encoding: Literal["ASCII", "latin1", "bytes"] = "ASCII",
    *,
    max_header_size: int | None = None,
    shared: bool = True,
    readonly: bool = False,
    align: bool = False,
    verify: bool = False,
    max_bytes: int | None = None,
) -> NpzFile:
    """Opens an NPZ file, as ``numpy.load`` does, and returns its arrays by their names.

    Its directory is read and checked now, and each member when it is asked for. In shared memory a
    forked worker's work in place changes its parent's array; ``readonly=True`` forbids it.

    Parameters
    ----------
    source : path, bytes-like, or file
        As for ``load_npy``. An object with ``read`` must be a whole file; one that the system has
        open is read by a descriptor of its own.
    mmap_mode : {"r", "r+", "w+", "c"}, optional
        "r", "c" of a path or an open file: stored members are views of it, mapped read-only or copy
        on write, with the danger that ``load_npy`` tells. Else it is ignored, as by NumPy.
    allow_pickle, fix_imports, encoding, max_header_size
        As for ``load_npy``. Without ``allow_pickle`` asking for Python objects is a ValueError.
    shared : bool, default True
        True: arrays are new, in shared memory, and can be written to. False: of a file they are
        new, too, and private; of bytes they are read-only, and views if they are stored.
    readonly : bool, default False
        Whether arrays cannot be written to. In shared memory their pages cannot.
    align : bool, default False
        Whether views that are not aligned (``flags.aligned``) are copied: in a file of NumPy's they
        lie at any offset, in one of ``save_npz(…, align=64)`` all are aligned.
    verify : bool, default False
        Whether the checksum (CRC) is compared for views, too. For all others it always is.
    max_bytes : int, optional
        The most bytes that the compressed members of one call may become, so that a small file
        cannot fill the memory. If left out, the memory that is free, and at least 1 GiB and 100
        times the size of the file.

    Raises ValueError for a file that is broken, and says which member and which field is at fault;
    FileNotFoundError; MemoryError if shared memory is full.

    >>> save_npz("sample.npz", image=np.ones((2, 3)))
    >>> load_npz("sample.npz")["image"].shape
    (2, 3)
    """
    pickle_kwargs = pickle_options(fix_imports, encoding)
    try:
        npz = _npz_file(source, (shared, mmap_mode, align, verify, readonly), max_bytes)
    except Exception as error:
        name_file(error, source)
        raise
    npz.allow_pickle = allow_pickle
    npz.max_header_size = max_header_size
    npz.pickle_kwargs = pickle_kwargs
    return npz


def _npz_file(
    source: Any, how: tuple[bool, str | None, bool, bool, bool], max_bytes: int | None
) -> NpzFile:
    shared, mmap_mode, align, verify, readonly = how
    data, name, place = _opened(source)
    is_file = data is source and name is not None
    form = _form(shared, mmap_mode, is_file, is_view=data is source and not is_file)
    archive = _core.Archive(data, max_bytes, (form, align, verify), place)
    return NpzFile(archive, source if is_file else data, name or "object", readonly)


def _form(shared: bool, mmap_mode: str | None, is_file: bool, is_view: bool) -> str:
    """Returns core's word for what becomes of members."""
    if mmap_mode not in (None, "r", "r+", "w+", "c"):
        raise ValueError(f"mmap_mode must be 'r', 'r+', 'w+' or 'c', not {mmap_mode!r}")
    if is_file and mmap_mode in ("r", "c"):
        return "view" if mmap_mode == "r" else "copy-on-write"
    if shared:
        return "shared"
    return "view" if is_view else "private"


def _opened(source: Any) -> tuple[Any, str | None, tuple[int | None, str | None]]:
    """Returns what core reads and its name; the descriptor of a file that the system has open, and
    the name for errors where core does not know it.
    """
    if hasattr(source, "read") and not isinstance(source, mmap):
        fd = _regular_fd(source)
        name = str(getattr(source, "name", "object"))
        if fd is not None:
            return source, name, (fd, name)
        return _whole(source), name, (None, name_of(source))
    return source, os.fsdecode(source) if is_path(source) else None, (None, None)


def _regular_fd(file: Any) -> int | None:
    """Returns the descriptor of a file of the system that is open for reading."""
    if not isinstance(file, (io.BufferedReader, io.BufferedRandom, io.FileIO)):
        return None
    if file.writable():
        file.flush()
    fd = file.fileno()
    return fd if stat.S_ISREG(os.fstat(fd).st_mode) else None


def _whole(file: Any) -> bytes:
    if type(file) is io.BytesIO:
        return file.getvalue()  # the same bytes, not a copy, until somebody writes
    file.seek(0)
    data: bytes = file.read()
    return data


_OPTIONS = ("compressed", "threads", "align")


@overload
def save_npz(
    file: str | os.PathLike[str] | Any,
    arrays: Mapping[str, ArrayLike],
    /,
    *,
    compressed: bool = False,
    threads: int | None = None,
    align: int | None = None,
    allow_pickle: bool = True,
) -> None: ...


@overload
def save_npz(
    file: str | os.PathLike[str] | Any,
    /,
    *arrays: ArrayLike,
    allow_pickle: bool = True,
    **named: ArrayLike,
) -> None: ...


def save_npz(
    file: str | os.PathLike[str] | Any, /, *arrays: Any, allow_pickle: bool = True, **named: Any
) -> None:
    """Saves arrays to an NPZ file. Stored, it has the bytes that ``numpy.savez`` writes.

    Other threads of Python run meanwhile, and may change the arrays: the file then has some
    elements from before and some from after. It appears under its path when it is complete, as with
    ``save_npy``.

    Parameters
    ----------
    file : path, or object with ``write``
        ``.npz`` is added to a path that does not end so. An object with ``seek`` and ``tell`` gets
        the file from where it stands.
    *arrays : anything that ``numpy.asanyarray`` takes
        Arrays without names: they get ``arr_0``, ``arr_1`` …
    allow_pickle : bool, default True
        Whether arrays of Python objects are pickled. Otherwise they are a ValueError.
    **named : anything that ``numpy.asanyarray`` takes
        Arrays by their names.

    To ``numpy.savez`` each other keyword is the name of an array. So these options are taken only
    beside one mapping of names to arrays, and refused where arrays could be meant:

    compressed : bool, default False
        Whether members are deflated, as by ``numpy.savez_compressed``.
    threads : int, optional
        How many threads; one for each core if left out. The file is the same for any number.
    align : int, optional
        The alignment of the members in bytes, a power of two up to 4096: with 64, views of them are
        aligned. It adds a field to their headers, which other programs pass over.

    Raises as ``save_npy``; ValueError for a name that is there twice; TypeError for an option
    without a mapping.

    >>> save_npz("pair.npz", np.arange(3), weights=np.ones(2))
    >>> load_npz("pair.npz").files
    ['weights', 'arr_0']
    >>> save_npz("pair.npz", {"x": np.arange(3), "y": np.ones(2)}, compressed=True, align=64)
    >>> load_npz("pair.npz").files
    ['x', 'y']
    """
    if not isinstance(allow_pickle, (int, np.bool_)):
        raise TypeError("'allow_pickle' is an option: give an array of that name in a mapping")
    arrays, named, options = _without_options(arrays, named)
    members = []
    for name, array in _with_names(arrays, named).items():
        plain = plain_array(array)
        is_ours = is_core_s(plain, allow_pickle)
        members.append((f"{name}.npy", plain if is_ours else numpy_bytes(plain, allow_pickle)))
    target = with_suffix(file, ".npz")
    align = options.get("align") or 0
    if not 0 <= align < _TOO_MUCH:
        raise ValueError(f"invalid align: {align}")
    chosen = (_flag(options.get("compressed", False)), _thread_count(options.get("threads")), align)
    warn_of_version(_core.save_npz(target, members, chosen))


_TOO_MUCH = 1 << 16


def _without_options(
    arrays: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """Returns the arrays without names, those by their names, and the options."""
    named_options = {name: named[name] for name in _OPTIONS if name in named}
    options = {name: value for name, value in named_options.items() if _may_be_option(value)}
    if not options:
        return arrays, named, {}
    if len(arrays) == 1 and isinstance(arrays[0], Mapping) and options == named:
        return (), dict(arrays[0]), options
    name = next(iter(options))
    raise TypeError(
        f"{name!r} is an option here, and the name of an array to numpy.savez: give the arrays "
        f"as one mapping, save_npz(file, {{...}}, {name}=...), {name!r} in it if it is one"
    )


def _flag(value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"'compressed' must be True or False, not {value!r}")
    return bool(value)


def _may_be_option(value: Any) -> bool:
    """Returns whether the value of a keyword is no array, so that an option may be meant."""
    return value is None or isinstance(value, (int, np.bool_, np.integer))


def _with_names(arrays: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Returns the arrays by their names, in the order of ``numpy.savez``."""
    members = dict(named)
    for number, array in enumerate(arrays):
        name = f"arr_{number}"
        if name in named:
            raise ValueError(f"Cannot use un-named variables and keyword {name}")
        members[name] = array
    return members


def _thread_count(threads: int | None) -> int:
    """Returns the number for core, to which 0 is one for each of the machine's cores."""
    if threads is None:
        return 0
    if threads < 1:
        raise ValueError(f"invalid threads: {threads} is less than 1")
    return threads
