"""Epochs of training from image files against the same from memory: figures 10 and 11 of Kumar et al. 2017.

    python3 epochs.py --convoy build/bin/convoy --images FOLDER --model lenet --size 28 --channels 1 [--ranks 2]

FOLDER has a subfolder of images per class. Four ways to the same batches: the files (reader image_folder), a pack
of the images as they are (packed), the pack in memory in parts (memory), and one copy of it for the host (host).
Each under three conditions:

  warm       everything is in the page cache
  cold       the page cache is dropped ten times a second, as if the data were much larger than it
  throttled  as cold, and the disk gives --reads reads a second and --rate bytes a second

Images and pack lie on a file system of their own (a loop device), the only one that is throttled. For each the
seconds of the first epoch, the median of the others, that over `memory`'s, and the time of the whole run, loading
included, are printed; --json FILE gets one object per row. Needs root, and for `throttled` the blkio controller of
control groups, version 1; where that is missing, the condition is left out, with the reason.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

WAYS = ("image_folder", "packed", "memory", "host")


def recipe(options, way, mounted):
    reader, store = ("image_folder", "files") if way == "image_folder" else (
        "packed", way if way in ("memory", "host") else "files")
    source = f'path = "{mounted}/images"' if way == "image_folder" else f'files = ["{mounted}/images.tar"]'
    return f'''name = "epochs"
[model]
name = "{options.model}"
[data]
reader = "{reader}"
size = {options.size}
channels = {options.channels}
store = "{store}"
[data.augment]
crop = "random_resized"
[data.train]
{source}
[optimizer]
name = "sgd"
lr = 0.01
[training]
batch = {options.batch}
epochs = {options.epochs}
[checkpoint]
every_epochs = 0
[output]
tensorboard = false
'''


@contextlib.contextmanager
def dropping(wanted):
    """Drops the page cache again and again."""
    if not wanted:
        yield
        return
    end = threading.Event()

    def work():
        while not end.wait(0.1):
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("1")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@contextlib.contextmanager
def disk(folder, images):
    """A file system of its own with the images, so that nothing else is throttled; gives its folder."""
    files = [path for path in pathlib.Path(images).rglob("*") if path.is_file()]
    blocks = sum(path.stat().st_size // 4096 + 1 for path in files)
    image, mounted = folder / "disk", folder / "mounted"
    with open(image, "wb") as file:
        file.truncate(3 * blocks * 4096 + (64 << 20))
    subprocess.run(["mkfs.ext4", "-q", "-N", str(len(files) + 2000), image], check=True)
    mounted.mkdir()
    subprocess.run(["mount", "-o", "loop", image, mounted], check=True)
    try:
        shutil.copytree(images, mounted / "images")
        yield mounted
    finally:
        subprocess.run(["umount", mounted], check=True)


@contextlib.contextmanager
def throttled(options, mounted, wanted):
    """A control group whose reads from that file system are limited; gives its list of processes."""
    if not wanted:
        yield None
        return
    device = os.stat(mounted).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    root = pathlib.Path(tempfile.mkdtemp(prefix="convoy-blkio-"))
    with contextlib.ExitStack() as stack:
        stack.callback(root.rmdir)
        subprocess.run(["mount", "-t", "cgroup", "-o", "blkio", "none", root], check=True)
        stack.callback(subprocess.run, ["umount", root], check=True)
        group = root / f"convoy-epochs-{os.getpid()}"
        group.mkdir()
        stack.callback(group.rmdir)
        (group / "blkio.throttle.read_bps_device").write_text(f"{number} {options.rate}")
        (group / "blkio.throttle.read_iops_device").write_text(f"{number} {options.reads}")
        yield group / "cgroup.procs"


def measure(options, way, condition, mounted, folder):
    run = folder / f"{way}-{condition}"
    (folder / "recipe.toml").write_text(recipe(options, way, mounted))
    cold = condition != "warm"
    with throttled(options, mounted, condition == "throttled") as group, dropping(cold):
        command = [options.convoy, "train", str(folder / "recipe.toml"), "-n", str(options.ranks),
                   "--set", f"output.folder={run}"]

        def enter():
            if group:
                group.write_text(str(os.getpid()))

        began = time.monotonic()
        result = subprocess.run(command, preexec_fn=enter, capture_output=True, text=True)
        seconds = time.monotonic() - began
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    rows = [json.loads(line) for line in open(run / "metrics.jsonl")]
    epochs = [row["time_s"] for row in rows if row["kind"] == "epoch"]
    samples = [row["samples"] for row in rows if row["kind"] == "epoch"][0]
    return {"model": options.model, "way": way, "condition": condition, "ranks": options.ranks, "samples": samples,
            "first_epoch_s": epochs[0], "epoch_s": statistics.median(epochs[1:]), "epochs_s": epochs,
            "run_s": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--convoy", required=True)
    parser.add_argument("--images", required=True, type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--model", required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--channels", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--conditions", nargs="+", default=["warm", "cold", "throttled"])
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--rate", type=int, default=20_000_000, help="bytes a second (default: 20,000,000)")
    parser.add_argument("--reads", type=int, default=500, help="reads a second (default: 500)")
    parser.add_argument("--json")
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("mounting, dropping caches and throttling need root")
    if not pathlib.Path(options.images).is_dir():
        parser.error(f"--images {options.images}: no such folder")
    rows = []
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="convoy-epochs-",
                                                               dir=os.environ.get("TMPDIR", "/var/tmp")))
        folder = pathlib.Path(name)
        mounted = stack.enter_context(disk(folder, options.images))
        subprocess.run([options.convoy, "pack", mounted / "images", mounted / "images.tar", "--keep"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        print(f"{'condition':10} {'from':13} {'first epoch':>12} {'epoch':>9} {'over memory':>12} {'whole run':>10}")
        for condition in options.conditions:
            of_condition = []
            for way in options.ways:
                try:
                    of_condition.append(measure(options, way, condition, mounted, folder))
                except (OSError, subprocess.CalledProcessError) as problem:
                    print(f"{condition:10} not measured: {problem}")
                    break
            memory = next((row["epoch_s"] for row in of_condition if row["way"] == "memory"), None)
            for row in of_condition:
                row["over_memory"] = row["epoch_s"] / memory if memory else None
                ratio = f"{row['over_memory']:10.2f} x" if memory else f"{'':12}"
                print(f"{condition:10} {row['way']:13} {row['first_epoch_s']:10.2f} s {row['epoch_s']:7.2f} s {ratio}"
                      f" {row['run_s']:8.1f} s", flush=True)
            rows += of_condition
    if options.json:
        with open(options.json, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
