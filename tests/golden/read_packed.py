#!/usr/bin/env python3
"""Packed data as other programs see it.

  read_packed.py CONVOY FOLDER               packs a folder of images and reads the tar and its index
                                             with Python alone
  read_packed.py --webdataset CONVOY FOLDER  reads the tar with WebDataset, too (pip install
                                             webdataset pillow xxhash: 1.0.2, 13.0.0 and 4.1.0 tried),
                                             compares the checksums and decodes the images

FOLDER has files of any kind in it; they are copied into two classes. Exit status 0 if all agree.
"""

import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile


def make_folder(images, folder):
    """Two classes, with names that stretch what a tar holds."""
    names = {"cat": "{}", "dog": "deep/" * 30 + "caf\u00e9 {}"}
    for kind, name in names.items():
        for image in sorted(images.iterdir()):
            if image.suffix in (".jpg", ".png"):
                # gray.jpg and gray.png would get the same key.
                unique = f"{image.stem}_{image.suffix[1:]}{image.suffix}"
                path = folder / kind / name.format(unique)
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(image, path)


def read_index(path):
    """[(key, label, offset, size, checksum)], names of classes: docs/formats/packed.md."""
    index = path.with_name(path.name + ".index").read_bytes()
    assert index[:8] == b"\x89CVIX\r\n\x1a"
    version, header, count, keys, classes, class_bytes, about, tar_bytes = struct.unpack_from(
        "<2I6Q", index, 8)
    assert (version, header, tar_bytes) == (1, 128, path.stat().st_size)
    assert len(index) == header + 48 * count + keys + class_bytes + about
    at_keys = header + 48 * count
    names = index[at_keys + keys:at_keys + keys + class_bytes].split(b"\0")[:-1]
    assert len(names) == classes
    records, begin = [], 0
    for i in range(count):
        offset, size, checksum, _, end, label, flags = struct.unpack_from("<5Q2I", index,
                                                                          header + 48 * i)
        key = index[at_keys + begin:at_keys + end].decode()
        assert flags == 0 and label < classes
        records.append((key, label, offset, size, checksum))
        begin = end
    return records, [name.decode() for name in names]


def check_tarfile(path, folder):
    records, names = read_index(path)
    data = path.read_bytes()
    with tarfile.open(path) as tar:
        members = {member.name: member for member in tar.getmembers()}
        classes = tar.extractfile("__convoy__/classes.txt").read().decode().splitlines()
        assert classes == names == ["cat", "dog"], classes
        for key, label, offset, size, _ in records:
            member = members.pop(key)
            assert (member.offset_data, member.size) == (offset, size)
            assert tar.extractfile(member).read() == data[offset:offset + size]
            stem = key.rsplit(".", 1)[0]
            assert int(tar.extractfile(members.pop(stem + ".cls")).read()) == label
            assert key.split("/")[0] == names[label]
            original = folder / key
            assert original.read_bytes() == data[offset:offset + size], key
    assert sorted(members) == ["__convoy__/about.txt", "__convoy__/classes.txt"], members
    return records


def check_webdataset(path, records):
    import webdataset
    import xxhash

    data = path.read_bytes()
    for key, _, offset, size, checksum in records:
        assert xxhash.xxh3_64_intdigest(data[offset:offset + size]) == checksum, key
    samples = list(webdataset.WebDataset(str(path), shardshuffle=False).decode("pil"))
    assert len(samples) == len(records)
    for sample, (key, label, *_) in zip(samples, records):
        stem, extension = key.rsplit(".", 1)
        assert (sample["__key__"], sample["cls"]) == (stem, label)
        assert sample[extension].size[0] > 0
    return len(samples)


def main(arguments):
    others = "--webdataset" in arguments
    arguments = [a for a in arguments if a != "--webdataset"]
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    convoy, images = pathlib.Path(arguments[0]).resolve(), pathlib.Path(arguments[1])
    with tempfile.TemporaryDirectory() as scratch:
        folder, path = pathlib.Path(scratch) / "images", pathlib.Path(scratch) / "out.tar"
        make_folder(images, folder)
        subprocess.run([convoy, "pack", "--keep", folder, path], check=True,
                       stdout=subprocess.DEVNULL)
        records = check_tarfile(path, folder)
        print(f"tarfile: {len(records)} records")
        if others:
            print(f"webdataset: {check_webdataset(path, records)} samples")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
