"""Writes mel.json: log Mel filter-bank energies of short signals, by numpy from the formulas in docs/data-sets.md, and by
Kaldi, whose filters are the same. (Its pre-emphasis is another one: it begins anew in each frame.)

    python3 tests/golden/make_mel.py      (needs numpy and kaldi-native-fbank; made with 2.4 and 1.23)

A case has who made it, the samples (numbers of 16 bits), the settings, and energies[frame][filter].
"""

import json
import pathlib

import packages

packages.add()

import kaldi_native_fbank  # noqa: E402
import numpy as np  # noqa: E402


def mel(hz):
    return 2595 * np.log10(1 + np.asarray(hz, float) / 700)


# Rows: filters; columns: frequencies of the transform.
def triangles(count, size, rate, low, high):
    edges = np.linspace(mel(low), mel(high), count + 2)
    places = mel(np.arange(size // 2 + 1) * rate / size)
    return np.array([np.interp(places, edges[m:m + 3], [0, 1, 0]) for m in range(count)])


def energies(samples, rate, filters, window_ms, step_ms, window, preemphasis, low_hz, high_hz, floor):
    x = np.asarray(samples, float) / 32768
    x = np.append(x[0], x[1:] - preemphasis * x[:-1])
    length, step = round(rate * window_ms / 1000), round(rate * step_ms / 1000)
    size = 2 ** int(np.ceil(np.log2(length)))
    frames = np.lib.stride_tricks.sliding_window_view(x, length)[::step]
    taper = {"hamming": np.hamming, "hann": np.hanning}[window](length)
    power = np.abs(np.fft.rfft(frames * taper, size)) ** 2
    bank = triangles(filters, size, rate, low_hz, high_hz or rate / 2)
    return np.log(np.maximum(power @ bank.T, floor))


# The same by Kaldi, in single precision.
def kaldi(samples, rate, filters, window_ms, step_ms, window, preemphasis, low_hz, high_hz, floor):
    options = kaldi_native_fbank.FbankOptions()
    frame, bank = options.frame_opts, options.mel_opts
    frame.samp_freq, frame.frame_length_ms, frame.frame_shift_ms = rate, window_ms, step_ms
    frame.dither, frame.remove_dc_offset, frame.preemph_coeff = 0, False, preemphasis
    frame.window_type = {"hamming": "hamming", "hann": "hanning"}[window]
    bank.num_bins, bank.low_freq, bank.high_freq = filters, low_hz, high_hz
    options.energy_floor = 0
    result = kaldi_native_fbank.OnlineFbank(options)
    result.accept_waveform(rate, [sample / 32768 for sample in samples])
    result.input_finished()
    found = [result.get_frame(i) for i in range(result.num_frames_ready)]
    return np.maximum(np.array(found, float), np.log(floor))


# A sweep in noise, louder and louder, after some silence.
def signal(seed, rate, count, silence):
    t = np.arange(count) / rate
    noise = np.random.default_rng(seed).standard_normal(count)
    sweep = np.sin(2 * np.pi * (200 * t + 0.4 * rate / (2 * t[-1]) * t ** 2))
    x = (0.5 * sweep + 0.05 * noise) * np.linspace(0.01, 1, count)
    x[:silence] = 0
    return np.round(x * 32767).astype(int).tolist()


SETTINGS = [
    (energies, 8000, 640, 210, dict(filters=40, window_ms=25, step_ms=10, window="hamming", preemphasis=0.97, low_hz=0,
                                    high_hz=0, floor=1e-8)),
    (energies, 16000, 1000, 0, dict(filters=23, window_ms=25, step_ms=10, window="hann", preemphasis=0, low_hz=20,
                                    high_hz=7000, floor=1e-10)),
    (energies, 11025, 520, 0, dict(filters=40, window_ms=25, step_ms=7.5, window="hamming", preemphasis=0.9, low_hz=100,
                                   high_hz=0, floor=1e-3)),
    (energies, 8000, 300, 0, dict(filters=12, window_ms=32, step_ms=5, window="hann", preemphasis=0.97, low_hz=0,
                                  high_hz=4000, floor=1e-8)),
    (kaldi, 8000, 440, 0, dict(filters=40, window_ms=25, step_ms=10, window="hamming", preemphasis=0, low_hz=0, high_hz=0,
                               floor=1e-8)),
    (kaldi, 16000, 720, 0, dict(filters=23, window_ms=25, step_ms=10, window="hann", preemphasis=0, low_hz=20,
                                high_hz=7600, floor=1e-8)),
]

if __name__ == "__main__":
    cases = []
    for seed, (by, rate, count, silence, settings) in enumerate(SETTINGS):
        samples = signal(seed, rate, count, silence)
        found = by(samples, rate, **settings)
        cases.append(dict(by="Kaldi" if by is kaldi else "numpy", rate=rate, **settings, samples=samples,
                          energies=[[round(e, 7) for e in row] for row in found.tolist()]))
    path = pathlib.Path(__file__).parent / "mel.json"
    path.write_text("[" + ",\n".join(json.dumps(case) for case in cases) + "]\n")
