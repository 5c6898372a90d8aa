#!/usr/bin/env python3
"""Checks the include rules between Convoy's layers.

  tools/check_layers.py [FOLDER]      checks a source tree (default: the one this script is in)
  tools/check_layers.py --self-test   breaks each rule in a made-up tree and expects the complaint

A layer includes itself and layers under it, nothing beside or above it. Torch, MPI and protobuf
headers are followed through Convoy's own headers, so an indirect include counts as well.
Exit status: 0 no complaint, 1 complaints (one line each), 2 wrong use.
"""

import pathlib
import re
import sys
import tempfile

# Each row lies on the rows above it.
ROWS = [["base"], ["comm"], ["data", "preload"], ["model", "optim"], ["server"], ["parallel", "plan"],
        ["train"], ["cli"]]
HEIGHT = {layer: row for row, layers in enumerate(ROWS) for layer in layers}
TORCH_FREE = {"base", "comm", "preload", "data", "optim", "server", "plan"}
MPI_FREE = {"base", "data", "plan"}

FOREIGN = [
    ("Torch", re.compile(r"^(torch|ATen|c10|caffe2)/")),
    ("MPI", re.compile(r"^mpi(-ext|o|_portable_platform)?\.h$")),
    ("protobuf", re.compile(r"^(google/protobuf|grpc|grpcpp)/|\.pb\.h$")),
]
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
SOURCES = {".h", ".cc", ".in"}


# What CMake writes into the build tree.
GENERATED = {"convoy/train/plugin_tag.h"}


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self.files = [
            path
            for top in ("include", "src", "tests", "bench", "examples")
            for path in sorted((self.root / top).rglob("*"))
            if path.suffix in SOURCES and path.is_file()
        ]
        self.direct = {}

    def includes(self, path):
        """[(line, name, the file of this tree it names or None)]"""
        if path not in self.direct:
            text = path.read_text(encoding="utf-8", errors="replace")
            # A comment's lines stay, so that line numbers are right.
            text = BLOCK_COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text)
            self.direct[path] = [
                (text.count("\n", 0, match.start()) + 1, match.group(2),
                 self.resolve(path, match.group(1), match.group(2)))
                for match in INCLUDE.finditer(text)
            ]
        return self.direct[path]

    def resolve(self, path, quote, name):
        folders = [self.root / "include", self.root / "src", self.root]
        if quote == '"':
            folders.insert(0, path.parent)
        for folder in folders:
            if (folder / name).is_file():
                return (folder / name).resolve()
        return None

    def reached(self, path):
        """{kind of foreign header: the chain of includes that leads to it}"""
        chains, seen, queue = {}, {path}, [(path, [])]
        for file, chain in queue:
            for line, name, target in self.includes(file):
                step = chain + [(line, name)]
                for kind, pattern in FOREIGN:
                    if target is None and pattern.search(name):
                        chains.setdefault(kind, step)
                if target is not None and target not in seen:
                    seen.add(target)
                    queue.append((target, step))
        return chains

    def place(self, path):
        """(top folder, layer or None): include/convoy/comm/x.h -> ("include", "comm")"""
        parts = path.relative_to(self.root).parts
        if parts[:2] == ("include", "convoy"):
            return "include", parts[2] if len(parts) > 3 else None
        return parts[0], parts[1] if len(parts) > 2 else None


def check(root):
    tree = Tree(root)
    complaints = []

    def complain(path, line, text):
        complaints.append(f"{path.relative_to(tree.root)}:{line}: {text}")

    for path in tree.files:
        top, layer = tree.place(path)
        layered = top in ("include", "src") and layer is not None
        if layered and layer not in HEIGHT:
            complain(path, 1, f"'{layer}' is no layer; layers are {', '.join(HEIGHT)}")
            continue
        for line, name, target in tree.includes(path):
            if target is None:
                if name.startswith("convoy/") and name not in GENERATED:
                    complain(path, line, f"{name} does not exist")
                continue
            other_top, other = tree.place(target)
            if top == "include" and other_top != "include":
                complain(path, line, f"a public header includes {name}, which is not installed")
            if top == "examples" and other_top == "src":
                complain(path, line, f"an example includes {name}, which is not installed")
            if layered and other_top in ("include", "src") and other != layer:
                if other is None:
                    complain(path, line, f"a layer includes {name}; only programs do")
                elif HEIGHT.get(other, 0) >= HEIGHT[layer]:
                    where = "beside" if HEIGHT[other] == HEIGHT[layer] else "above"
                    complain(path, line, f"{layer} includes {name}: {other} lies {where} it")
            if layered and other_top not in ("include", "src"):
                complain(path, line, f"{layer} includes {name}, which is outside the layers")
        chains = tree.reached(path)

        def through(kind):
            return " -> ".join(name for _, name in chains[kind])

        if top in ("include", "src", "tests") and layer in HEIGHT:
            for kind, free in (("Torch", TORCH_FREE), ("MPI", MPI_FREE)):
                if layer in free and kind in chains:
                    complain(path, chains[kind][0][0],
                             f"{layer} must stay free of {kind}: {through(kind)}")
        if "Torch" in chains and "protobuf" in chains:
            complain(path, chains["protobuf"][0][0],
                     f"one unit with Torch ({through('Torch')}) and protobuf "
                     f"({through('protobuf')}): their protobuf versions clash")
    return complaints, len(tree.files)


