"""Epochs of training from image files against the same from memory: figures 10 and 11 of Kumar et al. 2017.

    python3 epochs.py --convoy build/bin/convoy --images FOLDER --model lenet --size 28 --channels 1 [--ranks 2]

FOLDER has a subfolder of images per class. Four ways to the same batches: the files (reader image_folder), a pack
of the images as they are (packed), the pack in memory in parts (memory), and one copy of it for the host (host).
Each under three conditions:

  warm       everything is in the page cache
  cold       the page cache is dropped ten times a second, as if the data were much larger than it
  throttled  as cold, and the disk gives --reads reads a second and --rate bytes a second

For each the seconds of the first epoch, the median of the others, that over `memory`'s, and the time of the whole
run, loading included, are printed; --json FILE gets one object per row. Dropping and throttling need root, and the
latter the blkio controller of control groups, version 1. A condition that can't be had is left out, with the reason.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

WAYS = ("image_folder", "packed", "memory", "host")


def recipe(options, way, pack):
    reader, store = ("image_folder", "files") if way == "image_folder" else (
        "packed", way if way in ("memory", "host") else "files")
    source = f'path = "{options.images}"' if way == "image_folder" else f'files = ["{pack}"]'
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
def throttled(options, wanted):
    """A control group whose reads from the disk of the images are limited; gives its list of processes."""
    if not wanted:
        yield None
        return
    device = os.stat(options.images).st_dev
    # Limits go to whole disks.
    name = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    disk = (name.parent if (name / "partition").exists() else name) / "dev"
    number = disk.read_text().strip()
    root = pathlib.Path(tempfile.mkdtemp(prefix="convoy-blkio-"))
    subprocess.run(["mount", "-t", "cgroup", "-o", "blkio", "none", root], check=True)
    group = root / "convoy-epochs"
    group.mkdir()
    try:
        (group / "blkio.throttle.read_bps_device").write_text(f"{number} {options.rate}")
        (group / "blkio.throttle.read_iops_device").write_text(f"{number} {options.reads}")
        yield group / "cgroup.procs"
    finally:
        group.rmdir()
        subprocess.run(["umount", root], check=True)
        root.rmdir()


def measure(options, way, condition, pack, folder):
    run = folder / f"{way}-{condition}"
    (folder / "recipe.toml").write_text(recipe(options, way, pack))
    cold = condition != "warm"
    with throttled(options, condition == "throttled") as group, dropping(cold):
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
    rows = []
    with tempfile.TemporaryDirectory(prefix="convoy-epochs-", dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = pathlib.Path(name)
        pack = folder / "images.tar"
        subprocess.run([options.convoy, "pack", options.images, str(pack), "--keep"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        print(f"{'condition':10} {'from':13} {'first epoch':>12} {'epoch':>9} {'over memory':>12} {'whole run':>10}")
        for condition in options.conditions:
            of_condition = []
            for way in options.ways:
                try:
                    of_condition.append(measure(options, way, condition, pack, folder))
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
