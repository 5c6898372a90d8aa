"""Makes the Python packages that `tools/setup.sh --tests` fetched importable."""

import os
import pathlib
import sys

# What ctest takes for "not run"; a failure where everything has to be there, as in CI.
SKIPPED = 1 if os.environ.get("CONVOY_REQUIRE_ALL") else 77


def add():
    """Ends the program, as not run, where set-up has fetched nothing for this Python."""
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    deps = pathlib.Path(os.environ.get("CONVOY_DEPS") or pathlib.Path(cache) / "convoy")
    folder = deps / "python{}.{}-checks-3".format(*sys.version_info)
    if not folder.is_dir():
        print(f"there is no {folder}; tools/setup.sh --tests makes it", file=sys.stderr)
        sys.exit(SKIPPED)
    sys.path.insert(0, str(folder))