def self_test():
    good = {
        "include/convoy/convoy.h": "#include <convoy/parallel/p.h>\n",
        "include/convoy/base/b.h": "#include <string>\n",
        "include/convoy/comm/c.h": '#include "convoy/base/b.h"\n',
        "include/convoy/comm/m.h": "#include <mpi.h>\n",
        "include/convoy/model/m.h": "#include <torch/torch.h>\n",
        "include/convoy/parallel/p.h": '#include <torch/torch.h>\n#include "convoy/comm/c.h"\n',
        "src/comm/c.cc": '#include "convoy/comm/c.h"\n#include "comm/inner.h"\n#include <mpi.h>\n',
        "src/comm/inner.h": '/*\n#include <torch/torch.h>\n*/\n// #include <torch/torch.h>\n',
        "src/server/s.cc": "#include <grpcpp/grpcpp.h>\n",
        "src/train/t.cc": '#include "convoy/parallel/p.h"\n#include "convoy/train/plugin_tag.h"\n',
        "tests/parallel/t.cc": "#include <torch/torch.h>\n",
        "examples/e/e.cc": "#include <convoy/convoy.h>\n",
    }
    bad = [
        ("src/base/x.cc", '#include "convoy/comm/c.h"\n', "comm lies above it"),
        ("src/optim/x.cc", '#include "convoy/model/m.h"\n', "model lies beside it"),
        ("src/plan/x.cc", '#include "convoy/parallel/p.h"\n', "parallel lies beside it"),
        ("src/comm/x.cc", "#include <torch/torch.h>\n", "comm must stay free of Torch"),
        ("src/comm/x.cc", '\n\n#  include "ATen/ATen.h"\n', "x.cc:3: comm must stay free of Torch"),
        ("tests/comm/x.cc", "#include <c10/util/x.h>\n", "comm must stay free of Torch"),
        ("src/server/x.cc", '#include "convoy/y.h"\n', "convoy/y.h does not exist"),
        ("src/data/x.cc", '#include "convoy/comm/m.h"\n',
         "data must stay free of MPI: convoy/comm/m.h -> mpi.h"),
        ("src/base/x.h", "#include <mpi.h>\n", "base must stay free of MPI"),
        ("src/train/x.cc", '#include "convoy/parallel/p.h"\n#include <google/protobuf/any.h>\n',
         "their protobuf versions clash"),
        ("src/train/x.cc", "#include <convoy/convoy.h>\n", "only programs do"),
        ("src/train/x.cc", '#include "tests/parallel/t.cc"\n', "outside the layers"),
        ("include/convoy/comm/x.h", '#include "comm/inner.h"\n', "which is not installed"),
        ("examples/e/x.cc", '#include "comm/inner.h"\n', "which is not installed"),
        ("src/misc/x.cc", "\n", "'misc' is no layer"),
    ]
    failures = 0
    for name, text, expected in [(None, None, None)] + bad:
        with tempfile.TemporaryDirectory() as folder:
            files = dict(good)
            if name:
                files[name] = text
            for file, content in files.items():
                path = pathlib.Path(folder) / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
            complaints, _ = check(folder)
        fine = any(expected in line for line in complaints) if name else not complaints
        if not fine:
            failures += 1
            print(f"self-test: expected {expected!r} for {name}, got {complaints}")
    print(f"self-test: {len(bad) + 1 - failures} of {len(bad) + 1} cases as expected")
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) > 1 or any(a.startswith("-") for a in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parent.parent)
    if not (root / "include" / "convoy").is_dir():
        print(f"check_layers: {root} is no Convoy source tree: it has no include/convoy",
              file=sys.stderr)
        return 2
    complaints, count = check(root)
    for line in complaints:
        print(line)
    print(f"check_layers: {count} files, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
