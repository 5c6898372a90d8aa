"""The sources that CMake compiles as one."""

import pathlib
import re


def sources_of(file):
    """Of a file in compile_commands.json: the sources that it includes if CMake made it of them, or else itself."""
    path = pathlib.Path(file)
    if path.parent.name != "Unity" or not path.exists():
        return [path]
    return [pathlib.Path(name) for name in re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.M)]
