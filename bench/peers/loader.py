"""Peers of `convoy bench loader`: the same crops per second, by the loaders of others.

    python3 loader.py PEER FILE.tar [--threads 1] [--repetitions 7] [--seconds 1] [--batch 64]

PEER is one of
  pillow        torchvision.transforms.v2 on Pillow images      torch==2.11.0 torchvision==0.26.0 pillow==12.0.0
  torchvision   the same on tensors, with torchvision.io's decoder (of the whole picture)
  tf.data       tf.image.decode_and_crop_jpeg, resize, flip     tensorflow-cpu==2.20.0
  dali          fn.decoders.image_random_crop, resize, crop_mirror_normalize, on CPU
                                                                nvidia-dali-cuda120==2.4.0
  ffcv          RandomResizedCropRGBImageDecoder, flip, NormalizeImage; its own file of the same images, encoded
                anew with quality 90                            ffcv==1.0.2 numpy==1.26.4 numba torch, OpenCV

All JPEGs of the tar are held in memory. Random resized crop (area 0.08 to 1, ratio 3/4 to 4/3) to 224 x 224,
bilinear with antialias where the peer has it, mirrored half of the time, normalized to float32. Prints one
JSON object: images_per_s is the median over repetitions.
"""

import argparse
import json
import os
import statistics
import tarfile
import time

SIZE = 224
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def records_of(path):
    with tarfile.open(path) as tar:
        return [tar.extractfile(m).read() for m in tar if m.name.lower().endswith((".jpg", ".jpeg"))]


def torch_epoch(records, options, with_pillow):
    import io

    import numpy as np
    import torch
    import torchvision
    from PIL import Image
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    steps = [v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip(),
             v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)]
    transform = v2.Compose(steps)

    class Records(torch.utils.data.Dataset):
        def __len__(self):
            return len(records)

        def __getitem__(self, i):
            if with_pillow:
                return transform(Image.open(io.BytesIO(records[i])).convert("RGB"))
            data = torch.from_numpy(np.frombuffer(records[i], np.uint8).copy())
            return transform(torchvision.io.decode_jpeg(data, torchvision.io.ImageReadMode.RGB))

    # One thread of work: in this process. More: so many worker processes.
    workers = 0 if options.threads == 1 else options.threads
    loader = torch.utils.data.DataLoader(Records(), options.batch, shuffle=True,
                                         num_workers=workers, persistent_workers=workers > 0)
    return lambda: sum(len(batch) for batch in loader)


def tensorflow_epoch(records, options):
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    tf.config.threading.set_intra_op_parallelism_threads(1)

    def transform(data):
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(data), tf.zeros([1, 0, 4]), min_object_covered=0,
            aspect_ratio_range=(3 / 4, 4 / 3), area_range=(0.08, 1),
            use_image_if_no_bounding_boxes=True)
        window = tf.concat([begin[:2], size[:2]], 0)
        image = tf.image.decode_and_crop_jpeg(data, window, channels=3, dct_method="INTEGER_ACCURATE")
        image = tf.image.resize(image, (SIZE, SIZE), antialias=options.antialias)
        image = tf.image.random_flip_left_right(image)
        return (image / 255 - MEAN) / DEVIATION

    settings = tf.data.Options()
    settings.threading.private_threadpool_size = options.threads
    settings.autotune.enabled = False
    data = tf.data.Dataset.from_tensor_slices(records).shuffle(len(records))
    data = data.map(transform, num_parallel_calls=options.threads).batch(options.batch)
    data = data.prefetch(2).with_options(settings)
    return lambda: sum(len(batch) for batch in data)


def dali_epoch(records, options):
    import numpy as np
    from nvidia.dali import fn, pipeline_def, types

    arrays = [np.frombuffer(record, np.uint8) for record in records]

    @pipeline_def(batch_size=options.batch, num_threads=options.threads, device_id=None, seed=1)
    def pipeline():
        data = fn.external_source(lambda info: arrays[info.idx_in_epoch % len(arrays)],
                                  batch=False, dtype=types.UINT8)
        image = fn.decoders.image_random_crop(data, device="cpu", output_type=types.RGB,
                                              random_area=[0.08, 1], random_aspect_ratio=[3 / 4, 4 / 3])
        image = fn.resize(image, resize_x=SIZE, resize_y=SIZE, interp_type=types.INTERP_LINEAR,
                          antialias=options.antialias)
        return fn.crop_mirror_normalize(image, dtype=types.FLOAT, output_layout="HWC",
                                        mirror=fn.random.coin_flip(),
                                        mean=[255 * m for m in MEAN], std=[255 * d for d in DEVIATION])

    pipe = pipeline()
    pipe.build()

    def epoch():
        done = 0
        while done < len(records):
            done += len(pipe.run()[0])
        return done

    return epoch


def ffcv_epoch(records, options):
    import io
    import tempfile

    import numpy as np
    from ffcv.fields import IntField, RGBImageField
    from ffcv.loader import Loader, OrderOption
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip
    from ffcv.writer import DatasetWriter
    from PIL import Image

    class Records:
        def __len__(self):
            return len(records)

        def __getitem__(self, i):
            return np.array(Image.open(io.BytesIO(records[i])).convert("RGB")), i

    file = tempfile.NamedTemporaryFile(suffix=".beton")
    DatasetWriter(file.name, {"image": RGBImageField(write_mode="jpg", jpeg_quality=90), "label": IntField()},
                  num_workers=1).from_indexed_dataset(Records())
    image = [RandomResizedCropRGBImageDecoder((SIZE, SIZE), scale=(0.08, 1), ratio=(3 / 4, 4 / 3)),
             RandomHorizontalFlip(),
             NormalizeImage(255 * np.array(MEAN), 255 * np.array(DEVIATION), np.float32)]
    loader = Loader(file.name, batch_size=options.batch, num_workers=options.threads, order=OrderOption.RANDOM,
                    os_cache=True, drop_last=False, pipelines={"image": image, "label": None})

    def epoch():
        file.flush()  # which keeps it: it goes with its last user
        return sum(len(batch[0]) for batch in loader)

    return epoch


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=["pillow", "torchvision", "tf.data", "dali", "ffcv"])
    parser.add_argument("file")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--no-antialias", dest="antialias", action="store_false",
                        help="tf.data and dali: their faster resizing")
    options = parser.parse_args()
    if options.peer == "ffcv":
        options.antialias = None  # resizes by the areas of pixels
    records = records_of(options.file)
    if options.peer == "tf.data":
        epoch = tensorflow_epoch(records, options)
    elif options.peer == "dali":
        epoch = dali_epoch(records, options)
    elif options.peer == "ffcv":
        epoch = ffcv_epoch(records, options)
    else:
        epoch = torch_epoch(records, options, options.peer == "pillow")

    epoch()
    rates = []
    for _ in range(options.repetitions):
        done, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < options.seconds:
            done += epoch()
        rates.append(done / (time.perf_counter() - begin))
    print(json.dumps({"peer": options.peer, "threads": options.threads, "antialias": options.antialias,
                      "images_per_s": statistics.median(rates),
                      "images_per_s_min": min(rates), "images_per_s_max": max(rates)}))


if __name__ == "__main__":
    main()
