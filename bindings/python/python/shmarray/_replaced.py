"""Says so if another project's file stands in the place of this package's ``__init__``.

The package index has a ``shmarray`` of another project, which is one file,
``shmarray/__init__.py``. Whoever installs it has that file over ours, and neither pip nor an
attribute that is missing says so. What is imported after it does.
"""

import sys

_package = sys.modules[__package__]
if not hasattr(_package, "attach"):
    raise ImportError(
        f"{_package.__file__} is another project's, which has been installed over shmarray-numpy: "
        "pip uninstall shmarray; pip install --force-reinstall --no-deps shmarray-numpy"
    )
