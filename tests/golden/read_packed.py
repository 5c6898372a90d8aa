#!/usr/bin/env python3
"""Packed data as other programs see it.

  read_packed.py CONVOY FOLDER               packs a folder of images and reads the tar and its index
                                             with Python alone
  read_packed.py --webdataset CONVOY FOLDER  reads the tar with WebDataset, too (pip install
                                             webdataset pillow xxhash: 1.0.2, 13.0.0 and 4.1.0 tried),
                                             compares the checksums and decodes the images

FOLDER has files of any kind in it; they are copied into two classes, then given any number of labels.
Exit status 0 if all agree.
"""

import json
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
    """[(key, labels, offset, size, checksum)], names of classes: docs/formats/packed.md."""
    index = path.with_name(path.name + ".index").read_bytes()
    assert index[:8] == b"\x89CVIX\r\n\x1a"
    version, header, count, keys, classes, class_bytes, about, tar_bytes = struct.unpack_from(
        "<2I6Q", index, 8)
    assert version in (1, 2) and (header, tar_bytes) == (128, path.stat().st_size)
    label_count, = struct.unpack_from("<Q", index, 80)
    assert version == 2 or label_count == 0
    assert len(index) == header + 48 * count + keys + class_bytes + 4 * label_count + about
    at_keys = header + 48 * count
    at_labels = at_keys + keys + class_bytes
    names = index[at_keys + keys:at_labels].split(b"\0")[:-1]
    assert len(names) == classes
    records, begin, first = [], 0, 0
    for i in range(count):
        offset, size, checksum, _, end, last = struct.unpack_from("<6Q", index, header + 48 * i)
        key = index[at_keys + begin:at_keys + end].decode()
        if version == 1:
            labels = [last]
        else:
            labels = list(struct.unpack_from(f"<{last - first}I", index, at_labels + 4 * first))
            first = last
        assert all(label < classes for label in labels)
        records.append((key, labels, offset, size, checksum))
        begin = end
    return records, [name.decode() for name in names]


def labels_beside(tar, members, stem):
    """What the member beside an image says, which is taken out of `members`."""
    if member := members.pop(stem + ".cls", None):
        return [int(tar.extractfile(member).read())]
    return json.load(tar.extractfile(members.pop(stem + ".cls.json")))


def check_tarfile(path, folder, labels_of):
    records, names = read_index(path)
    data = path.read_bytes()
    with tarfile.open(path) as tar:
        members = {member.name: member for member in tar.getmembers()}
        classes = tar.extractfile("__convoy__/classes.txt").read().decode().splitlines()
        assert classes == names == ["cat", "dog"], classes
        for key, labels, offset, size, _ in records:
            member = members.pop(key)
            assert (member.offset_data, member.size) == (offset, size)
            assert tar.extractfile(member).read() == data[offset:offset + size]
            stem = key.rsplit(".", 1)[0]
            assert labels_beside(tar, members, stem) == labels
            assert [names[label] for label in labels] == labels_of(key), key
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
    for sample, (key, labels, *_) in zip(samples, records):
        stem, extension = key.rsplit(".", 1)
        said = [sample["cls"]] if "cls" in sample else sample["cls.json"]
        assert (sample["__key__"], said) == (stem, labels)
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
        paths = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
        many = {p: ["cat", "dog"][:i % 3] for i, p in enumerate(paths)}
        table = pathlib.Path(scratch) / "labels.tsv"
        table.write_text("".join(f"{p}\t{','.join(many[p])}\n" for p in paths))
        for options, labels_of in ([], lambda key: [key.split("/")[0]]), (
                ["--label-table", table], many.get):
            subprocess.run([convoy, "pack", "--keep", "--overwrite", folder, path, *options],
                           check=True, stdout=subprocess.DEVNULL)
            records = check_tarfile(path, folder, labels_of)
            print(f"tarfile: {len(records)} records")
            if others:
                print(f"webdataset: {check_webdataset(path, records)} samples")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
