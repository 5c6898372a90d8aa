"""The peer of strategy "downpour": LeNet on MNIST with TensorFlow's ParameterServerStrategy, asynchronous.

    python3 tf_parameter_server.py --data data/mnist --workers 4 --servers 2 --batch 64 --updates 4000

Starts servers and workers as processes of its own on this machine, with a thread each unless --threads says
otherwise, and is their coordinator. Each worker fetches the variables for every mini-batch and applies its gradient
to them, as n_fetch = n_push = 1 does. --model mlp is 784-512-512-10, as `model.name = "mlp"`. Prints one line of JSON:
examples per second after --warm-up updates, and the accuracy on the test images at the end. Needs tensorflow.
"""

import argparse
import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", choices=("lenet", "mlp"), default="lenet")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--optimizer", choices=("sgd", "adagrad"), default="adagrad")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--updates", type=int, default=3750)
    parser.add_argument("--warm-up", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--serve", nargs=2, metavar=("ROLE", "INDEX"), help=argparse.SUPPRESS)
    parser.add_argument("--cluster", help=argparse.SUPPRESS)
    return parser.parse_args()


def free_ports(count):
    sockets = []
    for _ in range(count):
        one = socket.socket()
        one.bind(("127.0.0.1", 0))
        sockets.append(one)
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def set_threads(tf, threads):
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(max(2, threads))


def serve(options):
    import tensorflow as tf
    set_threads(tf, options.threads)
    role, index = options.serve
    cluster = tf.train.ClusterSpec(json.loads(options.cluster))
    tf.distribute.Server(cluster, job_name=role, task_index=int(index), protocol="grpc").join()


def read_idx(path):
    import numpy as np
    with gzip.open(path, "rb") as file:
        data = file.read()
    sizes = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])]
    return np.frombuffer(data, np.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)


def read_mnist(folder, split):
    import numpy as np
    images = read_idx(os.path.join(folder, f"{split}-images-idx3-ubyte.gz")).astype(np.float32) / 255
    labels = read_idx(os.path.join(folder, f"{split}-labels-idx1-ubyte.gz")).astype(np.int64)
    return ((images - 0.1307) / 0.3081)[..., None], labels


def make_model(tf, name):
    layers = tf.keras.layers
    if name == "mlp":
        stack = [layers.Flatten(), layers.Dense(512, "relu"), layers.Dense(512, "relu"), layers.Dense(10)]
    else:
        stack = [layers.Conv2D(20, 5), layers.MaxPool2D(), layers.Conv2D(50, 5), layers.MaxPool2D(),
                 layers.Flatten(), layers.Dense(500, "relu"), layers.Dense(10)]
    return tf.keras.Sequential([tf.keras.Input((28, 28, 1)), *stack])


def coordinate(options, cluster):
    import tensorflow as tf
    set_threads(tf, options.threads)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), rpc_layer="grpc", task_type="chief", task_id=0)
    # Without partitioner: these variables are small, and servers take turns.
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    images, labels = read_mnist(options.data, "train")

    def dataset_of_worker():
        def dataset(_):
            whole = tf.data.Dataset.from_tensor_slices((images, labels))
            return whole.shuffle(len(images)).repeat().batch(options.batch, drop_remainder=True).prefetch(4)
        return strategy.distribute_datasets_from_function(dataset)

    with strategy.scope():
        model = make_model(tf, options.model)
        # The optimizers of Keras 3 don't run in this strategy: their rules, written out.
        weights = list(model.trainable_variables)
        sums = [tf.Variable(tf.zeros_like(w), trainable=False) for w in weights]

    rate = tf.constant(options.lr)
    adagrad = options.optimizer == "adagrad"

    @tf.function
    def update(iterator):
        def replica(x, y):
            with tf.GradientTape() as tape:
                scores = model(x, training=True)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, scores))
            for w, s, g in zip(weights, sums, tape.gradient(loss, weights)):
                if adagrad:
                    tf.raw_ops.ResourceApplyAdagradV2(var=w.handle, accum=s.handle, lr=rate, epsilon=1e-10, grad=g)
                else:
                    tf.raw_ops.ResourceApplyGradientDescent(var=w.handle, alpha=rate, delta=g)
            return loss
        x, y = next(iterator)
        return strategy.run(replica, (x, y))

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    iterator = iter(coordinator.create_per_worker_dataset(dataset_of_worker))
    for _ in range(options.warm_up):
        coordinator.schedule(update, args=(iterator,))
    coordinator.join()
    begun = time.time()
    for _ in range(options.updates):
        coordinator.schedule(update, args=(iterator,))
    coordinator.join()
    seconds = time.time() - begun
    tests, truth = read_mnist(options.data, "t10k")
    right = sum(int((model(tests[i:i + 500]).numpy().argmax(1) == truth[i:i + 500]).sum())
                for i in range(0, len(tests), 500))
    print(json.dumps({"peer": "tensorflow " + tf.__version__, "model": options.model, "workers": options.workers,
                      "servers": options.servers, "batch": options.batch, "optimizer": options.optimizer,
                      "threads": options.threads, "updates": options.updates, "seconds": round(seconds, 3),
                      "examples_per_s": round(options.batch * options.updates / seconds, 1),
                      "accuracy": right / len(tests)}))


def main():
    options = parse()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    os.environ.setdefault("TF_GRPC_REUSE_CHANNEL", "1")
    if options.serve:
        return serve(options)
    ports = free_ports(options.workers + options.servers + 1)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    cluster = {"chief": addresses[:1], "worker": addresses[1:1 + options.workers],
               "ps": addresses[1 + options.workers:]}
    children, done = [], threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

    def watch():
        while not done.wait(0.5):
            for child in children:
                if child.poll() is not None and not done.is_set():
                    print(f"a server or worker ended with status {child.returncode}", file=sys.stderr)
                    for other in children:
                        other.kill()
                    os._exit(1)

    try:
        for role, count in (("ps", options.servers), ("worker", options.workers)):
            for index in range(count):
                children.append(subprocess.Popen([sys.executable, *sys.argv, "--serve", role, str(index), "--cluster",
                                                  json.dumps(cluster)]))
        threading.Thread(target=watch, daemon=True).start()
        coordinate(options, cluster)
        sys.stdout.flush()
    finally:
        done.set()
        for child in children:
            child.kill()


if __name__ == "__main__":
    main()
